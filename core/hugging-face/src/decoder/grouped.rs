//! Attention by ONNX Runtime's GroupQueryAttention, as ONNX Runtime GenAI expects it. It does not know of padding on
//! the left.

use super::rotary::Turn;
use super::shared::{BATCH, CachedLayer, NEW, Shared, TOTAL, cut, scale};
use super::tables::Lengths;
use super::weights::Net;
use super::{Decoder, HeadNorm, Mixer};
use crate::layers::Linear;
use onnxd_plugin_sdk::build::{Operand, Result, Var};
use onnxd_plugin_sdk::ir::{DataType, Dim, ValueType};

pub(super) const MICROSOFT: &str = "com.microsoft";

impl Decoder {
    /// Whether the operator computes what all layers do.
    pub(crate) fn is_grouped(&self) -> bool {
        let Decoder { head, value, ref attention, ref layers, .. } = *self;
        let norms = [HeadNorm::None, HeadNorm::Whole, HeadNorm::Shared];
        let is_plain = attention.alibi == 0.0 && attention.latent.is_none();
        let is_plain = is_plain && norms.contains(&attention.head_norm);
        // Kernels of ONNX Runtime demand heads of such sizes (seen in 1.31 and 1.32).
        let is_even = head == value && head.is_multiple_of(8);
        is_plain
            && is_even
            && !attention.norm_after_turn
            && layers.iter().all(|l| l.mixer == Mixer::Attention)
    }
}

/// What attention gives for [B, S, E], and the cache with the new keys and values.
pub(super) fn attention(
    net: &Net<'_>,
    shared: &Shared,
    x: Var,
    (at, lengths): (&CachedLayer<'_>, Lengths),
) -> Result<(Var, [Var; 2])> {
    let (b, d) = (net.b, net.d);
    let turn = at.layer.rope.map(|rope| (&d.ropes[rope], &shared.turns[rope], shared.tables[rope]));
    let outside = turn.filter(|(_, _, table)| table.is_none()).map(|(_, turn, _)| turn);
    let inside = turn.and_then(|(rope, _, table)| Some((rope, table?)));
    let (q, k, v) = queries_keys_values(net, x, at, outside)?;
    let past = match at.past {
        Some([key, value]) => [Some(key), Some(value)],
        None => [None, None],
    };
    let sinks = match d.attention.has_sinks {
        true => {
            let name = format!("{}{}", at.prefix, d.names.sinks);
            Some(net.constant(&name, net.w.tensor(&name, &[d.heads])?))
        }
        false => None,
    };
    let [cos, sin] = [inside.map(|(_, t)| t.cos), inside.map(|(_, t)| t.sin)];
    let [past_key, past_value] = past;
    let mut inputs = vec![
        Some(q),
        k,
        v,
        past_key,
        past_value,
        Some(lengths.last),
        Some(lengths.total),
        cos,
        sin,
        None,
        None,
        sinks,
    ];
    while inputs.last().is_some_and(Option::is_none) {
        inputs.pop();
    }
    let call = b.op(MICROSOFT, "GroupQueryAttention", inputs.into_iter().map(Operand::from));
    let call = call.set("num_heads", d.heads as i64).set("kv_num_heads", d.kv_heads as i64);
    let call = call.set("scale", scale(net, at.number));
    let call = match inside {
        Some((rope, _)) => {
            call.set("do_rotary", 1).set("rotary_interleaved", i64::from(rope.interleaved))
        }
        None => call,
    };
    let call = match at.layer.window {
        Some(window) => call.set("local_window_size", window as i64),
        None => call,
    };
    let call = match d.attention.cap {
        Some(cap) => call.set("softcap", cap),
        None => call,
    };
    let [mixed, key, value] = call.outputs()?;
    declare(net, mixed, [key, value]);
    let name = format!("{}{}", at.prefix, d.names.o);
    let mixed = net.project(mixed, &name, [d.heads * d.value, d.hidden])?;
    Ok((mixed, [key, value]))
}

/// The types of what the operator gives, which the builder does not know.
fn declare(net: &Net<'_>, mixed: Var, cache: [Var; 2]) {
    let [batch, new, total] = [BATCH, NEW, TOTAL].map(|name| Dim::Symbol(name.into()));
    let [size, heads, head] =
        [net.d.heads * net.d.head, net.d.kv_heads, net.d.head].map(|n| Dim::Known(n as i64));
    let given = ValueType::tensor(DataType::Float, [batch.clone(), new, size]);
    net.b.declare(mixed, given);
    let kept = ValueType::tensor(DataType::Float, [batch, heads, total, head]);
    cache.into_iter().for_each(|part| net.b.declare(part, kept.clone()));
}

/// Queries, keys and values, in one tensor where nothing stands between their projection and attention.
fn queries_keys_values(
    net: &Net<'_>,
    x: Var,
    at: &CachedLayer<'_>,
    outside: Option<&Turn>,
) -> Result<(Var, Option<Var>, Option<Var>)> {
    let Decoder { names, heads, kv_heads, head, .. } = *net.d;
    let parts = net.heads(at.prefix)?;
    let is_bare = net.d.attention.head_norm == HeadNorm::None && net.d.attention.clip.is_none();
    if is_bare && outside.is_none() {
        let name = format!("{}{}", at.prefix, names.qkv);
        if let Some(all) = Linear::joined(&name, &parts)? {
            return Ok((net.apply(x, &all)?, None, None));
        }
    }
    let [q, k, v] = parts.map(|linear| net.apply(x, &linear));
    let shaped = |x, name: &str, heads: usize| {
        let name = format!("{}{name}", at.prefix);
        let x = cut(net, net.whole_norm(x, &name, heads * head)?)?;
        let x = normed(net, x, &name, heads)?;
        outside.map_or(Ok(x), |turn| turn.together(net.b, x, [heads, head]))
    };
    let (q, k) = (shaped(q?, names.q_norm, heads)?, shaped(k?, names.k_norm, kv_heads)?);
    Ok((q, Some(k), Some(cut(net, v?)?)))
}

/// Norms of heads that lie together: [B, S, heads D].
fn normed(net: &Net<'_>, x: Var, name: &str, heads: usize) -> Result<Var> {
    if net.d.attention.head_norm != HeadNorm::Shared {
        return Ok(x);
    }
    let head = net.d.head;
    let apart = net.b.reshape(x, vec![0, 0, heads as i64, head as i64]).one()?;
    let apart = net.norm(apart, name, head)?;
    net.b.reshape(apart, vec![0, 0, (heads * head) as i64]).one()
}
