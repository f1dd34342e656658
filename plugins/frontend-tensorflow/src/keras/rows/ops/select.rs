//! Order: sorting, ranks, searches, sets and counts.

use super::elementwise::any;
use super::promote::{as_tensors, floats, tensor};
use super::reduce::axes;
use super::shapes::in_line;
use crate::keras::rows::count;
use crate::ops::create::{counted, number, scalar};
use crate::ops::reduce::{Reduction, holds};
use crate::ops::shape::{DimSize, axis_of, size, sized, sizes, transposed, unsqueezed};
use crate::ops::sort::top_k;
use crate::ops::{Lower, RowContext, Values, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse, shown};
use onnxd_plugin_sdk::formulas::arithmetic::{floor_quotient, floor_remainder};
use onnxd_plugin_sdk::ir::DataType::{Bool, Double, Float, Int8, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Sort" => |b, a: Sort| {
            let dtype = dtype_of(b, a.x)?;
            b.cast(sorted(b, &a)?[0], dtype)
        };
        "ops.Argsort" => |b, a: Sort| b.cast(sorted(b, &a)?[1], Int32);
        "ops.TopK" => |b, a: TopK| {
            let [values, at] = top_k(b, a.x, &Operand::Int(a.k), -1, [true, a.sorted])?;
            Ok([values, b.cast(at, Int32)?])
        };
        "ops.InTopK" => |b, targets: Var, predictions: Var, k: i64| {
            let target = b.unsqueeze(b.cast(targets, Int64)?, [1])?;
            let own = b.gather_elements(predictions, target).axis(1).one()?;
            let above = b.cast(b.greater(predictions, own)?, Int64)?;
            b.less(b.reduce_sum(above).axes([1]).keepdims(0).one()?, k)
        };
        "ops.SearchSorted" => |b, a: Search| {
            let [line, values] = as_tensors(b, [&a.sorted_sequence, &a.values])?;
            places(b, line, values, a.side == "right")
        };
        "ops.Digitize" => |b, x: Value, bins: Value| {
            let x = any(b, &x)?;
            let line = tensor(b, &bins, if dtype_of(b, x)? == Double { Double } else { Float })?;
            places(b, line, b.cast(x, dtype_of(b, line)?)?, true)
        };
        "ops.Median" => |b, a: Median| quantile(b, a.x, &Value::Float(0.5), 1.0, &a.axis, "linear", a.keepdims);
        "ops.Quantile" => |b, a: Quantile| quantile(b, a.x, &a.q, 1.0, &a.axis, &a.method, a.keepdims);
        "ops.Percentile" => |b, a: Quantile| quantile(b, a.x, &a.q, 100.0, &a.axis, &a.method, a.keepdims);
        "ops.IsIn" => |b, a: IsIn| {
            let [x, all] = as_tensors(b, [&a.x1, &a.x2])?;
            let all = b.reshape(all, [-1]).one()?;
            let any_hit = holds(b, b.equal(b.unsqueeze(x, [-1])?, all)?, &[-1], false, Reduction::Max)?;
            if a.invert { b.not(any_hit) } else { Ok(any_hit) }
        };
        "ops.Select" => select;
        "ops.Nonzero" => |b, x: Var| {
            let all = b.cast(b.non_zero(b.cast(x, Bool)?)?, Int32)?;
            let one = |i: i64| Ok(Value::Var(b.gather(all, i).axis(0).one()?));
            (0..rank(b, x)? as i64).map(one).collect::<Lowered<Vec<_>>>().map(Values)
        };
        "ops.Bincount" => bincount;
        "ops.UnravelIndex" => |b, indices: Var, shape: Vec<i64>| {
            let mut rest = indices;
            let mut all = vec![];
            for n in shape.iter().rev() {
                let n = b.constant(scalar(*n, dtype_of(b, rest)?));
                all.push(Value::Var(floor_remainder(b, rest, n)?));
                rest = floor_quotient(b, rest, n)?;
            }
            all.reverse();
            Ok(Values(all))
        };
        "ops.Diff" => diff;
        "ops.Trapezoid" => trapezoid;
    }
}

arguments! {
    /// `Sort(x; axis=-1)`; TensorFlow's `sort` has a direction.
    struct Sort { x: Var, axis: Option<i64>, direction: Option<String> }
    /// `TopK(x; k, sorted=True)`
    struct TopK { x: Var, k: i64, sorted: bool = true }
    /// `SearchSorted(sorted_sequence, values; side="left")`
    struct Search { sorted_sequence: Value, values: Value, side: String = "left" }
    /// `Median(x; axis=None, keepdims=False)`
    struct Median { x: Var, axis: Operand = Operand::Absent, keepdims: bool = false }
    /// `Quantile(x, q; axis=None, method="linear", keepdims=False)`
    struct Quantile {
        x: Var, q: Value, axis: Operand = Operand::Absent, method: String = "linear", keepdims: bool = false,
    }
    /// `IsIn(x1, x2; assume_unique=False, invert=False)`
    struct IsIn { x1: Value, x2: Value, assume_unique: Option<bool>, invert: bool = false }
    /// `Select(condlist, choicelist, default=0)`
    struct Select { condlist: Vec<Value>, choicelist: Vec<Value>, default: Option<Value> }
    /// `Bincount(x; weights=None, minlength=0, sparse=False)`
    struct Bincount { x: Var, weights: Option<Value>, minlength: i64 = 0, sparse: bool = false }
    /// `Diff(a; n=1, axis=-1)`
    struct Diff { a: Var, n: i64 = 1, axis: i64 = -1 }
    /// `Trapezoid(y; x=None, dx=1.0, axis=-1)`
    struct Trapezoid { y: Var, x: Option<Value>, dx: f64 = 1.0, axis: i64 = -1 }
}

/// Elements in order, and their places.
fn sorted(b: &Lower, a: &Sort) -> Lowered<[Var; 2]> {
    let x = if dtype_of(b, a.x)? == Bool { b.cast(a.x, Int8)? } else { a.x };
    let (x, axis) = in_line(b, x, a.axis)?;
    let k = match size(b, x, axis as usize)? {
        DimSize::Known(n) => Operand::Int(n),
        DimSize::Computed(v) => v.into(),
    };
    let largest = match a.direction.as_deref() {
        None | Some("ASCENDING") => false,
        Some("DESCENDING") => true,
        Some(other) => {
            return Err(b.wrong(format!("The direction `{}` is not known.", shown(other))));
        }
    };
    top_k(b, x, &k, axis, [largest, true])
}

/// How many elements of a line in order are below each value; those equal to it count if `equal`.
pub(crate) fn places(b: &GraphBuilder, line: Var, values: Var, equal: bool) -> Lowered<Var> {
    let values = b.unsqueeze(values, [-1])?;
    let below = match equal {
        true => b.less_or_equal(line, values)?,
        false => b.less(line, values)?,
    };
    b.reduce_sum(b.cast(below, Int32)?).axes([-1]).keepdims(0).one()
}

/// Axes that are reduced, as a last one.
fn flattened(b: &GraphBuilder, x: Var, list: &[i64]) -> Lowered<Var> {
    let n = rank(b, x)?;
    let list = list.iter().map(|a| axis_of(b, x, *a)).collect::<Lowered<Vec<_>>>()?;
    let kept: Vec<usize> = (0..n).filter(|a| !list.contains(a)).collect();
    let perm: Vec<i64> = kept.iter().chain(&list).map(|a| *a as i64).collect();
    let sizes = [sizes(b, x, kept)?, vec![DimSize::Known(-1)]].concat();
    sized(b, transposed(b, x, &perm)?, &sizes)
}

/// The element at a part of the order, or what is between two of them.
fn quantile(
    b: &Lower,
    x: Var,
    q: &Value,
    whole: f64,
    axis: &Operand,
    method: &str,
    keepdims: bool,
) -> Lowered<Var> {
    let x = floats(b, x)?;
    let dtype = dtype_of(b, x)?;
    let list = axes(b, x, axis)?;
    let flat = flattened(b, x, &list)?;
    let line = sorted(b, &Sort { x: flat, axis: Some(-1), direction: None })?[0];
    let last = b.shape(flat).start(-1).one()?;
    let last = b.sub(b.cast(b.squeeze(last).axes([0]).one()?, Double)?, 1.0)?;
    let q = b.div(tensor(b, q, Double)?, whole)?;
    let exact = b.mul(last, q)?;
    let at = |places: Var| b.gather(line, b.cast(places, Int64)?).axis(-1).one();
    let y = match method {
        "lower" => at(b.floor(exact)?)?,
        "higher" => at(b.ceil(exact)?)?,
        "nearest" => at(b.round(exact)?)?,
        "midpoint" => b.mul(b.add(at(b.floor(exact)?)?, at(b.ceil(exact)?)?)?, 0.5)?,
        "linear" => {
            let zero = b.constant(number(0.0, Double));
            let low = b.max([b.sub(b.ceil(exact)?, 1.0)?, zero])?;
            let high = b.min([b.add(low, 1.0)?, last])?;
            let part = b.cast(b.sub(high, exact)?, dtype)?;
            let upper = b.mul(at(high)?, b.sub(1.0, part)?)?;
            b.add(upper, b.mul(at(low)?, part)?)?
        }
        other => return Err(b.unsupported(format!("The method `{}` is not known.", shown(other)))),
    };
    // No number among the elements makes the result none.
    let m = rank(b, q)? as i64;
    let nan = holds(b, b.is_nan(flat)?, &[-1], false, Reduction::Max)?;
    let nan = unsqueezed(b, nan, &(1..=m).map(|i| -i).collect::<Vec<i64>>())?;
    let y = b.where_(nan, b.constant(number(f64::NAN, dtype)), y)?;
    let y = if m > 0 {
        let r = rank(b, y)? as i64;
        transposed(b, y, &(r - m..r).chain(0..r - m).collect::<Vec<i64>>())?
    } else {
        y
    };
    if !keepdims {
        return Ok(y);
    }
    let mut back =
        list.iter().map(|a| Ok(axis_of(b, x, *a)? as i64 + m)).collect::<Lowered<Vec<_>>>()?;
    back.sort_unstable();
    unsqueezed(b, y, &back)
}

/// The first choice whose condition holds.
fn select(b: &Lower, a: Select) -> Lowered<Var> {
    let default = a.default.unwrap_or(Value::Int(0));
    let all: Vec<&Value> = a.choicelist.iter().chain([&default]).collect();
    let to = super::promote::result(b, &all)?.fixed();
    let mut y = tensor(b, &default, to)?;
    for (condition, x) in a.condlist.iter().zip(&a.choicelist).rev() {
        let condition = super::elementwise::truth(b, condition)?;
        y = crate::ops::select::choice(b, condition, tensor(b, x, to)?, y)?;
    }
    Ok(y)
}

/// How often each number occurs in each row, or the sum of its weights.
fn bincount(b: &Lower, a: Bincount) -> Lowered<Var> {
    refuse!(a.sparse => b.unsupported("ONNX has no sparse tensors to compute with."));
    let x = b.cast(a.x, Int64)?;
    let most = b.add(b.reduce_max(x).keepdims(0).one()?, 1)?;
    let most = b.max([most, b.constant(scalar(a.minlength, Int64))])?;
    let all = counted(b, most)?;
    let hot = b.equal(b.unsqueeze(x, [-1])?, all)?;
    let (weights, to) = match &a.weights {
        Some(weights) => {
            let weights = any(b, weights)?;
            let [_, both] = as_tensors(b, [&a.x.into(), &weights.into()])?;
            (Some(both), dtype_of(b, both)?)
        }
        None => (None, Int32),
    };
    let hot = b.cast(hot, to)?;
    let hot = match weights {
        Some(weights) => b.mul(hot, b.unsqueeze(weights, [-1])?)?,
        None => hot,
    };
    b.reduce_sum(hot).axes([-2]).keepdims(0).one()
}

/// How often differences are taken, each by nodes of its own.
fn times(b: &GraphBuilder, n: i64) -> Lowered<i64> {
    const TIMES_MAX: i64 = 256;
    refuse!(n > TIMES_MAX =>
        b.diagnostic(Code::SourceLimit, format!("Differences are taken {n} times, more than {TIMES_MAX}.")));
    count(b, "differences", n)
}

fn diff(b: &Lower, a: Diff) -> Lowered<Var> {
    let axis = axis_of(b, a.a, a.axis)? as i64;
    let mut x = a.a;
    for _ in 0..times(b, a.n)? {
        let behind = b.slice(x, [1], [i64::MAX]).axes([axis]).one()?;
        let before = b.slice(x, [0], [-1]).axes([axis]).one()?;
        x = match dtype_of(b, x)? {
            Bool => b.xor(behind, before)?,
            _ => b.sub(behind, before)?,
        };
    }
    Ok(x)
}

fn trapezoid(b: &Lower, a: Trapezoid) -> Lowered<Var> {
    let y = floats(b, a.y)?;
    let axis = axis_of(b, y, a.axis)? as i64;
    let y = super::shapes::moved(b, y, &[axis], &[-1])?;
    let behind = b.slice(y, [1], [i64::MAX]).axes([-1]).one()?;
    let height = b.mul(b.add(behind, b.slice(y, [0], [-1]).axes([-1]).one()?)?, 0.5)?;
    let area = match &a.x {
        Some(x) => {
            let x = tensor(b, x, dtype_of(b, y)?)?;
            let steps =
                diff(b, Diff { a: x, n: 1, axis: if rank(b, x)? == 1 { -1 } else { a.axis } })?;
            let steps = if rank(b, steps)? == 1 {
                steps
            } else {
                super::shapes::moved(b, steps, &[axis], &[-1])?
            };
            b.mul(height, steps)?
        }
        None => b.mul(height, a.dx)?,
    };
    b.reduce_sum(area).axes([-1]).keepdims(0).one()
}
