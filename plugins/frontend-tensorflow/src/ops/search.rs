//! Places of numbers among others, counts, and rows that are sent to parts and back.

use super::create::{filled, scalar};
use super::scatter::scattered;
use super::shape::{DimSize, reshaped, shape_of, size};
use super::{Lower, RowContext, Values, dtype_of, rank, results};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Bucketize" => bucketize(input, boundaries);
        "LowerBound" => |b, a: Bound| counted(b, a, GraphBuilder::less);
        "UpperBound" => |b, a: Bound| counted(b, a, |b, sorted, x| b.not(b.greater(sorted, x)?));
        "ListDiff" => list_diff(x, y, out_idx);
        "UnravelIndex" => unravel_index(indices, dims);
        "Bincount" => |b, a: Counted| {
            let x = b.reshape(a.arr, [-1]).one()?;
            counts(b, x, a.size, weights(b, a.weights, dtype_of(b, a.weights)?)?, dtype_of(b, a.weights)?)
        };
        "DenseBincount" => dense_counts;
        "HistogramFixedWidth" => histogram;
        "DynamicPartition" => partition(data, partitions, num_partitions);
        "DynamicStitch" | "ParallelDynamicStitch" => stitch;
        "Print" => |_, input: Var, data: Vec<Value>, first_n: i64, summarize: i64| Ok(input);
    }
}

arguments! {
    /// `LowerBound`
    struct Bound { sorted_inputs: Var, values: Var, out_type: ElementType }
    /// `Bincount`
    struct Counted { arr: Var, size: Var, weights: Var }
    /// `DenseBincount`
    struct Dense { input: Var, size: Var, weights: Var, binary_output: bool }
    /// `HistogramFixedWidth`
    struct Histogram { values: Var, value_range: Var, nbins: Var, dtype: ElementType }
    /// `DynamicStitch`
    struct Stitch { indices: Vec<Var>, data: Vec<Var> }
}

/// How many truths there are along the last axis.
fn truths(b: &GraphBuilder, x: Var, to: DataType) -> Lowered<Var> {
    b.cast(b.reduce_sum(b.cast(x, Int32)?).axes([-1]).keepdims(0).one()?, to)
}

/// How many boundaries are not beyond each number.
fn bucketize(b: &Lower, input: Var, boundaries: Vec<f64>) -> Lowered<Var> {
    let dtype = if dtype_of(b, input)? == Double { Double } else { Float };
    let bounds = boundaries.iter().map(|x| *x as f32).collect::<Vec<_>>();
    let bounds = b.cast(b.constant(Tensor::vector(bounds)), dtype)?;
    let apart = b.unsqueeze(b.cast(input, dtype)?, [rank(b, input)? as i64])?;
    truths(b, b.not(b.less(apart, bounds)?)?, Int32)
}

/// How many of the sorted numbers of a row hold against each value.
fn counted(
    b: &Lower,
    a: Bound,
    holds: fn(&GraphBuilder, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let sorted = b.unsqueeze(a.sorted_inputs, [1])?;
    truths(b, holds(b, sorted, b.unsqueeze(a.values, [2])?)?, a.out_type.0)
}

/// Elements that another list does not have, and their places.
fn list_diff(b: &Lower, x: Var, y: Var, out_idx: ElementType) -> Lowered<[Var; 2]> {
    let same = b.equal(b.unsqueeze(x, [1])?, y)?;
    let kept = b.equal(truths(b, same, Int32)?, 0)?;
    let at = b.squeeze(b.non_zero(kept)?).axes([0]).one()?;
    Ok([b.gather(x, at).axis(0).one()?, b.cast(at, out_idx.0)?])
}

/// The place along each axis, one row for each.
fn unravel_index(b: &Lower, indices: Var, dims: Vec<i64>) -> Lowered<Var> {
    let dtype = dtype_of(b, indices)?;
    let x = b.cast(indices, Int64)?;
    let mut stride = 1i64;
    let mut rows = vec![];
    for dim in dims.iter().rev() {
        rows.push((stride, *dim));
        stride = stride.saturating_mul((*dim).max(1));
    }
    let behind: Vec<i64> = (1..=rank(b, x)? as i64).collect();
    let column = |f: fn(&(i64, i64)) -> i64| {
        let items: Vec<i64> = rows.iter().rev().map(f).collect();
        super::shape::unsqueezed(b, b.constant(Tensor::vector(items)), &behind)
    };
    let steps = b.div(x, column(|row| row.0)?)?;
    b.cast(b.mod_(steps, column(|row| row.1.max(1))?).one()?, dtype)
}

/// Weights; none if there are none of them, which means ones.
fn weights(b: &Lower, x: Var, dtype: DataType) -> Lowered<Option<Var>> {
    let Some(dims) = b.dims_of(x) else {
        let message = "The number of weights must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    match dims.contains(&0) {
        true => Ok(None),
        false => Ok(Some(b.reshape(b.cast(x, dtype)?, [-1]).one()?)),
    }
}

/// How often each number below `size` stands in a vector, or the sums of weights.
fn counts(
    b: &GraphBuilder,
    x: Var,
    size: Var,
    weights: Option<Var>,
    dtype: DataType,
) -> Lowered<Var> {
    let size = b.reshape(b.cast(size, Int64)?, [1]).one()?;
    let x = b.cast(x, Int64)?;
    let ones = |x: Var| b.expand(b.constant(scalar(1, dtype)), b.shape(x).one()?);
    let updates = match weights {
        Some(weights) => weights,
        None => ones(x)?,
    };
    // Numbers beyond go into one more place, which is cut off.
    let inside = b.min([x, size])?;
    let zeros = filled(b, b.add(size, 1)?, 0, dtype)?;
    let all = scattered(b, [zeros, b.unsqueeze(inside, [1])?, updates], Some("add"))?;
    b.slice(all, [0], size).axes([0]).one()
}

/// As [`counts`], for each row of a matrix.
fn dense_counts(b: &Lower, a: Dense) -> Lowered<Var> {
    let dtype = dtype_of(b, a.weights)?;
    let given = if a.binary_output { None } else { weights(b, a.weights, dtype)? };
    let x = b.cast(a.input, Int64)?;
    let y = match rank(b, x)? {
        2 => {
            // Numbers of a row lie behind those of the rows before it.
            let size = b.reshape(b.cast(a.size, Int64)?, [1]).one()?;
            let wide = b.add(size, 1)?;
            let rows = b.shape(x).start(0).end(1).one()?;
            let first = b.mul(b.range(0, b.squeeze(rows).axes([0]).one()?, 1).one()?, wide)?;
            let inside = b.add(b.min([x, size])?, b.unsqueeze(first, [1])?)?;
            let all = counts(b, b.reshape(inside, [-1]).one()?, b.mul(rows, wide)?, given, dtype)?;
            let matrix = b.reshape(all, b.concat([rows, wide]).axis(0).one()?).one()?;
            b.slice(matrix, [0], size).axes([1]).one()?
        }
        _ => counts(b, b.reshape(x, [-1]).one()?, a.size, given, dtype)?,
    };
    match a.binary_output {
        true => b.cast(b.greater(y, b.constant(scalar(0, dtype)))?, dtype),
        false => Ok(y),
    }
}

/// How many numbers fall into each part of a range; those outside count with the first and the last one.
fn histogram(b: &Lower, a: Histogram) -> Lowered<Var> {
    let dtype = if dtype_of(b, a.values)? == Float { Float } else { Double };
    let x = b.reshape(b.cast(a.values, dtype)?, [-1]).one()?;
    let end = |i: i64| b.gather(b.cast(a.value_range, dtype)?, i).axis(0).one();
    let bins = b.cast(a.nbins, dtype)?;
    let step = b.div(b.sub(end(1)?, end(0)?)?, bins)?;
    let place = b.floor(b.div(b.sub(x, end(0)?)?, step)?)?;
    let zero = b.constant(super::create::number(0.0, dtype));
    let inside = b.max([b.min([place, b.sub(bins, 1.0)?])?, zero])?;
    counts(b, inside, a.nbins, None, a.dtype.0)
}

/// `x` with its first axes as one.
fn joined(b: &GraphBuilder, x: Var, axes: usize) -> Lowered<Var> {
    let known = rank(b, x)?;
    let mut sizes = vec![DimSize::Known(-1)];
    for axis in axes..known {
        sizes.push(size(b, x, axis)?);
    }
    if let Some(dims) = b.dims_of(x).filter(|dims| dims.contains(&0)) {
        sizes[0] = DimSize::Known(dims[..axes.min(dims.len())].iter().product());
    }
    reshaped(b, x, &shape_of(b, &sizes)?)
}

fn partition(b: &Lower, data: Var, partitions: Var, num_partitions: i64) -> Lowered<Values> {
    results(b, num_partitions)?;
    let rows = joined(b, data, rank(b, partitions)?)?;
    let parts = b.reshape(partitions, [-1]).one()?;
    let part = |i: i64| {
        let own = b.equal(parts, i)?;
        let at = b.squeeze(b.non_zero(own)?).axes([0]).one()?;
        Ok(Value::Var(b.gather(rows, at).axis(0).one()?))
    };
    (0..num_partitions).map(part).collect::<Lowered<Vec<_>>>().map(Values)
}

/// Rows at the places that go with them; where places meet, the last one stays.
fn stitch(b: &Lower, a: Stitch) -> Lowered<Var> {
    let mut both = vec![];
    for (indices, data) in a.indices.iter().zip(&a.data) {
        let rows = joined(b, *data, rank(b, *indices)?)?;
        both.push((b.reshape(b.cast(*indices, Int64)?, [-1]).one()?, rows));
    }
    let Some((_, first)) = both.first().copied() else {
        return Err(b.diagnostic(Code::LayerParameter, "There is nothing to stitch."));
    };
    // Without any place there are no rows.
    let none = b.constant(Tensor::vector(vec![-1i64]));
    let all =
        b.concat(both.iter().map(|(at, _)| *at).chain([none]).collect::<Vec<_>>()).axis(0).one()?;
    let count = b.add(b.reduce_max(all).keepdims(1).one()?, 1)?;
    let mut sizes = vec![DimSize::Computed(count)];
    for axis in 1..rank(b, first)? {
        sizes.push(size(b, first, axis)?);
    }
    let shape = match shape_of(b, &sizes)? {
        Operand::Var(shape) => shape,
        known => b.cast(known, Int64)?,
    };
    let canvas = filled(b, shape, 0, dtype_of(b, first)?)?;
    both.into_iter()
        .try_fold(canvas, |y, (at, rows)| scattered(b, [y, b.unsqueeze(at, [1])?, rows], None))
}
