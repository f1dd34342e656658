//! RNN, GRU and LSTM: the walk over the sequence, which all three share.

mod activations;
mod cells;
#[cfg(test)]
mod tests;

use crate::call::{Call, Row, integers, raw};
use crate::cells::transposed;
use crate::fault::{Fault, Outcome};
use crate::gemm::{Matrix, Sizes, multiply_add};
use crate::reals::{reals, sized, stored};
use activations::{Activation, activations};
use onnxd_ir::{DataType, Tensor};
use std::borrow::Cow;

pub(crate) const ROWS: &[Row] =
    &[raw("GRU", gru).since(7), raw("LSTM", lstm).since(7), raw("RNN", rnn).since(7)];

/// Which of the three.
#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Rnn,
    Gru,
    Lstm,
}

/// Sizes and switches of a layer.
struct Layer {
    kind: Kind,
    /// Parts of the weights.
    gates: usize,
    batch: usize,
    steps: usize,
    width: usize,
    hidden: usize,
    directions: usize,
    /// Whether the only direction, or else the second, goes back.
    reverse: bool,
    /// Elements of the sequence that count, per batch.
    lengths: Vec<usize>,
    clip: f64,
    /// `input_forget` of LSTM, `linear_before_reset` of GRU.
    switch: bool,
    /// Whether what meets the weights is rounded to 8 bits first.
    rounded: bool,
}

/// The weights and the state of one direction.
struct Direction<'a> {
    r: &'a [f64],
    /// Input part of every gate: `[steps, batch, gates * hidden]`.
    fed: Vec<f64>,
    recurrent_bias: &'a [f64],
    peephole: &'a [f64],
    functions: &'a [Activation],
    h: Vec<f64>,
    c: Vec<f64>,
}

fn layer(call: &Call, kind: Kind, x: &Tensor) -> Outcome<Layer> {
    let (gates, switch) = match kind {
        Kind::Rnn => (1, false),
        Kind::Gru => (3, call.flag("linear_before_reset", false)?),
        Kind::Lstm => (4, call.flag("input_forget", false)?),
    };
    let (directions, reverse) = match call.string("direction", "forward")? {
        "forward" => (1, false),
        "reverse" => (1, true),
        "bidirectional" => (2, true),
        other => return Err(Fault::invalid(format!("direction `{other}` is not defined"))),
    };
    let ([steps, batch, width], [_, _, hidden]) = (x.dims(), call.x(2)?.dims()) else {
        return Err(Fault::invalid("the input and the weights must have three axes"));
    };
    let lengths = match call.opt(4) {
        None => vec![*steps; *batch],
        Some(lengths) => crate::dims::sizes(&integers(lengths)?)?,
    };
    if lengths.len() != *batch || lengths.iter().any(|n| n > steps) {
        return Err(Fault::invalid(format!("sequence lengths {lengths:?} do not fit {x:?}")));
    }
    let clip = call.float_opt("clip")?.map_or(f64::INFINITY, f64::from);
    let (batch, steps, width, hidden) = (*batch, *steps, *width, *hidden);
    Ok(Layer {
        kind,
        gates,
        batch,
        steps,
        width,
        hidden,
        directions,
        reverse,
        lengths,
        clip,
        switch,
        rounded: false,
    })
}

impl Layer {
    /// A left side of a product with the weights.
    fn operand<'a>(&self, values: &'a [f64]) -> Cow<'a, [f64]> {
        if self.rounded { Cow::Owned(crate::quant::rounded(values)) } else { Cow::Borrowed(values) }
    }
}

/// An optional input of these sizes, zeros if absent.
fn or_zeros(call: &Call, i: usize, dims: &[usize], what: &str) -> Outcome<Vec<f64>> {
    match call.opt(i) {
        Some(x) => sized(x, dims, what),
        None => Ok(vec![0.0; call.room(DataType::Double, dims)?]),
    }
}

/// `a * b'` for a row-major `a` of `m` rows and `b` of `n` rows, all of length `k`.
fn product(m: usize, k: usize, n: usize, a: &[f64], b: &[f64]) -> Vec<f64> {
    let mut y = vec![0.0; m * n];
    multiply_add(Sizes { m, k, n }, Matrix::new(a, k), Matrix::transposed(b, k), &mut y, n);
    y
}

/// A state of `[directions, batch, hidden]`, in the other order under layout 1.
fn state(call: &Call, i: usize, l: &Layer, batch_first: bool) -> Outcome<Vec<f64>> {
    let dims = [l.directions, l.batch, l.hidden];
    match call.opt(i) {
        Some(x) if batch_first && x.rank() == 3 => {
            sized(&transposed(x, &[1, 0, 2])?, &dims, "the initial state")
        }
        _ => or_zeros(call, i, &dims, "the initial state"),
    }
}

/// `X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P? -> Y, Y_h, Y_c`.
fn recurrent(call: &Call, kind: Kind, rounded: bool) -> Outcome<Vec<Tensor>> {
    let batch_first = call.flag("layout", false)?;
    let given = call.x(0)?;
    if given.rank() != 3 {
        return Err(Fault::invalid(format!("{given:?} must have three axes")));
    }
    let x = if batch_first { transposed(given, &[1, 0, 2])? } else { given.clone() };
    let l = Layer { rounded, ..layer(call, kind, &x)? };
    let (d, wide) = (l.directions, l.gates * l.hidden);
    let w = sized(call.x(1)?, &[d, wide, l.width], "W")?;
    let r = sized(call.x(2)?, &[d, wide, l.hidden], "R")?;
    let bias = or_zeros(call, 3, &[d, 2 * wide], "B")?;
    let peephole = match kind {
        Kind::Lstm => or_zeros(call, 7, &[d, 3 * l.hidden], "P")?,
        _ => vec![],
    };
    let h = state(call, 5, &l, batch_first)?;
    let c = if kind == Kind::Lstm { state(call, 6, &l, batch_first)? } else { vec![0.0; h.len()] };
    let functions = activations(call, kind, d)?;
    let y_dims = [l.steps, d, l.batch, l.hidden];
    let mut y = vec![0f64; call.room(DataType::Double, &y_dims)?];
    call.room(DataType::Double, &[l.steps, l.batch, wide])?;
    let fed = reals(&x)?;
    let values = l.operand(&fed);
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for k in 0..d {
        let area = l.batch * l.hidden;
        let part = |all: &'_ [f64], size: usize| all[k * size..(k + 1) * size].to_vec();
        let mut direction = Direction {
            r: &r[k * wide * l.hidden..(k + 1) * wide * l.hidden],
            fed: product(l.steps * l.batch, l.width, wide, &values, &part(&w, wide * l.width)),
            recurrent_bias: &bias[(2 * k + 1) * wide..(2 * k + 2) * wide],
            peephole: if kind == Kind::Lstm { &peephole[k * 3 * l.hidden..] } else { &[] },
            functions: &functions[k],
            h: part(&h, area),
            c: part(&c, area),
        };
        for row in direction.fed.chunks_mut(wide.max(1)) {
            row.iter_mut().zip(&bias[2 * k * wide..]).for_each(|(v, b)| *v += b);
        }
        walk(&l, &mut direction, l.reverse && k + 1 == d, k, &mut y);
        last_h.extend(direction.h);
        last_c.extend(direction.c);
    }
    let dtype = given.dtype();
    let (y, h_dims) = (stored(dtype, &y_dims, y)?, [d, l.batch, l.hidden]);
    let mut outputs = vec![y, stored(dtype, &h_dims, last_h)?];
    if kind == Kind::Lstm {
        outputs.push(stored(dtype, &h_dims, last_c)?);
    }
    if batch_first {
        outputs[0] = transposed(&outputs[0], &[2, 0, 1, 3])?;
        for state in &mut outputs[1..] {
            *state = transposed(state, &[1, 0, 2])?;
        }
    }
    Ok(outputs)
}

/// Walks one direction through the sequence; each batch has its own length.
fn walk(l: &Layer, direction: &mut Direction, back: bool, k: usize, y: &mut [f64]) {
    let wide = l.gates * l.hidden;
    for step in 0..l.lengths.iter().copied().max().unwrap_or(0) {
        let told = product(l.batch, l.hidden, wide, &l.operand(&direction.h), direction.r);
        for b in (0..l.batch).filter(|b| step < l.lengths[*b]) {
            let t = if back { l.lengths[b] - 1 - step } else { step };
            cells::advance(l, direction, b, t, &told[b * wide..(b + 1) * wide]);
            let at = ((t * l.directions + k) * l.batch + b) * l.hidden;
            let state = b * l.hidden..(b + 1) * l.hidden;
            y[at..at + l.hidden].copy_from_slice(&direction.h[state]);
        }
    }
}

fn rnn(call: &Call) -> Outcome<Vec<Tensor>> {
    recurrent(call, Kind::Rnn, false)
}

fn gru(call: &Call) -> Outcome<Vec<Tensor>> {
    recurrent(call, Kind::Gru, false)
}

fn lstm(call: &Call) -> Outcome<Vec<Tensor>> {
    recurrent(call, Kind::Lstm, false)
}

/// An LSTM whose input and state are rounded to 8 bits before they meet the weights.
pub(crate) fn quantized_lstm(call: &Call) -> Outcome<Vec<Tensor>> {
    recurrent(call, Kind::Lstm, true)
}
