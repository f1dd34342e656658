//! Sorting, top k and unique elements.

use super::{Lower, RowContext, dtype_of, rank, widened};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Bool, Double, Float, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "TopK" => |b, input: Var, k: i64, sorted: bool| {
            let [values, at] = top_k(b, input, &Operand::Int(k), -1, [true, sorted])?;
            Ok([values, b.cast(at, Int32)?])
        };
        "TopKV2" => |b, input: Var, k: Operand, sorted: bool, index_type: ElementType| {
            let [values, at] = top_k(b, input, &k, -1, [true, sorted])?;
            Ok([values, b.cast(at, index_type.0)?])
        };
        "NthElement" => nth_element(input, n, reverse);
        "InTopK" => |b, predictions: Var, targets: Var, k: i64| in_top_k(b, predictions, targets, k.into());
        "InTopKV2" => |b, predictions: Var, targets: Var, k: Var| {
            in_top_k(b, predictions, targets, b.cast(k, Int64)?.into())
        };
        "Unique" => |b, x: Var, out_idx: ElementType| {
            let [y, _, at, _] = unique(b, x, None, false)?;
            Ok([y, b.cast(at, out_idx.0)?])
        };
        "UniqueWithCounts" => |b, x: Var, out_idx: ElementType| {
            let [y, _, at, counts] = unique(b, x, None, false)?;
            Ok([y, b.cast(at, out_idx.0)?, b.cast(counts, out_idx.0)?])
        };
        "UniqueV2" => |b, x: Var, axis: Vec<i64>, out_idx: ElementType| {
            let [y, _, at, _] = unique(b, x, axis.first().copied(), false)?;
            Ok([y, b.cast(at, out_idx.0)?])
        };
        "UniqueWithCountsV2" => |b, x: Var, axis: Vec<i64>, out_idx: ElementType| {
            let [y, _, at, counts] = unique(b, x, axis.first().copied(), false)?;
            Ok([y, b.cast(at, out_idx.0)?, b.cast(counts, out_idx.0)?])
        };
        "Where" => places(input);
    }
}

/// The `k` largest (or smallest) elements of each row along an axis, and their places.
pub(crate) fn top_k(
    b: &GraphBuilder,
    x: Var,
    k: &Operand,
    axis: i64,
    [largest, sorted]: [bool; 2],
) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, x)?;
    let k: Operand = match k {
        Operand::Int(k) => vec![*k].into(),
        Operand::Var(v) => match b.ints_of(*v) {
            Some(k) => k.into(),
            None => b.reshape(b.cast(*v, Int64)?, [1]).one()?.into(),
        },
        other => other.clone(),
    };
    let call =
        b.top_k(b.cast(x, widened(dtype))?, k).axis(axis).largest((!largest).then_some(0i64));
    let [values, at] = call.sorted((!sorted).then_some(0i64)).outputs()?;
    Ok([b.cast(values, dtype)?, at])
}

/// Elements (or slices along an axis) without repetition, in order or as they come, their places, which of them each
/// element is, and how many each stands for.
pub(crate) fn unique(
    b: &GraphBuilder,
    x: Var,
    axis: Option<i64>,
    sorted: bool,
) -> Lowered<[Var; 4]> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        d if d.is_float() && d != Double => Float,
        d if d.is_integer() || d == Bool => Int64,
        d => d,
    };
    let call = b.unique(b.cast(x, computed)?).axis(axis);
    let [y, first, at, counts] = call.sorted(i64::from(sorted)).outputs()?;
    Ok([b.cast(y, dtype)?, first, at, counts])
}

/// Element `n` of each row in order.
fn nth_element(b: &Lower, input: Var, n: Var, reverse: bool) -> Lowered<Var> {
    let n = b.cast(n, Int64)?;
    let [values, _] = top_k(b, input, &b.add(n, 1)?.into(), -1, [reverse, true])?;
    b.gather(values, n).axis(-1).one()
}

/// Whether fewer than `k` classes are above that of the target. No answer is `false`: the target is no class, or a
/// number of its row is not finite.
fn in_top_k(b: &Lower, predictions: Var, targets: Var, k: Operand) -> Lowered<Var> {
    let targets = b.cast(targets, Int64)?;
    let count = b.squeeze(b.shape(predictions).start(1).one()?).axes([0]).one()?;
    let is_class = b.and(b.greater_or_equal(targets, 0)?, b.less(targets, count)?)?;
    let place = b.unsqueeze(b.where_(is_class, targets, 0)?, [1])?;
    let own = b.gather_elements(predictions, place).axis(1).one()?;
    let all = |x: Var| b.reduce_sum(b.cast(x, Int64)?).axes([1]).keepdims(0).one();
    let above = all(b.greater(predictions, own)?)?;
    let odd = all(b.or(b.is_nan(predictions)?, b.is_inf(predictions).one()?)?)?;
    b.and(b.and(b.less(above, k)?, b.equal(odd, 0)?)?, is_class)
}

/// Places of elements that are not zero, one in each row.
fn places(b: &Lower, input: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, input)?;
    let x = if dtype == Bool { input } else { b.cast(input, Bool)? };
    rank(b, x)?;
    b.transpose(b.non_zero(x)?).perm(vec![1i64, 0]).one()
}
