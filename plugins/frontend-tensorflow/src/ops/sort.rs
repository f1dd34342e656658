//! Sorting, top k and unique elements.

use super::{Lower, Source, of, rank, widened};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Bool, Double, Float, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "TopK" => |b, a: TopAttribute| {
            let [values, at] = top_k(b, a.input, &Operand::Int(a.k), -1, [true, a.sorted])?;
            Ok([values, b.cast(at, Int32)?])
        };
        "TopKV2" => |b, a: Top| {
            let [values, at] = top_k(b, a.input, &a.k, -1, [true, a.sorted])?;
            Ok([values, b.cast(at, a.index_type.0)?])
        };
        "NthElement" => nth_element;
        "InTopK" => |b, a: InTopAttribute| in_top_k(b, a.predictions, a.targets, a.k.into());
        "InTopKV2" => |b, a: InTop| in_top_k(b, a.predictions, a.targets, b.cast(a.k, Int64)?.into());
        "Unique" => |b, a: Unique| {
            let [y, _, at, _] = unique(b, a.x, None, false)?;
            Ok([y, b.cast(at, a.out_idx.0)?])
        };
        "UniqueWithCounts" => |b, a: Unique| {
            let [y, _, at, counts] = unique(b, a.x, None, false)?;
            Ok([y, b.cast(at, a.out_idx.0)?, b.cast(counts, a.out_idx.0)?])
        };
        "UniqueV2" => |b, a: UniqueAxis| {
            let [y, _, at, _] = unique(b, a.x, a.axis.first().copied(), false)?;
            Ok([y, b.cast(at, a.out_idx.0)?])
        };
        "UniqueWithCountsV2" => |b, a: UniqueAxis| {
            let [y, _, at, counts] = unique(b, a.x, a.axis.first().copied(), false)?;
            Ok([y, b.cast(at, a.out_idx.0)?, b.cast(counts, a.out_idx.0)?])
        };
        "Where" => places;
    }
}

arguments! {
    /// `TopK(input; k: int, sorted: bool = true, T: type) -> values, indices`
    struct TopAttribute { input: Var, k: i64, sorted: bool }
    /// `TopKV2(input, k; sorted: bool = true, T: type, Tk: type = int32, index_type: type = int32) -> values, indices`
    struct Top { input: Var, k: Operand, sorted: bool, index_type: ElementType }
    /// `NthElement(input, n; reverse: bool = false, T: type) -> values`
    struct Nth { input: Var, n: Var, reverse: bool }
    /// `InTopK(predictions, targets; k: int, T: type = int32) -> precision`
    struct InTopAttribute { predictions: Var, targets: Var, k: i64 }
    /// `InTopKV2(predictions, targets, k; T: type = int32) -> precision`
    struct InTop { predictions: Var, targets: Var, k: Var }
    /// `Unique(x; T: type, out_idx: type = int32) -> y, idx`
    struct Unique { x: Var, out_idx: ElementType }
    /// `UniqueV2(x, axis; T: type, Taxis: type = int64, out_idx: type = int32) -> y, idx`
    struct UniqueAxis { x: Var, axis: Vec<i64>, out_idx: ElementType }
    /// `Where(input; T: type = bool) -> index`
    struct Where { input: Var }
}

/// The `k` largest (or smallest) elements of each row along an axis, and their places.
pub(crate) fn top_k(
    b: &GraphBuilder,
    x: Var,
    k: &Operand,
    axis: i64,
    [largest, sorted]: [bool; 2],
) -> Lowered<[Var; 2]> {
    let dtype = of(b, x)?;
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
    let dtype = of(b, x)?;
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
fn nth_element(b: &Lower, a: Nth) -> Lowered<Var> {
    let n = b.cast(a.n, Int64)?;
    let [values, _] = top_k(b, a.input, &b.add(n, 1)?.into(), -1, [a.reverse, true])?;
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
fn places(b: &Lower, a: Where) -> Lowered<Var> {
    let dtype = of(b, a.input)?;
    let x = if dtype == Bool { a.input } else { b.cast(a.input, Bool)? };
    rank(b, x)?;
    b.transpose(b.non_zero(x)?).perm(vec![1i64, 0]).one()
}
