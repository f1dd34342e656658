//! Tensors whose rows have any length: values one after the other, and where each row begins.

use super::create::{filled, number};
use super::scatter::scattered;
use super::{Lower, RowContext, dtype_of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Double, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "RaggedGather" => gather;
        "RaggedTensorToTensor" => to_tensor;
        "RaggedRange" => range;
    }
}

arguments! {
    /// `RaggedGather`
    struct Gather {
        params_nested_splits: Vec<Var>, params_dense_values: Var, indices: Var, params_ragged_rank: i64,
        output_ragged_rank: i64,
    }
    /// `RaggedTensorToTensor`
    struct ToTensor {
        shape: Vec<i64>, values: Var, default_value: Var, row_partition_tensors: Vec<Var>,
        num_row_partition_tensors: i64, row_partition_types: Vec<String>,
    }
}

arguments! {
    /// `RaggedRange`
    struct Range { starts: Var, limits: Var, deltas: Var, tsplits: ElementType }
}

/// A row from each start to its limit. A number alone stands for those of all rows.
fn range(b: &Lower, a: Range) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, a.starts)?;
    let computed = if dtype.is_float() { Double } else { Int64 };
    let flat = |x: Var| b.reshape(b.cast(x, computed)?, [-1]).one();
    let [starts, limits, deltas] = [flat(a.starts)?, flat(a.limits)?, flat(a.deltas)?];
    let rows = b.shape(b.add(starts, b.add(limits, deltas)?)?).one()?;
    let each = |x: Var| b.expand(x, rows);
    let [starts, limits, deltas] = [each(starts)?, each(limits)?, each(deltas)?];
    let zero = || b.constant(number(0.0, computed));
    let apart = b.sub(limits, starts)?;
    let way = b.where_(b.less(deltas, zero())?, b.neg(apart)?, apart)?;
    let (way, step) = (b.max([way, zero()])?, b.abs(deltas)?);
    let sizes = match computed {
        Double => b.cast(b.ceil(b.div(way, step)?)?, Int64)?,
        _ => b.div(b.sub(b.add(way, step)?, b.constant(number(1.0, computed)))?, step)?,
    };
    let first = b.constant(Tensor::vector(vec![0i64]));
    let splits = b.concat([first, b.cum_sum(sizes, 0).one()?]).axis(0).one()?;
    let total = b.reduce_sum(sizes).axes([0]).keepdims(0).one()?;
    let places = b.range(0, total, 1).one()?;
    let row = rows_of(b, splits, places)?;
    let of_row = |x: Var| b.gather(x, row).axis(0).one();
    let within = b.cast(b.sub(places, of_row(splits)?)?, computed)?;
    let values = b.add(of_row(starts)?, b.mul(within, of_row(deltas)?)?)?;
    Ok([b.cast(splits, a.tsplits.0)?, b.cast(values, dtype)?])
}

fn nested(b: &GraphBuilder) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    let message = "Only tensors with one axis of any length are converted.";
    b.diagnostic(Code::LayerUnsupported, message)
}

/// All but the first, or all but the last.
fn part(b: &GraphBuilder, x: Var, from: i64, to: i64) -> Lowered<Var> {
    b.slice(x, [from], [to]).axes([0]).one()
}

/// The row of each value, where rows begin at `splits`.
fn rows_of(b: &GraphBuilder, splits: Var, places: Var) -> Lowered<Var> {
    let passed = b.greater_or_equal(b.unsqueeze(places, [1])?, part(b, splits, 1, i64::MAX)?)?;
    b.cast(b.reduce_sum(b.cast(passed, Int32)?).axes([1]).keepdims(0).one()?, Int64)
}

/// Rows by their numbers.
fn gather(b: &Lower, a: Gather) -> Lowered<[Var; 2]> {
    let &[splits] = &a.params_nested_splits[..] else { return Err(nested(b)) };
    if a.params_ragged_rank != 1 || a.output_ragged_rank != 1 || rank(b, a.indices)? != 1 {
        return Err(nested(b));
    }
    let dtype = dtype_of(b, splits)?;
    let splits = b.cast(splits, Int64)?;
    let wanted = b.cast(a.indices, Int64)?;
    let begin = b.gather(splits, wanted).axis(0).one()?;
    let end = b.gather(splits, b.add(wanted, 1)?).axis(0).one()?;
    let ends = super::scan::running_sum(b, b.sub(end, begin)?, 0, [false, false])?;
    let zero = b.constant(Tensor::vector(vec![0i64]));
    let starts = b.concat([zero, ends]).axis(0).one()?;
    let total = b.squeeze(part(b, starts, -1, i64::MAX)?).axes([0]).one()?;
    let places = b.range(0, total, 1).one()?;
    let row = rows_of(b, starts, places)?;
    let shift = b.sub(b.gather(begin, row).axis(0).one()?, b.gather(starts, row).axis(0).one()?)?;
    let values = b.gather(a.params_dense_values, b.add(places, shift)?).axis(0).one()?;
    Ok([b.cast(starts, dtype)?, values])
}

/// Rows as those of a dense tensor, as wide as the longest one or as it is said, with a default behind them.
fn to_tensor(b: &Lower, a: ToTensor) -> Lowered<Var> {
    let types: Vec<&str> = a.row_partition_types.iter().map(String::as_str).collect();
    let as_int64 = |x: Var| b.cast(x, Int64);
    let count = b.squeeze(b.shape(a.values).start(0).end(1).one()?).axes([0]).one()?;
    let places = b.range(0, count, 1).one()?;
    let (rows, row) = match (&types[..], &a.row_partition_tensors[..]) {
        (["ROW_SPLITS"], [splits]) => {
            let splits = as_int64(*splits)?;
            (b.sub(b.size(splits)?, 1)?, rows_of(b, splits, places)?)
        }
        (["FIRST_DIM_SIZE", "VALUE_ROWIDS"], [size, row]) => {
            (b.reshape(as_int64(*size)?, Vec::<i64>::new()).one()?, as_int64(*row)?)
        }
        _ => return Err(nested(b)),
    };
    // How many values of its row come before each one.
    let rows = b.reshape(rows, [1]).one()?;
    let ones = b.expand(b.constant(Tensor::scalar(1i64)), b.shape(row).one()?)?;
    let zeros = filled(b, rows, 0, Int64)?;
    let counts = scattered(b, [zeros, b.unsqueeze(row, [1])?, ones], Some("add"))?;
    let starts = super::scan::running_sum(b, counts, 0, [true, false])?;
    let column = b.sub(places, b.gather(starts, row).axis(0).one()?)?;
    let none = b.constant(Tensor::vector(vec![-1i64]));
    let longest =
        b.add(b.reduce_max(b.concat([column, none]).axis(0).one()?).keepdims(1).one()?, 1)?;
    let said = |axis: usize| a.shape.get(axis).copied().filter(|n| *n >= 0);
    let vector = |n: i64| b.constant(Tensor::vector(vec![n]));
    let size = |own: Var, said: Option<i64>| match said {
        Some(said) => b.max([own, vector(said)]),
        None => Ok(own),
    };
    let mut sizes = vec![size(rows, said(0))?, size(longest, said(1))?];
    if rank(b, a.values)? > 1 {
        sizes.push(b.shape(a.values).start(1).one()?);
    }
    let canvas = b.expand(a.default_value, b.concat(sizes).axis(0).one()?)?;
    let at = b.concat([b.unsqueeze(row, [1])?, b.unsqueeze(column, [1])?]).axis(1).one()?;
    let y = b.scatter_nd(canvas, at, a.values).one()?;
    // What is beyond the sizes that are said is dropped.
    (0..2).try_fold(y, |y, axis| match said(axis) {
        Some(said) => b.slice(y, [0], [said]).axes([axis as i64]).one(),
        None => Ok(y),
    })
}
