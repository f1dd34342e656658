//! Concatenation, stacking and splitting.

use super::create::scalar;
use super::shape::{axis_of, unsqueezed};
use super::{Lower, RowContext, Values, dtype_of, rank, results};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Concat" => |b, concat_dim: i64, values: Vec<Var>| concatenated(b, values, concat_dim);
        "ConcatV2" => |b, values: Vec<Var>, axis: i64| concatenated(b, values, axis);
        "ParallelConcat" => |b, values: Vec<Var>| concatenated(b, values, 0);
        "ConcatOffset" => offsets;
        "Pack" => |b, values: Vec<Var>, axis: i64| packed(b, values, axis);
        "Unpack" => unpack(value, num, axis);
        "Split" => split(split_dim, value, num_split);
        "SplitV" => split_sizes(value, size_splits, split_dim);
    }
}

arguments! {
    /// `ConcatOffset`
    struct Offsets { concat_dim: i64, shape: Vec<Var> }
}

/// Tensors one after the other along an axis.
pub(crate) fn concatenated(b: &GraphBuilder, values: Vec<Var>, axis: i64) -> Lowered<Var> {
    match values[..] {
        [only] => Ok(only),
        _ => b.concat(values).axis(axis).one(),
    }
}

/// Where tensors of these shapes begin in one that holds them one after the other.
fn offsets(b: &Lower, a: Offsets) -> Lowered<Values> {
    let mut all = vec![];
    let mut before = None;
    for shape in a.shape {
        let places = b.range(0, b.size(shape)?, 1).one()?;
        let along = b.gather(shape, [a.concat_dim]).axis(0).one()?;
        let zero = b.constant(scalar(0, dtype_of(b, shape)?));
        let here = before.unwrap_or(zero);
        all.push(Value::Var(b.where_(b.equal(places, a.concat_dim)?, here, zero)?));
        before = Some(b.add(here, along)?);
    }
    Ok(Values(all))
}

/// Tensors along an axis of their own.
pub(crate) fn packed(b: &GraphBuilder, values: Vec<Var>, axis: i64) -> Lowered<Var> {
    // Behind the last axis, where the ranks are known.
    let axis = match values.first().and_then(|v| b.rank_of(*v)) {
        Some(rank) if axis < 0 => axis + rank as i64 + 1,
        _ => axis,
    };
    let with_axis = values.into_iter().map(|v| unsqueezed(b, v, &[axis]));
    concatenated(b, with_axis.collect::<Lowered<_>>()?, axis)
}

fn unpack(b: &Lower, value: Var, num: i64, axis: i64) -> Lowered<Values> {
    results(b, num)?;
    let axis = axis_of(b, value, axis)? as i64;
    let one = |i: i64| Ok(Value::Var(b.gather(value, i).axis(axis).one()?));
    (0..num).map(one).collect::<Lowered<Vec<_>>>().map(Values)
}

/// Parts of these sizes along an axis.
pub(crate) fn parts(b: &GraphBuilder, x: Var, axis: i64, sizes: &[i64]) -> Lowered<Values> {
    if sizes.len() == 1 {
        return Ok(Values(vec![x.into()]));
    }
    let all = b.split(x).split(sizes).axis(axis).list(sizes.len())?;
    Ok(Values(all.into_iter().map(Value::Var).collect()))
}

fn split(b: &Lower, split_dim: i64, value: Var, num_split: i64) -> Lowered<Values> {
    let axis = axis_of(b, value, split_dim)?;
    let n = results(b, num_split)?;
    let size = b.shape_of(value).and_then(|shape| shape.get(axis)?.known());
    match size {
        _ if n <= 1 => Ok(Values(vec![value.into()])),
        Some(size) => parts(b, value, axis as i64, &vec![size / num_split; n]),
        None if b.opset() >= 18 => {
            let all = b.split(value).num_outputs(num_split).axis(axis as i64).list(n)?;
            Ok(Values(all.into_iter().map(Value::Var).collect()))
        }
        None => {
            let all = b.split(value).axis(axis as i64).list(n)?;
            Ok(Values(all.into_iter().map(Value::Var).collect()))
        }
    }
}

fn split_sizes(b: &Lower, value: Var, size_splits: Vec<i64>, split_dim: i64) -> Lowered<Values> {
    let axis = axis_of(b, value, split_dim)?;
    let mut sizes = size_splits;
    if let Some(open) = sizes.iter().position(|n| *n < 0) {
        rank(b, value)?;
        let size = b.shape_of(value).and_then(|shape| shape.get(axis)?.known());
        let others = sizes.iter().filter(|n| **n > 0).fold(0i64, |sum, n| sum.saturating_add(*n));
        let Some(rest) = size.map(|size| size.saturating_sub(others)).filter(|rest| *rest >= 0)
        else {
            let message = format!("The size of axis {axis} must be known to take the rest of it.");
            return Err(b.diagnostic(Code::LayerUnsupported, message));
        };
        sizes[open] = rest;
    }
    parts(b, value, axis as i64, &sizes)
}
