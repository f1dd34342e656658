//! Scaled dot-product attention as networks say it, for the rules that make an operator of it.

use crate::parts::{PatternNodes, dims, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, Attr, DataType, Dim, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Attention with the heads moved apart before and together after: `q`, `k` and `v` have the axes batch, words,
/// elements of all heads. Keys and values may both have the axes batch, heads, words, elements instead.
pub(crate) struct MultiHead {
    pub(crate) q: ValueId,
    pub(crate) k: ValueId,
    pub(crate) v: ValueId,
    pub(crate) heads: i64,
    pub(crate) scale: f64,
    /// With a value for each query and key.
    pub(crate) bias: Option<ValueId>,
}

/// The attention whose result `back` puts together, of elements of one of the types.
pub(crate) fn multi_head(
    cx: &Rewriter,
    back: &At<Reshape>,
    types: &[DataType],
) -> Result<MultiHead, Skip> {
    let parts = PatternNodes::from_root(cx, back.out);
    parts.node("Reshape", back.out)?;
    let moved = back.data;
    let attention_form = attention(cx, &parts, words_first(&parts, moved)?)?;
    let q = joined(cx, &parts, words_first(&parts, attention_form.query)?)?;
    let flat = parts.attempt(|| {
        let key = match attention_form.key {
            AttentionKeys::Heads(key) => words_first(&parts, key)?,
            AttentionKeys::Words(key) => key,
        };
        let value = words_first(&parts, attention_form.value)?;
        Ok((joined(cx, &parts, key)?, joined(cx, &parts, value)?))
    });
    let (k, v) = match (flat, attention_form.key) {
        (Ok(flat), _) => flat,
        (Err(_), AttentionKeys::Heads(key)) => (key, attention_form.value),
        (Err(why), AttentionKeys::Words(_)) => return Err(why),
    };
    parts.closed()?;
    attention_form.fits(cx, types)?;
    let Some(heads) = dims(cx, attention_form.query)?.get(1).and_then(Dim::known) else {
        return Skip::unlike();
    };
    if !are_heads(&dims(cx, back.out)?, &dims(cx, moved)?) {
        return Skip::because("the heads are not put together as they were taken apart");
    }
    Ok(MultiHead { q, k, v, heads, scale: attention_form.scale, bias: attention_form.bias })
}

/// `softmax(scale * query * key^T + bias) * value`; the three have the axes batch, heads, words, elements.
pub(crate) struct Attention {
    pub(crate) query: ValueId,
    pub(crate) key: AttentionKeys,
    pub(crate) value: ValueId,
    pub(crate) scale: f64,
    pub(crate) bias: Option<ValueId>,
}

/// The keys, whose last two axes the product exchanges.
#[derive(Clone, Copy)]
pub(crate) enum AttentionKeys {
    /// In the order of the queries.
    Heads(ValueId),
    /// With the axes batch, words, heads, elements.
    Words(ValueId),
}

impl AttentionKeys {
    /// The sizes of batch, heads, words and elements.
    fn dims(self, cx: &Rewriter) -> Result<Vec<Dim>, Skip> {
        match self {
            AttentionKeys::Heads(k) => dims(cx, k),
            AttentionKeys::Words(k) => {
                let mut sizes = dims(cx, k)?;
                if sizes.len() == 4 {
                    sizes.swap(1, 2);
                }
                Ok(sizes)
            }
        }
    }
}

impl Attention {
    /// Demands elements of one of the types, and sizes that fit without broadcasting.
    fn fits(&self, cx: &Rewriter, types: &[DataType]) -> Rewrite {
        if self.scale == 0.0 {
            return Skip::because("a scale of 0 stands for the default");
        }
        of_type(cx, self.query, types)?;
        let (q, k, v) = (dims(cx, self.query)?, self.key.dims(cx)?, dims(cx, self.value)?);
        let same = |a: &[Dim], b: &[Dim], at: &[usize]| {
            a.len() == 4 && b.len() == 4 && at.iter().all(|i| a[*i].same(&b[*i]))
        };
        if !same(&q, &k, &[0, 1, 3]) || !same(&k, &v, &[0, 1, 2]) {
            return Skip::because("the sizes of queries, keys and values are not known to fit");
        }
        match self.bias {
            Some(bias) => is_full(cx, bias, &q, &k[2]),
            None => Ok(()),
        }
    }
}

/// The attention that computes `out`, of elements of one of the types.
pub(crate) fn heads_apart(
    cx: &Rewriter,
    out: ValueId,
    types: &[DataType],
) -> Result<Attention, Skip> {
    let parts = PatternNodes::from_root(cx, out);
    let found = attention(cx, &parts, out)?;
    parts.closed()?;
    found.fits(cx, types)?;
    Ok(found)
}

/// The attention that computes `out`.
fn attention(cx: &Rewriter, parts: &PatternNodes, out: ValueId) -> Result<Attention, Skip> {
    let [weights, value] = parts.pair("MatMul", out)?;
    let softmax = parts.node("Softmax", weights)?;
    let logits = softmax.input(0).ok_or_else(unlike)?;
    let axis = softmax.int("axis", if cx.opset < 13 { 1 } else { -1 });
    if axis != -1 && axis != 3 || cx.rank(logits)? != 4 {
        return Skip::unlike();
    }
    let biased = parts.attempt(|| {
        parts.either(parts.pair("Add", logits)?, |product, bias| {
            Ok((scaled(parts, product)?, Some(bias)))
        })
    });
    let (found, bias) = match biased {
        Ok(found) => found,
        Err(_) => (scaled(parts, logits)?, None),
    };
    let (query, key, scale) = found;
    Ok(Attention { query, key, value, scale, bias })
}

/// `scale * query * key^T`, where the scale may stand at each of the three.
fn scaled(parts: &PatternNodes, v: ValueId) -> Result<(ValueId, AttentionKeys, f64), Skip> {
    let whole = parts.product(v);
    let [(1.0, product)] = whole.items[..] else { return Skip::unlike() };
    let [query, key] = parts.pair("MatMul", product)?;
    let (query, key) = (parts.product(query), parts.product(key));
    let ([(1.0, query_of)], [(1.0, key_of)]) = (&query.items[..], &key.items[..]) else {
        return Skip::unlike();
    };
    let turned = parts.node("Transpose", *key_of)?;
    let inner = parts.product(turned.input(0).ok_or_else(unlike)?);
    let [(1.0, x)] = inner.items[..] else { return Skip::unlike() };
    let key_of = match turned.attr("perm") {
        Some(Attr::Ints(perm)) if perm[..] == [0, 1, 3, 2] => AttentionKeys::Heads(x),
        Some(Attr::Ints(perm)) if perm[..] == [0, 2, 3, 1] => AttentionKeys::Words(x),
        _ => return Skip::unlike(),
    };
    Ok((*query_of, key_of, whole.number * query.number * key.number * inner.number))
}

/// `x` of `v = Transpose<perm = [0, 2, 1, 3]>(x)`: words before heads.
pub(crate) fn words_first(parts: &PatternNodes, v: ValueId) -> Result<ValueId, Skip> {
    let node = parts.node("Transpose", v)?;
    match node.attr("perm") {
        Some(Attr::Ints(perm)) if perm[..] == [0, 2, 1, 3] => node.input(0).ok_or_else(unlike),
        _ => Skip::unlike(),
    }
}

/// `x` with the axes batch, words, all elements, of which `v` has those of the heads apart.
pub(crate) fn joined(cx: &Rewriter, parts: &PatternNodes, v: ValueId) -> Result<ValueId, Skip> {
    let x = parts.node("Reshape", v)?.input(0).ok_or_else(unlike)?;
    let (flat, split) = (dims(cx, x)?, dims(cx, v)?);
    match are_heads(&flat, &split) {
        true => Ok(x),
        false => Skip::because(format!("the heads of {} are not known", cx.name(v))),
    }
}

/// Whether `split` are the sizes `flat` with the last one as heads and elements.
pub(crate) fn are_heads(flat: &[Dim], split: &[Dim]) -> bool {
    let ([b, s, all], [b_split, s_split, heads, size]) = (flat, split) else { return false };
    let product = heads.known().zip(size.known()).and_then(|(h, d)| h.checked_mul(d));
    b.same(b_split) && s.same(s_split) && product.is_some() && product == all.known()
}

/// The kernels repeat a bias along the axes of batch and heads only.
fn is_full(cx: &Rewriter, bias: ValueId, q: &[Dim], words: &Dim) -> Rewrite {
    let bias = dims(cx, bias)?;
    let [batch, heads, queries, keys] = &bias[..] else {
        return Skip::because("the bias does not have four axes");
    };
    let one_or = |d: &Dim, size: &Dim| d.known() == Some(1) || d.same(size);
    match one_or(batch, &q[0]) && one_or(heads, &q[1]) && queries.same(&q[2]) && keys.same(words) {
        true => Ok(()),
        false => Skip::because("the bias does not have a value for each query and key"),
    }
}
