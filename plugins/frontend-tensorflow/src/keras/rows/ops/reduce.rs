//! Reductions and running sums.

use super::elementwise::truth;
use super::promote::{floats, named_if, not_half, numbers, summed};
use super::shapes::list;
use crate::ops::create::{number, scalar};
use crate::ops::reduce::{Reduction, along, deviations, holds};
use crate::ops::scan::{running_product, running_sum};
use crate::ops::select::choice;
use crate::ops::shape::squeezed;
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::formulas::arithmetic::nan_to_num;
use onnxd_plugin_sdk::ir::DataType::{Bool, Int32};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = crate::ops::rows! { table;
        "ops.Sum" => |b, a: Reduce| over(b, in_sum(b, a.x)?, &a, Reduction::Sum);
        "ops.Prod" => |b, a: Product| {
            let to = named_if(b, a.dtype.as_ref())?.map_or_else(|| Ok(summed(dtype_of(b, a.x)?)), Ok)?;
            let x = b.cast(a.x, to)?;
            along(b, x, &axes(b, x, &a.axis)?, a.keepdims, Reduction::Prod)
        };
        "ops.Mean" => |b, a: Reduce| {
            let dtype = dtype_of(b, floats(b, a.x)?)?;
            b.cast(over(b, not_half(b, a.x)?, &a, Reduction::Mean)?, dtype)
        };
        "ops.Max" | "ops.Amax" => |b, a: Extreme| extreme(b, &a, true);
        "ops.Min" | "ops.Amin" => |b, a: Extreme| extreme(b, &a, false);
        "ops.All" => |b, a: Truth| holding(b, &a, Reduction::Min);
        "ops.Any" => |b, a: Truth| holding(b, &a, Reduction::Max);
        "ops.Var" => |b, a: Reduce| variance(b, &a);
        "ops.Std" => |b, a: Reduce| b.sqrt(variance(b, &a)?);
        "ops.Ptp" => |b, a: Reduce| b.sub(over(b, a.x, &a, Reduction::Max)?, over(b, a.x, &a, Reduction::Min)?);
        "ops.CountNonzero" => |b, a: Count| {
            let x = b.cast(truth(b, &a.x)?, Int32)?;
            along(b, x, &axes(b, x, &a.axis)?, false, Reduction::Sum)
        };
        "ops.Logsumexp" => |b, a: Reduce| {
            let list = axes(b, a.x, &a.axis)?;
            b.reduce_log_sum_exp(a.x).axes(list).keepdims(i64::from(a.keepdims)).one()
        };
        "ops.Average" => average;
        "ops.Argmax" => |b, a: Place| place(b, a.x, a.axis, a.keepdims, true);
        "ops.Argmin" => |b, a: Place| place(b, a.x, a.axis, a.keepdims, false);
        "ops.Cumsum" => |b, a: Running| running(b, a, running_sum);
        "ops.Cumprod" => |b, a: Running| running(b, a, running_product);
        "ops.Moments" => moments;
    };
    without_nan(table)
}

arguments! {
    /// `Sum(x; axis=None, keepdims=False)`
    struct Reduce { x: Var, axis: Operand = Operand::Absent, keepdims: bool = false }
    /// `Prod(x; axis=None, keepdims=False, dtype=None)`
    struct Product { x: Var, axis: Operand = Operand::Absent, keepdims: bool = false, dtype: Option<String> }
    /// `Max(x; axis=None, keepdims=False, initial=None)`
    struct Extreme { x: Var, axis: Operand = Operand::Absent, keepdims: bool = false, initial: Option<Value> }
    /// `All(x; axis=None, keepdims=False)`
    struct Truth { x: Value, axis: Operand = Operand::Absent, keepdims: bool = false }
    /// `CountNonzero(x; axis=None)`
    struct Count { x: Value, axis: Operand = Operand::Absent }
    /// `Average(x, weights=None; axis=None)`
    struct Average { x: Var, weights: Option<Var>, axis: Operand = Operand::Absent }
    /// `Argmax(x; axis=None, keepdims=False)`
    struct Place { x: Var, axis: Option<i64>, keepdims: bool = false }
    /// `Cumsum(x; axis=None, dtype=None)`
    struct Running { x: Var, axis: Option<i64>, dtype: Option<String> }
    /// `Moments(x; axes, keepdims=False, synchronized=False)`
    struct Moments { x: Var, axes: Operand, keepdims: bool = false, synchronized: Option<bool> }
}

/// The axes of a reduction: all of them if none is named.
pub(crate) fn axes(b: &GraphBuilder, x: Var, axis: &Operand) -> Lowered<Vec<i64>> {
    match axis {
        Operand::Absent => Ok((0..rank(b, x)? as i64).collect()),
        axes => list(b, axes),
    }
}

fn over(b: &Lower, x: Var, a: &Reduce, how: Reduction) -> Lowered<Var> {
    along(b, x, &axes(b, x, &a.axis)?, a.keepdims, how)
}

/// The largest or smallest element; of truth values, whether any or all hold.
fn extreme(b: &Lower, a: &Extreme, largest: bool) -> Lowered<Var> {
    let how = if largest { Reduction::Max } else { Reduction::Min };
    let dtype = dtype_of(b, a.x)?;
    let x = numbers(b, a.x)?;
    let y = along(b, x, &axes(b, x, &a.axis)?, a.keepdims, how)?;
    let y = match &a.initial {
        Some(initial) => {
            let initial = super::promote::tensor(b, initial, dtype_of(b, y)?)?;
            super::elementwise::extreme(b, y, initial, largest)?
        }
        None => y,
    };
    b.cast(y, dtype)
}

fn holding(b: &Lower, a: &Truth, how: Reduction) -> Lowered<Var> {
    let x = truth(b, &a.x)?;
    holds(b, x, &axes(b, x, &a.axis)?, a.keepdims, how)
}

fn variance(b: &Lower, a: &Reduce) -> Lowered<Var> {
    let dtype = dtype_of(b, floats(b, a.x)?)?;
    let x = not_half(b, a.x)?;
    let [.., variance] = deviations(b, x, &axes(b, x, &a.axis)?, a.keepdims)?;
    b.cast(variance, dtype)
}

fn moments(b: &Lower, a: Moments) -> Lowered<[Var; 2]> {
    let dtype = dtype_of(b, a.x)?;
    let x = not_half(b, a.x)?;
    let list = axes(b, x, &a.axes)?;
    let [mean, _, variance] = deviations(b, x, &list, a.keepdims)?;
    let mean = if a.keepdims || list.is_empty() { mean } else { squeezed(b, mean, &list)? };
    Ok([b.cast(mean, dtype)?, b.cast(variance, dtype)?])
}

fn average(b: &Lower, a: Average) -> Lowered<Var> {
    let Some(weights) = a.weights else {
        let x = floats(b, a.x)?;
        return along(b, x, &axes(b, x, &a.axis)?, false, Reduction::Mean);
    };
    let [x, weights] = super::promote::in_floats(b, [&a.x.into(), &weights.into()])?;
    let (n, m) = (rank(b, x)?, rank(b, weights)?);
    let weights = match &a.axis {
        Operand::Int(axis) if n != m => {
            let at = crate::ops::shape::axis_of(b, x, *axis)?;
            b.unsqueeze(weights, (1..(n - at) as i64).collect::<Vec<i64>>())?
        }
        _ => weights,
    };
    let weights = if n == m || n == 0 { weights } else { b.expand(weights, b.shape(x).one()?)? };
    let list = axes(b, x, &a.axis)?;
    let sum = along(b, b.mul(x, weights)?, &list, false, Reduction::Sum)?;
    b.div(sum, along(b, weights, &list, false, Reduction::Sum)?)
}

/// Where the largest or smallest element is.
fn place(b: &Lower, x: Var, axis: Option<i64>, keepdims: bool, largest: bool) -> Lowered<Var> {
    let n = rank(b, x)?;
    let x = if dtype_of(b, x)? == Bool { b.cast(x, Int32)? } else { x };
    let flat = if axis.is_none() { b.reshape(x, [-1]).one()? } else { x };
    let keep = i64::from(keepdims && axis.is_some());
    let at = match largest {
        true => b.arg_max(flat).axis(axis.unwrap_or(0)).keepdims(keep).one()?,
        false => b.arg_min(flat).axis(axis.unwrap_or(0)).keepdims(keep).one()?,
    };
    let at = b.cast(at, Int32)?;
    match keepdims && axis.is_none() && n > 0 {
        true => b.unsqueeze(at, (0..n as i64).collect::<Vec<i64>>()),
        false => Ok(at),
    }
}

type ReduceFn = fn(&GraphBuilder, Var, i64, [bool; 2]) -> Lowered<Var>;

/// Along an axis, or over all elements in order.
fn running(b: &Lower, a: Running, f: ReduceFn) -> Lowered<Var> {
    let x = match named_if(b, a.dtype.as_ref())? {
        Some(to) => b.cast(a.x, to)?,
        None => a.x,
    };
    let x = numbers(b, x)?;
    match a.axis {
        Some(axis) => f(b, x, axis, [false, false]),
        None => f(b, b.reshape(x, [-1]).one()?, 0, [false, false]),
    }
}

/// Elements of the type in which their sums and products are.
pub(super) fn in_sum(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.cast(x, summed(dtype_of(b, x)?))
}

fn without_nan(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Nansum" => |b, a: Reduce| over(b, in_sum(b, replaced(b, a.x, 0.0)?)?, &a, Reduction::Sum);
        "ops.Nanprod" => |b, a: Reduce| over(b, in_sum(b, replaced(b, a.x, 1.0)?)?, &a, Reduction::Prod);
        "ops.Nanmax" => |b, a: Reduce| nan_extreme(b, &a, true);
        "ops.Nanmin" => |b, a: Reduce| nan_extreme(b, &a, false);
        "ops.Nanmean" => |b, a: Reduce| nan_mean(b, &a, a.x);
        "ops.Nanvar" => |b, a: Reduce| nan_variance(b, &a);
        "ops.Nanstd" => |b, a: Reduce| b.sqrt(nan_variance(b, &a)?);
        "ops.Nanargmax" => |b, a: Place| nan_place(b, &a, true);
        "ops.Nanargmin" => |b, a: Place| nan_place(b, &a, false);
        "ops.Nancumsum" => |b, mut a: Running| {
            a.x = nan_to_num(b, a.x, 0.0, [None, None])?;
            running(b, a, running_sum)
        };
        "ops.Nancumprod" => |b, mut a: Running| {
            a.x = nan_to_num(b, a.x, 1.0, [None, None])?;
            running(b, a, running_product)
        };
    }
}

/// `x` with a number in place of what is none.
fn replaced(b: &GraphBuilder, x: Var, with: f64) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    if !dtype.is_float() {
        return Ok(x);
    }
    b.where_(b.is_nan(x)?, b.constant(number(with, dtype)), x)
}

/// Whether no element along the axes is a number.
fn all_nan(b: &GraphBuilder, x: Var, list: &[i64], keepdims: bool) -> Lowered<Var> {
    holds(b, b.is_nan(x)?, list, keepdims, Reduction::Min)
}

fn nan_extreme(b: &Lower, a: &Reduce, largest: bool) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    let list = axes(b, a.x, &a.axis)?;
    let (how, worst) = match largest {
        true => (Reduction::Max, f64::NEG_INFINITY),
        false => (Reduction::Min, f64::INFINITY),
    };
    if !dtype.is_float() {
        return b.cast(along(b, numbers(b, a.x)?, &list, a.keepdims, how)?, dtype);
    }
    let found = along(b, replaced(b, a.x, worst)?, &list, a.keepdims, how)?;
    let nan = b.constant(number(f64::NAN, dtype));
    choice(b, all_nan(b, a.x, &list, a.keepdims)?, nan, found)
}

fn nan_mean(b: &Lower, a: &Reduce, x: Var) -> Lowered<Var> {
    let x = floats(b, x)?;
    by_numbers(b, a, x, || replaced(b, x, 0.0))
}

/// The sum of terms, divided by how many elements of `x` are numbers.
fn by_numbers(b: &Lower, a: &Reduce, x: Var, terms: impl FnOnce() -> Lowered<Var>) -> Lowered<Var> {
    let list = axes(b, x, &a.axis)?;
    let count = b.cast(b.not(b.is_nan(x)?)?, dtype_of(b, x)?)?;
    let sum = along(b, terms()?, &list, a.keepdims, Reduction::Sum)?;
    b.div(sum, along(b, count, &list, a.keepdims, Reduction::Sum)?)
}

fn nan_variance(b: &Lower, a: &Reduce) -> Lowered<Var> {
    let x = floats(b, a.x)?;
    let kept = Reduce { x, axis: a.axis.clone(), keepdims: true };
    let apart = replaced(b, b.sub(x, nan_mean(b, &kept, x)?)?, 0.0)?;
    by_numbers(b, a, x, || b.mul(apart, apart))
}

fn nan_place(b: &Lower, a: &Place, largest: bool) -> Lowered<Var> {
    if !dtype_of(b, a.x)?.is_float() {
        return place(b, a.x, a.axis, a.keepdims, largest);
    }
    let worst = if largest { f64::NEG_INFINITY } else { f64::INFINITY };
    let at = place(b, replaced(b, a.x, worst)?, a.axis, a.keepdims, largest)?;
    let list = axes(b, a.x, &a.axis.map_or(Operand::Absent, Operand::Int))?;
    let none = all_nan(b, a.x, &list, a.keepdims)?;
    b.where_(none, b.constant(scalar(-1, Int32)), at)
}
