//! Attention with its projections, on top of the standard's.

use super::product::in_float;
use super::{first, standard};
use crate::attention::merge_heads;
use crate::call::{KernelCall, integers, scalar};
use crate::cells::{joined, take};
use crate::fault::{Fault, Outcome};
use crate::linear::{centered, multiplied};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Tensor};

/// What all forms of attention come down to: three axes each, and what was there before.
struct AttentionOperands {
    /// Queries, keys, values: `[batch, length, heads * size]`.
    parts: [Tensor; 3],
    past: Option<[Tensor; 2]>,
    mask: Option<Tensor>,
    bias: Option<Tensor>,
}

/// Elements `from..to` of the last axis.
pub(super) fn columns(x: &Tensor, from: usize, to: usize) -> Outcome<Tensor> {
    let rank = x.rank();
    let mut tables: Vec<Vec<usize>> = x.dims().iter().map(|d| (0..*d).collect()).collect();
    tables[rank - 1] = (from..to).collect();
    take(x, &tables, None)
}

/// The three parts of the last axis.
fn thirds(x: &Tensor, sizes: [usize; 3]) -> Outcome<[Tensor; 3]> {
    let [q, k, v] = sizes;
    let whole = q.checked_add(k).and_then(|n| n.checked_add(v));
    refuse!(x.dims().last().copied() != whole => "{x:?} does not divide into {sizes:?}");
    Ok([columns(x, 0, q)?, columns(x, q, q + k)?, columns(x, q + k, q + k + v)?])
}

/// Whether a key does not count: batch, query, key.
type Hidden = Box<dyn Fn(usize, usize, usize) -> bool>;

/// What is added to the logits for a mask of `[batch, 1, queries or 1, keys]`: nothing where a key
/// counts. Masks are lengths (with the starts behind them or not), or one number per key.
fn added(call: &KernelCall, mask: &Tensor, [batch, queries, keys]: [usize; 3]) -> Outcome<Tensor> {
    let filter = call.float("mask_filter_value", -10000.0)?;
    let values = integers(mask)?;
    let (rows, hidden): (usize, Hidden) = match *mask.dims() {
        [n] if n == batch => (1, Box::new(move |b, _, j| j as i64 >= values[b])),
        [n] if n == 2 * batch => {
            let outside = move |b: usize, _, j: usize| {
                let j = j as i64;
                j >= values[b] || j < values[batch + b]
            };
            (1, Box::new(outside))
        }
        [b, k] if [b, k] == [batch, keys] => {
            (1, Box::new(move |b, _, j| values[b * keys + j] <= 0))
        }
        [b, q, k] if [b, q, k] == [batch, queries, keys] => {
            (queries, Box::new(move |b, i, j| values[(b * queries + i) * keys + j] <= 0))
        }
        _ => return Err(Fault::unsupported(format!("the mask {mask:?} is not computed"))),
    };
    let dims = [batch, 1, rows, keys];
    let total = call.room(DataType::Float, &dims)?;
    let mut sums = Vec::with_capacity(total);
    for (b, i) in (0..batch).flat_map(|b| (0..rows).map(move |i| (b, i))) {
        sums.extend((0..keys).map(|j| if hidden(b, i, j) { filter } else { 0.0 }));
    }
    Ok(Tensor::from_vec(dims, sums))
}

/// The result in three axes, keys and values in four.
fn attend(call: &KernelCall, o: &AttentionOperands) -> Outcome<Vec<Tensor>> {
    let heads = Attr::Int(call.int("num_heads", 0)?);
    let causal = Attr::Int(call.int("unidirectional", 0)?);
    let mut attrs =
        vec![("q_num_heads", heads.clone()), ("kv_num_heads", heads), ("is_causal", causal)];
    // Some exporters write 0 for the default.
    let scale = call.float_opt("scale")?.filter(|s| *s != 0.0);
    attrs.extend(scale.map(|s| ("scale", Attr::Float(s))));
    let (past_k, past_v) = (o.past.as_ref().map(|p| &p[0]), o.past.as_ref().map(|p| &p[1]));
    let [q, k, v] = &o.parts;
    let ([batch, queries, _], [_, keys, _]) = (q.dims(), k.dims()) else {
        return Err(Fault::invalid(format!("{q:?} and {k:?} do not have three axes")));
    };
    let before = past_k.and_then(|p| p.dims().get(2).copied()).unwrap_or(0);
    let sizes = [*batch, *queries, keys.saturating_add(before)];
    let mask = o.mask.as_ref().map(|mask| added(call, mask, sizes)).transpose()?;
    let bias = match (mask, &o.bias) {
        (Some(mask), Some(bias)) => Some(first(call, "Add", &[], &[Some(&mask), Some(bias)])?),
        (mask, bias) => mask.or_else(|| bias.clone()),
    };
    let inputs = [Some(q), Some(k), Some(v), bias.as_ref(), past_k, past_v];
    standard(call, "Attention", &attrs, &inputs, 3)
}

/// `[2, ...]` as two tensors.
fn halves(x: &Tensor) -> Outcome<[Tensor; 2]> {
    let [2, rest @ ..] = x.dims() else {
        return Err(Fault::invalid(format!("{x:?} does not hold keys and values")));
    };
    let half = |i: usize| -> Outcome<Tensor> {
        let mut tables: Vec<Vec<usize>> = x.dims().iter().map(|d| (0..*d).collect()).collect();
        tables[0] = vec![i];
        Ok(take(x, &tables, None)?.reshaped(rest)?)
    };
    Ok([half(0)?, half(1)?])
}

/// Keys and values in one tensor of five axes, as `Attention` hands them on.
fn with_present(outputs: Vec<Tensor>) -> Outcome<Vec<Tensor>> {
    let lifted = |x: &Tensor| -> Outcome<Tensor> { Ok(x.reshaped([&[1], x.dims()].concat())?) };
    let [y, k, v] = &outputs[..] else { return Ok(outputs) };
    let (k, v) = (lifted(k)?, lifted(v)?);
    if k.dims() != v.dims() {
        return Ok(vec![y.clone()]);
    }
    Ok(vec![y.clone(), joined(&[&k, &v], 0)?])
}

fn only_plain(call: &KernelCall) -> Outcome<()> {
    for name in ["do_rotary", "past_present_share_buffer"] {
        refuse!(call.flag(name, false)? => Fault::unsupported(format!("`{name}` is not computed")));
    }
    Ok(())
}

/// `input, weights, bias?, mask_index?, past?, attention_bias?`.
pub(super) fn attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    only_plain(call)?;
    let (x, w) = (call.x(0)?, call.x(1)?);
    let mut all = first(call, "MatMul", &[], &[Some(x), Some(w)])?;
    if let Some(bias) = call.opt(2) {
        all = first(call, "Add", &[], &[Some(&all), Some(bias)])?;
    }
    let sizes = match call.ints("qkv_hidden_sizes")? {
        Some(sizes) => crate::dims::sizes(sizes)?,
        None => vec![all.dims().last().copied().unwrap_or(0) / 3; 3],
    };
    let sizes: [usize; 3] =
        sizes.try_into().map_err(|_| Fault::invalid("qkv_hidden_sizes are not three"))?;
    let operands = AttentionOperands {
        parts: thirds(&all, sizes)?,
        past: call.opt(4).map(halves).transpose()?,
        mask: call.opt(3).cloned(),
        bias: call.opt(5).cloned(),
    };
    with_present(attend(call, &operands)?)
}

/// `input, weight, bias, input_scale, weight_scale, mask_index?, input_zero?, weight_zero?, past?`.
pub(super) fn q_attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    only_plain(call)?;
    let x = centered(call.x(0)?, call.opt(6), false)?;
    let w = centered(call.x(1)?, call.opt(7), false)?;
    let sums = multiplied::<i32>(call, &x, &w)?;
    let scale = scalar(call.x(3)?)? as f32;
    let all = in_float(&sums, scale, call.x(4)?, call.opt(2))?.swap_remove(0);
    let third = all.dims().last().copied().unwrap_or(0) / 3;
    let operands = AttentionOperands {
        parts: thirds(&all, [third; 3])?,
        past: call.opt(8).map(halves).transpose()?,
        mask: call.opt(5).cloned(),
        bias: None,
    };
    with_present(attend(call, &operands)?)
}

/// Part `i` of `[batch, length, heads, parts, size]`.
fn packed(x: &Tensor, i: usize) -> Outcome<Tensor> {
    let [batch, length, heads, parts, size] = *x.dims() else {
        return Err(Fault::invalid(format!("{x:?} does not have five axes")));
    };
    let axis = |n: usize| (0..n).collect::<Vec<_>>();
    refuse!(i >= parts => "{x:?} does not hold {} parts", i + 1);
    let tables = [axis(batch), axis(length), axis(heads), vec![i], axis(size)];
    Ok(take(x, &tables, None)?.reshaped([batch, length, heads * size])?)
}

/// Queries, keys and values, each on its own or packed; keys may have their heads in front.
fn given(call: &KernelCall) -> Outcome<[Tensor; 3]> {
    let flat = |x: &Tensor| if x.rank() == 4 { merge_heads(x) } else { Ok(x.clone()) };
    let q = call.x(0)?;
    match (call.opt(1), call.opt(2)) {
        (None, None) => Ok([packed(q, 0)?, packed(q, 1)?, packed(q, 2)?]),
        (Some(kv), None) => Ok([q.clone(), packed(kv, 0)?, packed(kv, 1)?]),
        (Some(k), Some(v)) => Ok([q.clone(), flat(k)?, flat(v)?]),
        (None, Some(_)) => Err(Fault::invalid("values without keys")),
    }
}

/// `query, key?, value?, bias?, key_padding_mask?, attention_bias?, past_key?, past_value?`.
pub(super) fn multi_head_attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let mut parts = given(call)?;
    refuse!(call.opt(8).is_some() || call.opt(9).is_some() => Fault::unsupported("a shared cache is not computed"));
    if let Some(bias) = call.opt(3) {
        let size = |x: &Tensor| x.dims().last().copied().unwrap_or(0);
        let biases = thirds(bias, [size(&parts[0]), size(&parts[1]), size(&parts[2])])?;
        for (part, bias) in parts.iter_mut().zip(&biases) {
            *part = first(call, "Add", &[], &[Some(part), Some(bias)])?;
        }
    }
    let past = match (call.opt(6), call.opt(7)) {
        (Some(k), Some(v)) => Some([k.clone(), v.clone()]),
        _ => None,
    };
    let (mask, bias) = (call.opt(4).cloned(), call.opt(5).cloned());
    attend(call, &AttentionOperands { parts, past, mask, bias })
}
