//! Scaled dot-product attention as networks say it, for the rules that make an operator of it.

use crate::parts::{Parts, dims, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, Attr, DataType, Dim, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Attention with the heads moved apart before and together after: `q`, `k` and `v` have the axes batch, words,
/// elements of all heads.
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
    let parts = Parts::of(cx, back.out);
    parts.node("Reshape", back.out)?;
    let moved = back.data;
    let found = attention(cx, &parts, words_first(&parts, moved)?)?;
    let query = words_first(&parts, found.query)?;
    let value = words_first(&parts, found.value)?;
    let key = match found.key {
        Key::Heads(key) => words_first(&parts, key)?,
        Key::Words(key) => key,
    };
    let [q, k, v] = [query, key, value].map(|v| joined(cx, &parts, v));
    let (q, k, v) = (q?, k?, v?);
    parts.closed()?;
    if found.scale == 0.0 {
        return Skip::because("a scale of 0 stands for the default");
    }
    of_type(cx, q, types)?;
    let Some(heads) = dims(cx, query)?.get(2).and_then(Dim::known) else { return Skip::unlike() };
    let together = are_heads(&dims(cx, back.out)?, &dims(cx, moved)?);
    if !together || !heads_agree(cx, [query, key, value])? {
        return Skip::because("the heads are not put together as they were taken apart");
    }
    if let Some(bias) = found.bias {
        is_full(cx, bias, query, key)?;
    }
    Ok(MultiHead { q, k, v, heads, scale: found.scale, bias: found.bias })
}

/// `softmax(scale * query * key^T + bias) * value`; the three have the axes batch, heads, words, elements.
struct Attention {
    query: ValueId,
    key: Key,
    value: ValueId,
    scale: f64,
    bias: Option<ValueId>,
}

/// The keys, whose last two axes the product exchanges.
#[derive(Clone, Copy)]
enum Key {
    /// In the order of the queries.
    Heads(ValueId),
    /// With the axes batch, words, heads, elements.
    Words(ValueId),
}

/// The attention that computes `out`.
fn attention(cx: &Rewriter, parts: &Parts, out: ValueId) -> Result<Attention, Skip> {
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
fn scaled(parts: &Parts, v: ValueId) -> Result<(ValueId, Key, f64), Skip> {
    let whole = parts.product(v);
    let [product] = whole.factors[..] else { return Skip::unlike() };
    let [query, key] = parts.pair("MatMul", product)?;
    let (query, key) = (parts.product(query), parts.product(key));
    let ([query_of], [key_of]) = (&query.factors[..], &key.factors[..]) else {
        return Skip::unlike();
    };
    let turned = parts.node("Transpose", *key_of)?;
    let inner = parts.product(turned.input(0).ok_or_else(unlike)?);
    let [x] = inner.factors[..] else { return Skip::unlike() };
    let key_of = match turned.attr("perm") {
        Some(Attr::Ints(perm)) if perm[..] == [0, 1, 3, 2] => Key::Heads(x),
        Some(Attr::Ints(perm)) if perm[..] == [0, 2, 3, 1] => Key::Words(x),
        _ => return Skip::unlike(),
    };
    Ok((*query_of, key_of, whole.scale * query.scale * key.scale * inner.scale))
}

/// `x` of `v = Transpose<perm = [0, 2, 1, 3]>(x)`: words before heads.
fn words_first(parts: &Parts, v: ValueId) -> Result<ValueId, Skip> {
    let node = parts.node("Transpose", v)?;
    match node.attr("perm") {
        Some(Attr::Ints(perm)) if perm[..] == [0, 2, 1, 3] => node.input(0).ok_or_else(unlike),
        _ => Skip::unlike(),
    }
}

/// `x` with the axes batch, words, all elements, of which `v` has those of the heads apart.
fn joined(cx: &Rewriter, parts: &Parts, v: ValueId) -> Result<ValueId, Skip> {
    let x = parts.node("Reshape", v)?.input(0).ok_or_else(unlike)?;
    let (flat, split) = (dims(cx, x)?, dims(cx, v)?);
    match are_heads(&flat, &split) {
        true => Ok(x),
        false => Skip::because(format!("the heads of {} are not known", cx.name(v))),
    }
}

/// Whether `split` are the sizes `flat` with the last one as heads and elements.
fn are_heads(flat: &[Dim], split: &[Dim]) -> bool {
    let ([b, s, all], [b_split, s_split, heads, size]) = (flat, split) else { return false };
    let product = heads.known().zip(size.known()).and_then(|(h, d)| h.checked_mul(d));
    b.same(b_split) && s.same(s_split) && product.is_some() && product == all.known()
}

/// Whether batch, heads and words fit; queries and keys have elements of one size.
fn heads_agree(cx: &Rewriter, [q, k, v]: [ValueId; 3]) -> Result<bool, Skip> {
    let (q, k, v) = (dims(cx, q)?, dims(cx, k)?, dims(cx, v)?);
    let same = |a: &[Dim], b: &[Dim], at: &[usize]| at.iter().all(|i| a[*i].same(&b[*i]));
    Ok(same(&q, &k, &[0, 2, 3]) && same(&k, &v, &[0, 1, 2]))
}

/// The kernels repeat a bias along the axes of batch and heads only.
fn is_full(cx: &Rewriter, bias: ValueId, query: ValueId, key: ValueId) -> Rewrite {
    let (bias, q, k) = (dims(cx, bias)?, dims(cx, query)?, dims(cx, key)?);
    let [batch, heads, queries, keys] = &bias[..] else {
        return Skip::because("the bias does not have four axes");
    };
    let one_or = |d: &Dim, size: &Dim| d.known() == Some(1) || d.same(size);
    match one_or(batch, &q[0]) && one_or(heads, &q[2]) && queries.same(&q[1]) && keys.same(&k[1]) {
        true => Ok(()),
        false => Skip::because("the bias does not have a value for each query and key"),
    }
}
