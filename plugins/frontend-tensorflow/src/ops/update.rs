//! Slices of fixed sizes at computed places, and updates of them.

use super::{RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "XlaDynamicSlice" => |b, input: Var, start_indices: Var, size_indices: Vec<i64>| {
            cut(b, input, &each(b, input, start_indices)?, &size_indices)
        };
        "XlaDynamicUpdateSlice" => |b, input: Var, update: Var, indices: Var| {
            updated(b, input, update, &each(b, input, indices)?)
        };
    }
}

pub(crate) fn vector(b: &GraphBuilder, n: i64) -> Var {
    b.constant(Tensor::vector(vec![n]))
}

/// Numbers as vectors of one element.
pub(crate) fn places(b: &GraphBuilder, starts: &[Var]) -> Lowered<Vec<Var>> {
    starts.iter().map(|v| b.reshape(b.cast(*v, Int64)?, [1]).one()).collect()
}

/// The place in each axis of `x`, as vectors of one element.
pub(crate) fn each(b: &GraphBuilder, x: Var, starts: Var) -> Lowered<Vec<Var>> {
    let starts = b.cast(starts, Int64)?;
    (0..rank(b, x)? as i64)
        .map(|axis| b.slice(starts, [axis], [axis + 1]).axes([0]).one())
        .collect()
}

/// A part of `x` of these sizes, which begins at these places, moved inwards where it would reach over the end.
pub(crate) fn cut(b: &GraphBuilder, mut x: Var, starts: &[Var], sizes: &[i64]) -> Lowered<Var> {
    for (axis, (size, start)) in sizes.iter().zip(starts).enumerate() {
        if size_of(b, x, axis) != Some(*size) {
            let start = clamped(b, x, axis, *start, vector(b, *size))?;
            x = b.slice(x, start, b.add(start, *size)?).axes([axis as i64]).one()?;
        }
    }
    Ok(x)
}

/// The size of an axis as a vector of one element.
fn measured(b: &GraphBuilder, x: Var, axis: usize) -> Lowered<Var> {
    match size_of(b, x, axis) {
        Some(n) => Ok(vector(b, n)),
        None => b.shape(x).start(axis as i64).end(axis as i64 + 1).one(),
    }
}

/// A start at which `size` elements lie within the axis.
fn clamped(b: &GraphBuilder, x: Var, axis: usize, start: Var, size: Var) -> Lowered<Var> {
    let last = b.sub(measured(b, x, axis)?, size)?;
    b.min([b.max([start, vector(b, 0)])?, last])
}

/// `x` with `update` in it, which begins at these places, moved inwards where it would reach over the end. Along each
/// axis where it is smaller than `x`, it stands between what is before and behind it.
pub(crate) fn updated(b: &GraphBuilder, x: Var, update: Var, starts: &[Var]) -> Lowered<Var> {
    dtype_of(b, x)?;
    let n = rank(b, x)?;
    let same = |axis: usize| {
        let sizes = (size_of(b, x, axis), size_of(b, update, axis));
        matches!(sizes, (Some(a), Some(b)) if a == b)
    };
    let axes: Vec<usize> = (0..n.min(starts.len())).filter(|axis| !same(*axis)).collect();
    let mut slab = x;
    let mut slabs = vec![];
    for (i, axis) in axes.iter().copied().enumerate() {
        let size = measured(b, update, axis)?;
        let start = clamped(b, x, axis, starts[axis], size)?;
        let (end, at) = (b.add(start, size)?, axis as i64);
        let before = b.slice(slab, [0], start).axes([at]).one()?;
        let behind = b.slice(slab, end, [i64::MAX]).axes([at]).one()?;
        slabs.push((at, before, behind));
        if i + 1 < axes.len() {
            slab = b.slice(slab, start, end).axes([at]).one()?;
        }
    }
    slabs.into_iter().rev().try_fold(update, |inner, (axis, before, behind)| {
        b.concat([before, inner, behind]).axis(axis).one()
    })
}
