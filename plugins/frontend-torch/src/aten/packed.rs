//! Packed sequences: the elements of sequences of different lengths, the first elements of all of them first.
//!
//! The sequences are sorted by length, the longest first. Where packed data was made here, the padded form is known and
//! serves what reads it, so that nothing is packed unless a program looks at the data.

use super::dtype::{dtype_of, operand};
use super::sizes::{dim_of, known, known_size, minus, rank, size, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::_pack_padded_sequence" => pack(input, lengths, batch_first);
        "aten::_pad_packed_sequence" => unpack;
        "aten::pad_sequence" => pad_sequence;
    }
}

arguments! {
    /// `_pad_packed_sequence`
    struct Unpack {
        data: Var, batch_sizes: Var, batch_first: bool, padding_value: Value, total_length: Value,
    }
    /// `pad_sequence`
    struct PadSequence {
        sequences: Vec<Var>, batch_first: bool, padding_value: Value, padding_side: String,
    }
}

/// Sequences as they are before they are packed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sequences {
    /// `[time, batch, ...]`
    pub(crate) padded: Var,
    pub(crate) lengths: Var,
    /// Whether zeros are behind the end of each sequence.
    zeros: bool,
}

/// Notes what packed data stands for.
pub(super) fn remember(b: &Lower, data: Var, padded: Var, lengths: Var, zeros: bool) {
    b.source.packed.borrow_mut().insert(data, Sequences { padded, lengths, zeros });
}

fn pack(b: &Lower, input: Var, lengths: Var, batch_first: bool) -> Lowered<[Var; 2]> {
    let x = if batch_first { swapped(b, input)? } else { input };
    let lengths = b.cast(lengths, Int64)?;
    let (data, batch_sizes) = packed(b, x, lengths)?;
    remember(b, data, x, lengths, false);
    Ok([data, batch_sizes])
}

/// Exchanges the first two axes.
fn swapped(b: &Lower, x: Var) -> Lowered<Var> {
    let mut perm: Vec<i64> = (0..rank(b, x)? as i64).collect();
    perm.swap(0, 1);
    b.transpose(x).perm(perm).one()
}

/// Whether an element of `[time, batch]` belongs to its sequence.
fn mask(b: &Lower, time: Var, lengths: Var) -> Lowered<Var> {
    b.less(b.unsqueeze(time, [1])?, lengths)
}

fn counted(b: &Lower, n: &Value) -> Lowered<Var> {
    b.range(0i64, super::sizes::scalar(b, n)?, 1i64).one()
}

/// Packs `[time, batch, ...]`; also gives how many sequences are as long at each time.
pub(super) fn packed(b: &Lower, x: Var, lengths: Var) -> Lowered<(Var, Var)> {
    let inside = mask(b, counted(b, &longest(b, lengths)?)?, lengths)?;
    let x = first_steps(b, x, lengths)?;
    let rest: Vec<i64> =
        (2..rank(b, x)?).map(|axis| known_size(b, x, axis).unwrap_or(-1)).collect();
    if rest.iter().filter(|n| **n < 0).count() > 0 {
        return Err(b.diagnostic(Code::LayerParameter, "The features of a sequence must be known."));
    }
    let flat = b.reshape(x, [&[-1], &rest[..]].concat()).one()?;
    let data = b.compress(flat, b.reshape(inside, [-1]).one()?).axis(0).one()?;
    let batch_sizes = b.reduce_sum(b.cast(inside, Int64)?).axes([1]).keepdims(0).one()?;
    Ok((data, batch_sizes))
}

fn longest(b: &Lower, lengths: Var) -> Lowered<Value> {
    match b.ints_of(lengths).and_then(|all| all.into_iter().max()) {
        Some(n) => Ok(Value::Int(n)),
        None => Ok(Value::Var(b.reduce_max(lengths).keepdims(0).one()?)),
    }
}

/// A padded sequence without the time that no sequence reaches.
fn first_steps(b: &Lower, x: Var, lengths: Var) -> Lowered<Var> {
    let longest = longest(b, lengths)?;
    match (&longest, known_size(b, x, 0)) {
        (Value::Int(n), Some(m)) if *n == m => Ok(x),
        _ => b.slice(x, [0], super::sizes::single(b, &longest)?).axes([0]).one(),
    }
}

/// The padded form of packed data.
pub(super) fn padded(b: &Lower, data: Var, batch_sizes: Var) -> Lowered<Sequences> {
    if let Some(known) = b.source.packed.borrow().get(&data) {
        return Ok(*known);
    }
    let first = b.gather(batch_sizes, 0i64).axis(0).one()?;
    let batch = counted(b, &Value::Var(first))?;
    let inside = b.less(batch, b.unsqueeze(batch_sizes, [1])?)?;
    let lengths = b.reduce_sum(b.cast(inside, Int64)?).axes([0]).keepdims(0).one()?;
    let mut shape = vec![size(b, batch_sizes, 0)?, Value::Var(first)];
    for axis in 1..rank(b, data)? {
        shape.push(size(b, data, axis)?);
    }
    let zero = operand(b, &Value::Int(0), dtype_of(b, data)?)?;
    let zeros = b.expand(zero, vector(b, &shape)?)?;
    let places = b.transpose(b.non_zero(inside)?).perm([1, 0]).one()?;
    let padded = b.scatter_nd(zeros, places, data).one()?;
    Ok(Sequences { padded, lengths, zeros: true })
}

fn unpack(b: &Lower, a: Unpack) -> Lowered<[Var; 2]> {
    let Sequences { padded, lengths, zeros } = padded(b, a.data, a.batch_sizes)?;
    let value = operand(b, &a.padding_value, dtype_of(b, padded)?)?;
    let is_zero = matches!(a.padding_value, Value::Int(0))
        || matches!(a.padding_value, Value::Float(x) if x == 0.0);
    let mut x = first_steps(b, padded, lengths)?;
    if !(zeros && is_zero) {
        let inside = mask(b, counted(b, &longest(b, lengths)?)?, lengths)?;
        let axes: Vec<i64> = (2..rank(b, x)? as i64).collect();
        let inside = if axes.is_empty() { inside } else { b.unsqueeze(inside, axes)? };
        x = b.where_(inside, x, value)?;
    }
    x = of_length(b, x, &a, value)?;
    let x = if a.batch_first { swapped(b, x)? } else { x };
    Ok([x, lengths])
}

/// A sequence with as many elements as the program asks for; -1 stands for the longest.
fn of_length(b: &Lower, x: Var, a: &Unpack, value: Var) -> Lowered<Var> {
    let total = &a.total_length;
    let longest = || size(b, x, 0);
    match (known(b, total), total) {
        (Some(n), _) if n < 0 => Ok(x),
        // How many batches there are.
        (None, Value::Var(v)) if is_size_of(b, *v, a.batch_sizes) => Ok(x),
        _ => padded_end(b, x, &minus(b, total, &longest()?)?, value),
    }
}

/// Whether `v` is the first size of `x`.
fn is_size_of(b: &Lower, v: Var, x: Var) -> bool {
    let size = b.shape_of(x).and_then(|shape| shape.first().cloned());
    matches!((dim_of(b, v), size), (Some(a), Some(c)) if a.same(&c))
}

/// Adds elements at the end of the first axis.
fn padded_end(b: &Lower, x: Var, more: &Value, value: Var) -> Lowered<Var> {
    if *more == Value::Int(0) {
        return Ok(x);
    }
    let rank = rank(b, x)?;
    let mut pads = vec![Value::Int(0); 2 * rank];
    pads[rank] = more.clone();
    b.pad(x, vector(b, &pads)?).constant_value(value).one()
}

fn pad_sequence(b: &Lower, a: PadSequence) -> Lowered<Var> {
    let lengths = a.sequences.iter().map(|x| size(b, *x, 0)).collect::<Lowered<Vec<_>>>()?;
    let known = super::sizes::all_known(b, &lengths).and_then(|all| all.into_iter().max());
    let longest = match known {
        Some(n) => Value::Int(n),
        None => {
            let all = lengths.iter().map(|n| super::sizes::scalar(b, n));
            Value::Var(b.max(all.collect::<Lowered<Vec<_>>>()?)?)
        }
    };
    let axis = i64::from(!a.batch_first);
    let mut all = vec![];
    for (x, length) in a.sequences.iter().zip(&lengths) {
        let value = operand(b, &a.padding_value, dtype_of(b, *x)?)?;
        let more = minus(b, &longest, length)?;
        let x = match a.padding_side.as_str() {
            "left" => padded_start(b, *x, &more, value)?,
            _ => padded_end(b, *x, &more, value)?,
        };
        all.push(b.unsqueeze(x, [axis])?);
    }
    b.concat(all).axis(axis).one()
}

fn padded_start(b: &Lower, x: Var, more: &Value, value: Var) -> Lowered<Var> {
    let mut pads = vec![Value::Int(0); 2 * rank(b, x)?];
    pads[0] = more.clone();
    b.pad(x, vector(b, &pads)?).constant_value(value).one()
}
