//! Attention and what transformers compute around it.

mod flex;
mod linear;
mod rotary;
mod state;
#[cfg(test)]
mod tests;

use crate::call::{KernelCall, KernelRow, control, integers, raw};
use crate::cells::{joined, transposed};
use crate::dims::{broadcast, broadcast_strides, size};
use crate::fault::{Fault, Outcome};
use crate::gemm::{GemmSizes, Matrix, multiply_into};
use crate::reals::{Real, reals};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("Attention", attention),
    raw("CausalConvWithState", state::causal_conv_with_state),
    control("FlexAttention", flex::flex_attention).in_domain("ai.onnx.preview"),
    raw("LinearAttention", linear::linear_attention),
    raw("RotaryEmbedding", rotary::rotary_embedding),
    raw("TensorScatter", state::tensor_scatter),
];

/// `[batch, length, heads * size]` as `[batch, heads, length, size]`.
fn split_heads(x: &Tensor, heads: usize) -> Outcome<Tensor> {
    match x.dims() {
        [b, s, hidden] if heads > 0 && hidden % heads == 0 => {
            transposed(&x.reshaped([*b, *s, heads, hidden / heads])?, &[0, 2, 1, 3])
        }
        _ => Err(Fault::invalid(format!("{x:?} does not divide into {heads} heads"))),
    }
}

/// The inverse of [`split_heads`].
pub(crate) fn merge_heads(x: &Tensor) -> Outcome<Tensor> {
    let [b, heads, s, size] = four(x)?;
    Ok(transposed(x, &[0, 2, 1, 3])?.reshaped([b, s, heads * size])?)
}

fn four(x: &Tensor) -> Outcome<[usize; 4]> {
    x.dims().try_into().map_err(|_| Fault::invalid(format!("{x:?} must have four axes")))
}

/// The sizes that an application of Attention works with, all operands in four axes.
struct AttentionOperands {
    q: Tensor,
    k: Tensor,
    v: Tensor,
    batch: usize,
    heads: usize,
    queries: usize,
    keys: usize,
    /// Elements of a query and a key.
    size: usize,
    /// Elements of a value.
    width: usize,
    /// Query heads that share a key.
    group: usize,
    /// Keys before those given.
    past: usize,
}

fn operands(call: &KernelCall) -> Outcome<AttentionOperands> {
    let flat = call.x(0)?.rank() == 3;
    let part = |i: usize, heads: &str| {
        let x = call.x(i)?;
        if !flat {
            return Ok(x.clone());
        }
        split_heads(x, size(call.int(heads, 0)?)?)
    };
    let q = part(0, "q_num_heads")?;
    let (mut k, mut v) = (part(1, "kv_num_heads")?, part(2, "kv_num_heads")?);
    let mut past = 0;
    match (call.opt(4), call.opt(5)) {
        (Some(key), Some(value)) => {
            refuse!(call.opt(6).is_some() => "past keys exclude nonpad_kv_seqlen");
            past = four(key)?[2];
            (k, v) = (joined(&[key, &k], 2)?, joined(&[value, &v], 2)?);
        }
        (None, None) => {}
        _ => return Err(Fault::invalid("past_key and past_value go together")),
    }
    let ([batch, heads, queries, size], [bk, shared, keys, sk]) = (four(&q)?, four(&k)?);
    let [bv, hv, sv, width] = four(&v)?;
    let fits = [bk, bv] == [batch; 2] && sk == size && [hv, sv] == [shared, keys];
    refuse!(!fits || shared == 0 || heads % shared != 0 => "{q:?}, {k:?} and {v:?} do not fit each other");
    let group = heads / shared;
    Ok(AttentionOperands { q, k, v, batch, heads, queries, keys, size, width, group, past })
}

/// What is added to the logits: 0 or a bias where a key may be seen, minus infinity elsewhere.
struct Bias {
    mask: Option<Vec<f64>>,
    /// Steps through the mask: batch, head, query, key.
    steps: Vec<usize>,
    /// Keys the mask speaks of; those behind it are not seen.
    masked_keys: usize,
    /// Per batch: the position of the first query among the keys.
    offsets: Vec<i64>,
    /// Per batch: keys that are not padding.
    valid: Vec<i64>,
    left: i64,
    right: i64,
}

impl Bias {
    fn from_call(call: &KernelCall, o: &AttentionOperands) -> Outcome<Bias> {
        let mut bias = Bias {
            mask: None,
            steps: vec![0; 4],
            masked_keys: o.keys,
            offsets: vec![o.past as i64; o.batch],
            valid: vec![o.keys as i64; o.batch],
            left: call.int("left_window_size", -1)?,
            right: call.int("right_window_size", -1)?,
        };
        if call.flag("is_causal", false)? {
            bias.right = 0;
        }
        refuse!(bias.left < -1 || bias.right < -1 => "a window size is below -1");
        if let Some(lengths) = call.opt(6) {
            bias.valid = integers(lengths)?;
            refuse!(bias.valid.len() != o.batch => "{lengths:?} does not fit the batch");
            let before = |n: &i64| n.saturating_sub(o.queries as i64);
            bias.offsets = bias.valid.iter().map(before).collect();
        }
        if let Some(mask) = call.opt(3) {
            bias.masked_keys = mask.dims().last().copied().unwrap_or(0);
            let full = [o.batch, o.heads, o.queries, bias.masked_keys];
            let broadcasts = broadcast(mask.dims(), &full).is_ok_and(|d| d == full);
            refuse!(bias.masked_keys > o.keys || !broadcasts => "mask {mask:?} does not fit {full:?}");
            let mut values = reals(mask)?;
            if mask.dtype() == DataType::Bool {
                for v in &mut values {
                    *v = if *v != 0.0 { 0.0 } else { f64::NEG_INFINITY };
                }
            }
            bias.steps = broadcast_strides(mask.dims(), &full);
            bias.mask = Some(values);
        }
        Ok(bias)
    }

    /// Whether every query sees every key as it is.
    fn is_none(&self, keys: usize) -> bool {
        let all = self.valid.iter().all(|n| *n >= keys as i64);
        all && self.mask.is_none() && self.left < 0 && self.right < 0
    }

    fn at(&self, b: usize, h: usize, i: usize, j: usize) -> f64 {
        let ahead = (j as i64).saturating_sub(self.offsets[b].saturating_add(i as i64));
        let hidden = j as i64 >= self.valid[b]
            || (self.right >= 0 && ahead > self.right)
            || (self.left >= 0 && -ahead > self.left);
        match &self.mask {
            _ if hidden || j >= self.masked_keys => f64::NEG_INFINITY,
            Some(mask) => {
                let [sb, sh, si, sj] = [0, 1, 2, 3].map(|axis| self.steps[axis]);
                mask[b * sb + h * sh + i * si + j * sj]
            }
            None => 0.0,
        }
    }
}

/// Softmax of the logits; a query that sees no key gets zeros, and NaN stays.
fn probabilities<T: Real>(row: &mut [T], sees: bool) {
    let top = row.iter().any(|v| *v != T::LOWEST);
    if top && sees { T::softmax(row) } else { row.fill(T::default()) }
}

/// `softmax(cap(scale * Q * K') + bias) * V` per batch and head.
fn attention(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let o = operands(call)?;
    let narrow = [&o.q, &o.k, &o.v].iter().all(|x| x.dtype() == DataType::Float);
    if narrow { attended::<f32>(call, o) } else { attended::<f64>(call, o) }
}

/// What is done to the logits.
struct Logits<'a> {
    bias: &'a Bias,
    scale: f64,
    cap: f64,
    /// Which stage is shown, if any.
    mode: Option<i64>,
}

impl Logits<'_> {
    /// The probabilities of the keys, from products of queries and keys; the wanted stage goes to `shown`.
    fn finish<T: Real>(
        &self,
        scores: &mut [T],
        keys: usize,
        (b, h): (usize, usize),
        shown: &mut Vec<T>,
    ) {
        let scale = T::from_f64(self.scale);
        scores.iter_mut().for_each(|v| *v = v.times(scale));
        let mut show = |stage: i64, scores: &[T]| {
            if self.mode == Some(stage) {
                shown.extend_from_slice(scores);
            }
        };
        show(0, scores);
        if self.cap > 0.0 {
            let cap = T::from_f64(self.cap);
            scores.iter_mut().for_each(|v| *v = v.over(cap));
            T::tangents(scores);
            scores.iter_mut().for_each(|v| *v = v.times(cap));
        }
        show(1, scores);
        let mut sees = vec![true; scores.len() / keys.max(1)];
        if !self.bias.is_none(keys) {
            for (i, (row, sees)) in scores.chunks_mut(keys.max(1)).zip(&mut sees).enumerate() {
                *sees = false;
                for (j, value) in row.iter_mut().enumerate() {
                    let added = self.bias.at(b, h, i, j);
                    *sees |= added != f64::NEG_INFINITY;
                    *value = value.plus(T::from_f64(added));
                }
            }
        }
        show(2, scores);
        let rows = scores.chunks_mut(keys.max(1)).zip(sees);
        rows.for_each(|(row, sees)| probabilities(row, sees));
        show(3, scores);
    }
}

fn attended<T: Real>(call: &KernelCall, o: AttentionOperands) -> Outcome<Vec<Tensor>> {
    let bias = Bias::from_call(call, &o)?;
    let given = call.float_opt("scale")?.map(f64::from);
    let scale = given.unwrap_or((o.size as f64).sqrt().recip());
    let cap = f64::from(call.float("softcap", 0.0)?);
    let mode = call.int("qk_matmul_output_mode", 0)?;
    let shown_dims = [o.batch, o.heads, o.queries, o.keys];
    let y_dims = [o.batch, o.heads, o.queries, o.width];
    let shown_room = if call.wants(3) { call.room(T::DTYPE, &shown_dims)? } else { 0 };
    let mut shown: Vec<T> = Vec::with_capacity(shown_room);
    let mut y = vec![T::default(); call.room(T::DTYPE, &y_dims)?];
    let area = call.room(T::DTYPE, &shown_dims[2..])?;
    let logits = Logits { bias: &bias, scale, cap, mode: (shown_room > 0).then_some(mode) };
    let (q, k, v) = (T::elements(&o.q)?, T::elements(&o.k)?, T::elements(&o.v)?);
    let mut scores = vec![T::default(); area];
    for at in 0..if y.is_empty() && shown_room == 0 { 0 } else { o.batch * o.heads } {
        let kv = at / o.group;
        let (query, key) = (&q[at * o.queries * o.size..], &k[kv * o.keys * o.size..]);
        let s = GemmSizes { m: o.queries, k: o.size, n: o.keys };
        let (left, right) = (Matrix::new(query, o.size), Matrix::transposed(key, o.size));
        scores.fill(T::default());
        multiply_into(s, left, right, &mut scores, o.keys);
        logits.finish(&mut scores, o.keys, (at / o.heads, at % o.heads), &mut shown);
        let s = GemmSizes { m: o.queries, k: o.keys, n: o.width };
        let out = &mut y[at * o.queries * o.width..(at + 1) * o.queries * o.width];
        let value = Matrix::new(&v[kv * o.keys * o.width..], o.width);
        multiply_into(s, Matrix::new(&scores, o.keys), value, out, o.width);
    }
    let dtype = o.q.dtype();
    let y = T::stored(dtype, &y_dims, y)?;
    let y = if call.x(0)?.rank() == 3 { merge_heads(&y)? } else { y };
    let mut outputs = vec![y, o.k, o.v];
    if call.wants(3) {
        refuse!(!(0..=3).contains(&mode) => "qk_matmul_output_mode {mode} is not defined");
        outputs.push(T::stored(dtype, &shown_dims, shown)?);
    }
    Ok(outputs)
}
