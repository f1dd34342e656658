//! Attention over the tokens of a call and of the cache.

use super::mask::Tokens;
use super::rotary::Turn;
use super::weights::Net;
use super::{Alibi, Attention, Decoder, Layer};
use onnxd_plugin_sdk::build::{Result, Var};

/// What layers share.
pub(super) struct Shared {
    pub(super) tokens: Tokens,
    pub(super) turns: Vec<Turn>,
    /// What is added to scores, by the window: [B, 1, S, T].
    pub(super) biases: Vec<(Option<usize>, Var)>,
    pub(super) alibi: Option<Var>,
}

/// A layer, and what the cache has of it.
pub(super) struct Place<'p> {
    pub(super) number: usize,
    pub(super) layer: Layer,
    /// What names of its weights begin with.
    pub(super) prefix: &'p str,
    pub(super) past: [Var; 2],
}

/// What attention gives, and the cache with the new keys and values.
pub(super) fn attention(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    at: &Place<'_>,
) -> Result<(Var, [Var; 2])> {
    let Decoder { names, hidden, heads, kv_heads, head, .. } = *net.parts();
    let name = |part: &str| format!("{}{part}", at.prefix);
    let [q, k, v] = net.heads(at.prefix)?.map(|linear| net.apply(x, &linear));
    let q = net.whole_norm(q?, &name(names.q_norm), heads * head)?;
    let k = net.whole_norm(k?, &name(names.k_norm), kv_heads * head)?;
    let q = net.head_norm(apart(net, q, heads)?, &name(names.q_norm), heads)?;
    let k = net.head_norm(apart(net, k, kv_heads)?, &name(names.k_norm), kv_heads)?;
    let v = apart(net, v?, kv_heads)?;
    let turn = at.layer.rope.map(|rope| &shared.turns[rope]);
    let turned = |x| turn.map_or(Ok(x), |turn| turn.apply(net.b, x, head));
    let (q, k) = (turned(q)?, turned(k)?);
    let join = |past, new| net.b.concat([past, new]).axis(2).one();
    let cache = [join(at.past[0], k)?, join(at.past[1], v)?];
    let mixed = mixed(net, shared, (q, cache), at)?;
    let together = net.b.transpose(mixed).perm(vec![0, 2, 1, 3]).one()?;
    let together = net.b.reshape(together, vec![0, 0, (heads * head) as i64]).one()?;
    Ok((net.project(together, &name(names.o), [heads * head, hidden])?, cache))
}

/// [B, S, heads D] as [B, heads, S, D], cut where the family says so.
fn apart(net: &Net<'_>, x: Var, heads: usize) -> Result<Var> {
    let x = match net.d.attention.clip {
        Some(bound) => net.b.clip(x).min(-bound).max(bound).one()?,
        None => x,
    };
    let x = net.b.reshape(x, vec![0, 0, heads as i64, net.d.head as i64]).one()?;
    net.b.transpose(x).perm(vec![0, 2, 1, 3]).one()
}

/// Values by the softmax of scores. Queries that share a key have an axis of their own.
fn mixed(
    net: &Net<'_>,
    shared: &Shared,
    (q, [k, v]): (Var, [Var; 2]),
    at: &Place<'_>,
) -> Result<Var> {
    let b = net.b;
    let Decoder { heads, kv_heads, head, .. } = *net.parts();
    let group = heads / kv_heads;
    let is_grouped = group > 1;
    let k = b.transpose(k).perm(vec![0, 1, 3, 2]).one()?;
    let grouped = |x| if is_grouped { b.unsqueeze(x, vec![2]) } else { Ok(x) };
    let q = match is_grouped {
        true => b.reshape(q, vec![0, kv_heads as i64, group as i64, -1, head as i64]).one()?,
        false => q,
    };
    let bias = shared.biases.iter().find(|(window, _)| *window == at.layer.window);
    let bias =
        bias.map_or_else(|| shared.tokens.bias(b, at.layer.window), |(_, bias)| Ok(*bias))?;
    let scores = scores(net, b.mat_mul(q, grouped(k)?)?, shared.alibi, at.number)?;
    let scores = b.add(scores, grouped(bias)?)?;
    let shares = match net.d.attention.has_sinks {
        true => with_sinks(net, scores, at.prefix)?,
        false => b.softmax(scores).axis(-1).one()?,
    };
    let mixed = b.mat_mul(shares, grouped(v)?)?;
    match is_grouped {
        true => b.reshape(mixed, vec![0, heads as i64, -1, head as i64]).one(),
        false => Ok(mixed),
    }
}

/// Scores as the family scales and bounds them.
fn scores(net: &Net<'_>, scores: Var, alibi: Option<Var>, layer: usize) -> Result<Var> {
    let b = net.b;
    let Attention { scale, by_layer, cap, alibi: kind, .. } = net.d.attention;
    let scale = if by_layer { scale / (layer + 1) as f64 } else { scale };
    let add = |scores, when| match alibi.filter(|_| kind == when) {
        Some(alibi) => b.add(scores, alibi),
        None => Ok(scores),
    };
    let scores = add(scores, Alibi::Raw)?;
    let scores = if scale == 1.0 { scores } else { b.mul(scores, scale)? };
    let scores = add(scores, Alibi::Scaled)?;
    cap.map_or(Ok(scores), |cap| b.mul(b.tanh(b.div(scores, cap)?)?, cap))
}

/// Softmax with a further score for each head, whose share is dropped.
fn with_sinks(net: &Net<'_>, scores: Var, prefix: &str) -> Result<Var> {
    let b = net.b;
    let Decoder { names, heads, kv_heads, .. } = *net.parts();
    let name = format!("{prefix}{}", names.sinks);
    let sinks = net.w.tensor(&name, &[heads])?;
    let dims = match heads == kv_heads {
        true => vec![heads, 1, 1],
        false => vec![kv_heads, heads / kv_heads, 1, 1],
    };
    let sinks = net.constant(&name, super::weights::checked(&name, sinks.reshaped(dims))?);
    let greatest = b.reduce_max(scores).axes(vec![-1]).keepdims(1).one()?;
    let greatest = b.max([greatest, sinks])?;
    let shares = b.exp(b.sub(scores, greatest)?)?;
    let sum = b.reduce_sum(shares).axes(vec![-1]).keepdims(1).one()?;
    let all = b.add(sum, b.exp(b.sub(sinks, greatest)?)?)?;
    b.div(shares, all)
}
