//! Scaled dot-product attention as networks say it, for the rules that make an operator of it.

use crate::parts::{Parts, dims, unlike};
use onnxd_plugin_sdk::ir::{Attr, Dim, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewriter, Skip};

/// `softmax(scale * query * key^T + bias) * value`; the three have the axes batch, heads, words, elements.
pub(crate) struct Attention {
    pub(crate) query: ValueId,
    pub(crate) key: Key,
    pub(crate) value: ValueId,
    pub(crate) scale: f64,
    pub(crate) bias: Option<ValueId>,
}

/// The keys, whose last two axes the product exchanges.
#[derive(Clone, Copy)]
pub(crate) enum Key {
    /// In the order of the queries.
    Heads(ValueId),
    /// With the axes batch, words, heads, elements.
    Words(ValueId),
}

/// The attention that computes `out`.
pub(crate) fn attention(cx: &Rewriter, parts: &Parts, out: ValueId) -> Result<Attention, Skip> {
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
pub(crate) fn words_first(parts: &Parts, v: ValueId) -> Result<ValueId, Skip> {
    let node = parts.node("Transpose", v)?;
    match node.attr("perm") {
        Some(Attr::Ints(perm)) if perm[..] == [0, 2, 1, 3] => node.input(0).ok_or_else(unlike),
        _ => Skip::unlike(),
    }
}

/// `x` with the axes batch, words, all elements, of which `v` has those of the heads apart.
pub(crate) fn joined(cx: &Rewriter, parts: &Parts, v: ValueId) -> Result<ValueId, Skip> {
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
