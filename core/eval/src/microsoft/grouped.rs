//! Attention with a cache whose keys and values serve groups of queries, on top of the standard's.

use super::attention::columns;
use super::standard;
use crate::call::{KernelCall, integers};
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};

/// Inputs from the scale of keys on, and scores that lead nowhere: not computed.
const OTHERS: std::ops::RangeInclusive<usize> = 10..=15;

/// Heads at most: sums of their numbers and sizes stay far from the end of the numbers.
const HEADS_MAX: i64 = 1 << 20;

/// Tokens of a call: rows, new tokens, and those of the cache.
#[derive(Clone, Copy)]
struct Lengths {
    batch: usize,
    new: usize,
    past: usize,
}

/// `query, key?, value?, past_key?, past_value?, seqlens_k, total_sequence_length, cos_cache?, sin_cache?,
/// position_ids?`. A row has one token more than `seqlens_k` says; its new ones follow those of the cache.
pub(super) fn group_query_attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    refuse!(OTHERS.clone().any(|slot| call.opt(slot).is_some()) || call.int("smooth_softmax", -1)? > 0 =>
        Fault::unsupported("sinks, biases, norms and caches of integers are not computed"));
    let (heads, kv_heads) = (call.int("num_heads", 0)?, call.int("kv_num_heads", 0)?);
    let is_count = |heads: &i64| (1..=HEADS_MAX).contains(heads);
    refuse!(![heads, kv_heads].iter().all(is_count) => "{heads} and {kv_heads} are no numbers of heads");
    let [q, k, v] = parts(call, heads as usize, kv_heads as usize)?;
    let [batch, new, _] = *q.dims() else {
        return Err(Fault::invalid(format!("{q:?} does not have three axes")));
    };
    let past = call.opt(3).and_then(|past| past.dims().get(2).copied()).unwrap_or(0);
    let lengths = Lengths { batch, new, past };
    let tokens = tokens(call, lengths)?;
    let turned = |x: Tensor, heads: i64| match call.flag("do_rotary", false)? {
        true => turned(call, &x, heads, lengths),
        false => Ok(x),
    };
    let (q, k) = (turned(q, heads)?, turned(k, kv_heads)?);
    let bias = bias(call, &tokens, lengths)?;
    let mut attrs = vec![("q_num_heads", Attr::Int(heads)), ("kv_num_heads", Attr::Int(kv_heads))];
    for name in ["scale", "softcap"] {
        let value = call.float_opt(name)?.filter(|value| *value != 0.0);
        attrs.extend(value.map(|value| (name, Attr::Float(value))));
    }
    let inputs = [Some(&q), Some(&k), Some(&v), Some(&bias), call.opt(3), call.opt(4)];
    standard(call, "Attention", &attrs, &inputs, 3)
}

/// Queries, keys and values, which may lie in one tensor.
fn parts(call: &KernelCall, heads: usize, kv_heads: usize) -> Outcome<[Tensor; 3]> {
    let q = call.x(0)?;
    match (call.opt(1), call.opt(2)) {
        (Some(k), Some(v)) => Ok([q.clone(), k.clone(), v.clone()]),
        (None, None) => {
            let width = q.dims().last().copied().unwrap_or(0);
            let size = width / (heads + 2 * kv_heads);
            let (q_end, k_end) = (heads * size, (heads + kv_heads) * size);
            Ok([columns(q, 0, q_end)?, columns(q, q_end, k_end)?, columns(q, k_end, width)?])
        }
        _ => Err(Fault::invalid("keys without values, or values without keys")),
    }
}

/// Tokens of each row. Rows whose new tokens lie elsewhere in the cache than behind it are not computed.
fn tokens(call: &KernelCall, Lengths { batch, new, past }: Lengths) -> Outcome<Vec<usize>> {
    let last = integers(call.x(5)?)?;
    refuse!(last.len() != batch => "`seqlens_k` has {} numbers for {batch} rows", last.len());
    let whole = past.saturating_add(new);
    last.iter()
        .map(|last| match usize::try_from(last.saturating_add(1)) {
            Ok(tokens) if tokens == whole || past == 0 && tokens <= whole => Ok(tokens),
            _ => Err(Fault::unsupported("rows of other lengths than the cache are not computed")),
        })
        .collect()
}

fn turned(call: &KernelCall, x: &Tensor, heads: i64, lengths: Lengths) -> Outcome<Tensor> {
    let Lengths { batch, new, past } = lengths;
    let (cos, sin) = (call.x(7)?, call.x(8)?);
    let positions = match call.opt(9) {
        Some(positions) => positions.clone(),
        None => {
            let count = call.room(DataType::Int64, &[batch, new])?;
            let row = (past..past + new).map(|at| at as i64);
            Tensor::from_vec([batch, new], row.cycle().take(count).collect::<Vec<_>>())
        }
    };
    let dims = 2 * cos.dims().last().copied().unwrap_or(0) as i64;
    let attrs = [
        ("num_heads", Attr::Int(heads)),
        ("interleaved", Attr::Int(call.int("rotary_interleaved", 0)?)),
        ("rotary_embedding_dim", Attr::Int(dims)),
    ];
    let inputs = [Some(x), Some(cos), Some(sin), Some(&positions)];
    Ok(standard(call, "RotaryEmbedding", &attrs, &inputs, 1)?.swap_remove(0))
}

/// What is added to scores: nothing for keys up to the query's own, within the window, of the row's tokens.
fn bias(call: &KernelCall, tokens: &[usize], lengths: Lengths) -> Outcome<Tensor> {
    let Lengths { batch, new, past } = lengths;
    let window = call.int("local_window_size", -1)?;
    let dims = [batch, 1, new, past.saturating_add(new)];
    let mut sums = Vec::with_capacity(call.room(DataType::Float, &dims)?);
    for count in tokens {
        for at in past..past + new {
            let seen = |key: usize| {
                let is_near = window < 0 || (at.saturating_sub(key) as i64) < window;
                key <= at && is_near && (key < *count || key == at)
            };
            sums.extend((0..past + new).map(|key| if seen(key) { 0.0 } else { f32::MIN }));
        }
    }
    Ok(Tensor::from_vec(dims, sums))
}
