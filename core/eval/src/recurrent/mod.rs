//! RNN, GRU and LSTM: the walk over the sequence, which all three share.

mod activations;
mod cells;
mod numbers;
mod packed;
#[cfg(test)]
mod tests;

use crate::call::{KernelCall, KernelRow, integers, raw};
use crate::cells::transposed;
use crate::fault::{Fault, Outcome};
use crate::gemm::{GemmSizes, Matrix, multiply_into};
use activations::{Activation, activations};
use numbers::RecurrentNumber;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use packed::Packed;
use std::borrow::Cow;

pub(crate) const ROWS: &[KernelRow] = &[
    raw("GRU", |call| recurrent(call, CellKind::Gru, false)).since(7),
    raw("LSTM", |call| recurrent(call, CellKind::Lstm, false)).since(7),
    raw("RNN", |call| recurrent(call, CellKind::Rnn, false)).since(7),
];

/// Which of the three.
#[derive(Clone, Copy, PartialEq)]
enum CellKind {
    Rnn,
    Gru,
    Lstm,
}

/// Sizes and switches of a layer.
struct RecurrentLayer {
    kind: CellKind,
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
struct Direction<'a, T> {
    r: Packed<'a, T>,
    /// The weights of a GRU's hidden gate, where they meet what the reset gate leaves of the state.
    remembered: Option<Packed<'a, T>>,
    /// Input part of every gate, with its biases: `[steps, batch, gates * hidden]`.
    fed: Vec<T>,
    /// The recurrence bias of a GRU's hidden gate, which is not in `fed`.
    hidden_bias: &'a [T],
    /// Empty without.
    peephole: &'a [T],
    functions: &'a [Activation],
    h: Vec<T>,
    c: Vec<T>,
}

fn layer(call: &KernelCall, kind: CellKind, x: &Tensor) -> Outcome<RecurrentLayer> {
    let (gates, switch) = match kind {
        CellKind::Rnn => (1, false),
        CellKind::Gru => (3, call.flag("linear_before_reset", false)?),
        CellKind::Lstm => (4, call.flag("input_forget", false)?),
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
    refuse!(lengths.len() != *batch || lengths.iter().any(|n| n > steps) =>
        "sequence lengths {lengths:?} do not fit {x:?}");
    let clip = call.float_opt("clip")?.map_or(f64::INFINITY, f64::from);
    let (batch, steps, width, hidden) = (*batch, *steps, *width, *hidden);
    Ok(RecurrentLayer {
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

impl RecurrentLayer {
    /// A left side of a product with the weights.
    fn operand<'a, T: RecurrentNumber>(&self, values: &'a [T]) -> Cow<'a, [T]> {
        if self.rounded { T::rounded(values) } else { Cow::Borrowed(values) }
    }
}

/// The elements of a tensor that must have these sizes.
fn sized<'a, T: RecurrentNumber>(
    x: &'a Tensor,
    dims: &[usize],
    what: &str,
) -> Outcome<Cow<'a, [T]>> {
    refuse!(x.dims() != dims => "{what} is {x:?}, its shape must be {dims:?}");
    T::elements(x)
}

/// An optional input of these sizes, zeros if absent.
fn or_zeros<'a, T: RecurrentNumber>(
    call: &'a KernelCall,
    i: usize,
    dims: &[usize],
    what: &str,
) -> Outcome<Cow<'a, [T]>> {
    match call.opt(i) {
        Some(x) => sized(x, dims, what),
        None => Ok(Cow::Owned(vec![T::default(); call.room(T::DTYPE, dims)?])),
    }
}

/// `a * b'` for a row-major `a` of `m` rows and `b` of `n` rows, all of length `k`.
fn product<T: RecurrentNumber>((m, k, n): (usize, usize, usize), a: &[T], b: &[T]) -> Vec<T> {
    let mut y = vec![T::default(); m * n];
    multiply_into(GemmSizes { m, k, n }, Matrix::new(a, k), Matrix::transposed(b, k), &mut y, n);
    y
}

/// A state of `[directions, batch, hidden]`, in the other order under layout 1.
fn state<T: RecurrentNumber>(
    call: &KernelCall,
    i: usize,
    l: &RecurrentLayer,
    batch_first: bool,
) -> Outcome<Vec<T>> {
    let dims = [l.directions, l.batch, l.hidden];
    match call.opt(i) {
        Some(x) if batch_first && x.rank() == 3 => {
            let x = transposed(x, &[1, 0, 2])?;
            Ok(sized::<T>(&x, &dims, "the initial state")?.into_owned())
        }
        _ => Ok(or_zeros::<T>(call, i, &dims, "the initial state")?.into_owned()),
    }
}

/// `X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P? -> Y, Y_h, Y_c`.
fn recurrent(call: &KernelCall, kind: CellKind, rounded: bool) -> Outcome<Vec<Tensor>> {
    let batch_first = call.flag("layout", false)?;
    let given = call.x(0)?;
    refuse!(given.rank() != 3 => "{given:?} must have three axes");
    let x = if batch_first { transposed(given, &[1, 0, 2])? } else { given.clone() };
    let l = RecurrentLayer { rounded, ..layer(call, kind, &x)? };
    // Steps of quantization are computed in `double`.
    let narrow = !rounded && given.dtype() != DataType::Double;
    let mut outputs = match narrow {
        true => computed::<f32>(call, &l, &x, batch_first)?,
        false => computed::<f64>(call, &l, &x, batch_first)?,
    };
    if batch_first {
        outputs[0] = transposed(&outputs[0], &[2, 0, 1, 3])?;
        for state in &mut outputs[1..] {
            *state = transposed(state, &[1, 0, 2])?;
        }
    }
    Ok(outputs)
}

/// The outputs for a sequence `[steps, batch, width]`.
fn computed<T: RecurrentNumber>(
    call: &KernelCall,
    l: &RecurrentLayer,
    x: &Tensor,
    batch_first: bool,
) -> Outcome<Vec<Tensor>> {
    let (d, wide) = (l.directions, l.gates * l.hidden);
    let w = sized::<T>(call.x(1)?, &[d, wide, l.width], "W")?;
    let r = sized::<T>(call.x(2)?, &[d, wide, l.hidden], "R")?;
    let bias = or_zeros::<T>(call, 3, &[d, 2 * wide], "B")?;
    let peephole = match call.opt(7).filter(|_| l.kind == CellKind::Lstm) {
        Some(p) => sized::<T>(p, &[d, 3 * l.hidden], "P")?,
        None => Cow::Borrowed(&[][..]),
    };
    let h = state::<T>(call, 5, l, batch_first)?;
    let c = match l.kind {
        CellKind::Lstm => state::<T>(call, 6, l, batch_first)?,
        _ => vec![T::default(); h.len()],
    };
    let functions = activations(call, l.kind, d)?;
    let y_dims = [l.steps, d, l.batch, l.hidden];
    let mut y = vec![T::default(); call.room(T::DTYPE, &y_dims)?];
    // The weights of a direction are packed.
    call.room(T::DTYPE, &[l.steps, l.batch, wide])?;
    call.room(T::DTYPE, &[wide.saturating_mul(2), l.hidden])?;
    let fed = T::elements(x)?;
    let values = l.operand(&fed);
    let (mut last_h, mut last_c) = (Vec::new(), Vec::new());
    for k in 0..d {
        let area = l.batch * l.hidden;
        let part = |all: &'_ [T], size: usize| all[k * size..(k + 1) * size].to_vec();
        let r = &r[k * wide * l.hidden..(k + 1) * wide * l.hidden];
        let bias = &bias[2 * k * wide..2 * (k + 1) * wide];
        let sizes = (l.steps * l.batch, l.width, wide);
        let fed = product(sizes, &values, &w[k * wide * l.width..(k + 1) * wide * l.width]);
        let (r, remembered, hidden_bias) = recurrence(l, r, &bias[wide..]);
        let mut direction = Direction {
            r,
            remembered,
            fed,
            hidden_bias,
            peephole: peephole.get(k * 3 * l.hidden..(k + 1) * 3 * l.hidden).unwrap_or_default(),
            functions: &functions[k],
            h: part(&h, area),
            c: part(&c, area),
        };
        // All biases that stand in plain sums.
        let summed = if l.kind == CellKind::Gru { 2 * l.hidden } else { wide };
        for row in direction.fed.chunks_mut(wide.max(1)) {
            row.iter_mut().zip(bias).for_each(|(v, b)| *v = v.plus(*b));
            let recurrent = row[..summed].iter_mut().zip(&bias[wide..]);
            recurrent.for_each(|(v, b)| *v = v.plus(*b));
        }
        walk(l, &mut direction, l.reverse && k + 1 == d, k, &mut y);
        last_h.extend(direction.h);
        last_c.extend(direction.c);
    }
    let (dtype, h_dims) = (x.dtype(), [d, l.batch, l.hidden]);
    let mut outputs = vec![T::stored(dtype, &y_dims, y)?, T::stored(dtype, &h_dims, last_h)?];
    if l.kind == CellKind::Lstm {
        outputs.push(T::stored(dtype, &h_dims, last_c)?);
    }
    Ok(outputs)
}

/// The recurrence weights that meet the state, those that meet what the reset gate leaves of it, and the bias of the
/// hidden gate of a GRU.
fn recurrence<'a, T: RecurrentNumber>(
    l: &RecurrentLayer,
    r: &'a [T],
    bias: &'a [T],
) -> (Packed<'a, T>, Option<Packed<'a, T>>, &'a [T]) {
    let (n, wide) = (l.hidden, l.gates * l.hidden);
    let packed = |weights, m, columns| Packed::pack(weights, (m, n, columns));
    match l.kind {
        CellKind::Gru if !l.switch => {
            let (gates, hidden) = r.split_at(2 * n * n);
            // One element of the batch at a time, as the reset gate must be there.
            (packed(gates, l.batch, 2 * n), Some(packed(hidden, 1, n)), &bias[2 * n..])
        }
        CellKind::Gru => (packed(r, l.batch, wide), None, &bias[2 * n..]),
        _ => (packed(r, l.batch, wide), None, &[]),
    }
}

/// Walks one direction through the sequence; each batch has its own length.
fn walk<T: RecurrentNumber>(
    l: &RecurrentLayer,
    direction: &mut Direction<T>,
    back: bool,
    k: usize,
    y: &mut [T],
) {
    let wide = l.gates * l.hidden;
    let told = direction.r.columns();
    let mut products = vec![T::default(); l.batch * told];
    let mut sums = vec![T::default(); wide];
    for step in 0..l.lengths.iter().copied().max().unwrap_or(0) {
        direction.r.multiply(&l.operand(&direction.h), &mut products);
        for b in (0..l.batch).filter(|b| step < l.lengths[*b]) {
            let t = if back { l.lengths[b] - 1 - step } else { step };
            sums[..told].copy_from_slice(&products[b * told..(b + 1) * told]);
            cells::advance(l, direction, b, t, &mut sums);
            let at = ((t * l.directions + k) * l.batch + b) * l.hidden;
            let state = b * l.hidden..(b + 1) * l.hidden;
            y[at..at + l.hidden].copy_from_slice(&direction.h[state]);
        }
    }
}

/// An LSTM whose input and state are rounded to 8 bits before they meet the weights.
pub(crate) fn quantized_lstm(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    recurrent(call, CellKind::Lstm, true)
}
