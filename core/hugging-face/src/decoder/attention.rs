//! Attention over the tokens of a call and of the cache.

use super::shared::{CachedLayer, Shared, cut, scale};
use super::weights::Net;
use super::{Decoder, OPERATORS};
use crate::layers::checked;
use onnxd_plugin_sdk::build::{Call, Result, Var, op};

/// What attention gives, and the cache with the new keys and values.
pub(super) fn attention(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let Decoder { names, hidden, heads, kv_heads, head, .. } = *net.d;
    let name = |part: &str| format!("{}{part}", at.prefix);
    let [q, k, v] = net.heads(at.prefix)?.map(|linear| net.apply(x, &linear));
    let q = cut(net, net.whole_norm(q?, &name(names.q_norm), heads * head)?)?;
    let k = cut(net, net.whole_norm(k?, &name(names.k_norm), kv_heads * head)?)?;
    let v = cut(net, v?)?;
    let is_operator = net.b.opset() >= OPERATORS && !net.d.attention.has_sinks;
    let (mixed, cache) = match is_operator && net.d.attention.head_norm.is_none() {
        true => in_one(net, shared, [q, k, v], at)?,
        false => by_heads(net, shared, [q, k, v], at)?,
    };
    Ok((net.project(mixed, &name(names.o), [heads * net.d.value, hidden])?, cache))
}

/// Attention by the operator, on heads that lie together: [B, S, heads D].
fn in_one(
    net: &Net<'_>,
    shared: &Shared,
    [q, k, v]: [Var; 3],
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let Decoder { heads, kv_heads, head, .. } = *net.d;
    let turn = at.layer.rope.map(|rope| &shared.turns[rope]);
    let turned = |x, heads| turn.map_or(Ok(x), |turn| turn.together(net.b, x, [heads, head]));
    let call = net.b.attention(turned(q, heads)?, turned(k, kv_heads)?, v);
    let call = call.q_num_heads(heads as i64).kv_num_heads(kv_heads as i64);
    operator(net, (call, [k, v]), shared, at)
}

/// The operator on `new` keys and values with the cache, the bias, and what the family does to scores.
fn operator(
    net: &Net<'_>,
    (call, new): (Call<'_, op::Attention>, [Var; 2]),
    shared: &Shared,
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let call = call.attn_mask(shared.bias(at.layer.window)).scale(scale(net, at.number));
    let call = match at.past {
        Some([key, value]) => call.past_key(key).past_value(value),
        None => call,
    };
    let call = match net.d.attention.cap {
        Some(cap) => call.softcap(cap),
        None => call,
    };
    if at.past.is_none() {
        return Ok((call.one()?, new));
    }
    let [mixed, key, value] = call.outputs()?;
    Ok((mixed, [key, value]))
}

/// Attention on heads that lie apart, with norms of heads and what else the operator lacks.
fn by_heads(
    net: &Net<'_>,
    shared: &Shared,
    [q, k, v]: [Var; 3],
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let Decoder { names, heads, kv_heads, head, .. } = *net.d;
    let b = net.b;
    let apart = |x, heads: usize| {
        let x = b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
        b.transpose(x).perm(vec![0, 2, 1, 3]).one()
    };
    let name = |part: &str| format!("{}{part}", at.prefix);
    let (q, k, v) = (apart(q, heads)?, apart(k, kv_heads)?, apart(v, kv_heads)?);
    let normed = |q, k| {
        let q = net.head_norm(q, &name(names.q_norm), heads)?;
        Ok((q, net.head_norm(k, &name(names.k_norm), kv_heads)?))
    };
    let turn = at.layer.rope.map(|rope| &shared.turns[rope]);
    let turned = |x| turn.map_or(Ok(x), |turn| turn.apply(b, x, head));
    let (q, k) = match net.d.attention.norm_after_turn {
        true => normed(turned(q)?, turned(k)?)?,
        false => {
            let (q, k) = normed(q, k)?;
            (turned(q)?, turned(k)?)
        }
    };
    joined(net, shared, [q, k, v], at)
}

/// The same for heads that have turned, behind the projection of what they give.
pub(super) fn finished(
    net: &Net<'_>,
    shared: &Shared,
    heads: [Var; 3],
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let (mixed, cache) = joined(net, shared, heads, at)?;
    let Decoder { names, hidden, heads, value, .. } = *net.d;
    let name = format!("{}{}", at.prefix, names.o);
    Ok((net.project(mixed, &name, [heads * value, hidden])?, cache))
}

/// Attention on heads [B, heads, S, D] with the cache; they are together again in what it gives.
fn joined(
    net: &Net<'_>,
    shared: &Shared,
    [q, k, v]: [Var; 3],
    at: &CachedLayer<'_>,
) -> Result<(Var, [Var; 2])> {
    let b = net.b;
    let (mixed, cache) = if b.opset() >= OPERATORS && !net.d.attention.has_sinks {
        operator(net, (b.attention(q, k, v), [k, v]), shared, at)?
    } else {
        let join = |past, new| b.concat([past, new]).axis(2).one();
        let cache = match at.past {
            Some([key, value]) => [join(key, k)?, join(value, v)?],
            None => [k, v],
        };
        (mixed(net, shared, (q, cache), at)?, cache)
    };
    let together = b.transpose(mixed).perm(vec![0, 2, 1, 3]).one()?;
    let size = net.d.heads * net.d.value;
    Ok((b.reshape(together, vec![0, 0, size as i64]).one()?, cache))
}

/// Values by the softmax of scores. Queries that share a key have an axis of their own.
fn mixed(
    net: &Net<'_>,
    shared: &Shared,
    (q, [k, v]): (Var, [Var; 2]),
    at: &CachedLayer<'_>,
) -> Result<Var> {
    let b = net.b;
    let Decoder { heads, kv_heads, head, .. } = *net.d;
    let group = heads / kv_heads;
    let is_grouped = group > 1;
    let k = b.transpose(k).perm(vec![0, 1, 3, 2]).one()?;
    let grouped = |x| if is_grouped { b.unsqueeze(x, vec![2]) } else { Ok(x) };
    let q = match is_grouped {
        true => b.reshape(q, vec![0, kv_heads as i64, group as i64, -1, head as i64]).one()?,
        false => q,
    };
    let scores = scores(net, b.mat_mul(q, grouped(k)?)?, at.number)?;
    let scores = b.add(scores, grouped(shared.bias(at.layer.window))?)?;
    let shares = match net.d.attention.has_sinks {
        true => with_sinks(net, scores, at.prefix)?,
        false => b.softmax(scores).axis(-1).one()?,
    };
    let mixed = b.mat_mul(shares, grouped(v)?)?;
    match is_grouped {
        true => b.reshape(mixed, vec![0, heads as i64, -1, net.d.value as i64]).one(),
        false => Ok(mixed),
    }
}

/// Scores as the family scales and bounds them.
fn scores(net: &Net<'_>, scores: Var, layer: usize) -> Result<Var> {
    let (b, scale) = (net.b, scale(net, layer));
    let scores = if scale == 1.0 { scores } else { b.mul(scores, scale)? };
    let cap = net.d.attention.cap;
    cap.map_or(Ok(scores), |cap| b.mul(b.tanh(b.div(scores, cap)?)?, cap))
}

/// Softmax with a further score for each head, whose share is dropped.
fn with_sinks(net: &Net<'_>, scores: Var, prefix: &str) -> Result<Var> {
    let b = net.b;
    let Decoder { names, heads, kv_heads, .. } = *net.d;
    let name = format!("{prefix}{}", names.sinks);
    let sinks = net.w.tensor(&name, &[heads])?;
    let dims = match heads == kv_heads {
        true => vec![heads, 1, 1],
        false => vec![kv_heads, heads / kv_heads, 1, 1],
    };
    let sinks = net.constant(&name, checked(&name, sinks.reshaped(dims))?);
    let greatest = b.reduce_max(scores).axes(vec![-1]).keepdims(1).one()?;
    let greatest = b.max([greatest, sinks])?;
    let shares = b.exp(b.sub(scores, greatest)?)?;
    let sum = b.reduce_sum(shares).axes(vec![-1]).keepdims(1).one()?;
    let all = b.add(sum, b.exp(b.sub(sinks, greatest)?)?)?;
    b.div(shares, all)
}
