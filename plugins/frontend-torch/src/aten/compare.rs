//! Comparisons, logic of truth values and bits, and the choice between tensors.

use super::dtype::{all_of, common, dtype_of, float_of, known, operand, operands};
use super::elementwise::floor_quotient;
use super::{Lower, Pair, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Float, Int16, Int32, Int64, Uint16, Uint64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::eq" | "prims::eq" => |b, a: Pair| compared(b, &a, equal);
        "aten::ne" | "aten::not_equal" | "prims::ne" => |b, a: Pair| b.not(compared(b, &a, equal)?);
        "aten::lt" | "aten::less" | "prims::lt" => |b, a: Pair| compared(b, &a, lesser);
        "aten::gt" | "aten::greater" | "prims::gt" => |b, a: Pair| compared(b, &a, |b, x, y| lesser(b, y, x));
        "aten::le" | "aten::less_equal" | "prims::le" => |b, a: Pair| compared(b, &a, less_or_equal);
        "aten::ge" | "aten::greater_equal" | "prims::ge" => |b, a: Pair| {
            compared(b, &a, |b, x, y| less_or_equal(b, y, x))
        };
        "aten::isclose" => isclose;
        "aten::allclose" => |b, a: Close| all_true(b, isclose(b, a)?);
        "aten::equal" => same;
        "aten::logical_and" => |b, a: Pair| logical(b, &a, |b, x, y| b.and(x, y));
        "aten::logical_or" => |b, a: Pair| logical(b, &a, |b, x, y| b.or(x, y));
        "aten::logical_xor" => |b, a: Pair| logical(b, &a, |b, x, y| b.xor(x, y));
        "aten::logical_not" => |b, input: Var| b.not(b.cast(input, Bool)?);
        "aten::bitwise_and" | "aten::__and__" | "prims::bitwise_and" =>
            |b, a: Pair| bits(b, &a, |b, x, y| b.and(x, y), |b, x, y| b.bitwise_and(x, y));
        "aten::bitwise_or" | "aten::__or__" | "prims::bitwise_or" =>
            |b, a: Pair| bits(b, &a, |b, x, y| b.or(x, y), |b, x, y| b.bitwise_or(x, y));
        "aten::bitwise_xor" | "aten::__xor__" | "prims::bitwise_xor" =>
            |b, a: Pair| bits(b, &a, |b, x, y| b.xor(x, y), |b, x, y| b.bitwise_xor(x, y));
        "aten::bitwise_not" | "prims::bitwise_not" => bitwise_not(input);
        "aten::bitwise_left_shift" | "aten::__lshift__" | "prims::shift_left" => shift_left;
        "aten::bitwise_right_shift" | "aten::__rshift__" | "prims::shift_right_arithmetic" => shift_right;
    };
    super::rows! { table;
        "aten::maximum" | "aten::max.other" | "prims::maximum" => |b, a: Pair| extreme(b, [&a.input, &a.other], true);
        "aten::minimum" | "aten::min.other" | "prims::minimum" => |b, a: Pair| extreme(b, [&a.input, &a.other], false);
        "aten::fmax" | "prims::fmax" => |b, a: Pair| extreme_number(b, &a, true);
        "aten::fmin" | "prims::fmin" => |b, a: Pair| extreme_number(b, &a, false);
        "aten::clamp" | "aten::clip" => |b, input: Value, min: Value, max: Value| clamp(b, &input, &min, &max);
        "aten::clamp_min" => |b, input: Value, min: Value| clamp(b, &input, &min, &Value::None);
        "aten::clamp_max" => |b, input: Value, max: Value| clamp(b, &input, &Value::None, &max);
        "aten::where.self" | "aten::where.ScalarOther" | "aten::where.ScalarSelf"
            | "aten::where.Scalar" => where_(condition, input, other);
        "prims::where" => |b, a: Choice| choice(b, a.pred, &a.a, &a.b);
        "aten::where" => |b, condition: Var| positions(b, condition);
        "aten::masked_fill" => masked_fill(input, mask, value);
        "aten::heaviside" => heaviside;
        "aten::isnan" => |b, input: Var| match dtype_of(b, input)?.is_float() {
            true => b.is_nan(input),
            false => never(b, input),
        };
        "aten::isinf" => |b, input: Var| infinite(b, input, |b, x, inf| b.equal(b.abs(x)?, inf));
        "aten::isposinf" => |b, input: Var| infinite(b, input, |b, x, inf| b.equal(x, inf));
        "aten::isneginf" => |b, input: Var| infinite(b, input, |b, x, inf| b.equal(b.neg(x)?, inf));
        "aten::isfinite" | "prims::isfinite" => |b, input: Var| match dtype_of(b, input)?.is_float() {
            true => b.less(b.abs(input)?, f64::INFINITY),
            false => b.equal(input, input),
        };
        "aten::isreal" => |b, input: Var| match dtype_of(b, input)?.is_float() {
            true => b.or(b.is_nan(input)?, b.equal(input, input)?),
            false => b.equal(input, input),
        };
    }
}

arguments! {
    /// `prims::where`
    struct Choice { pred: Var, a: Value, b: Value }
    /// `heaviside`
    struct Heaviside { input: Value, values: Value }
    /// `isclose`
    struct Close { input: Value, other: Value, rtol: f64, atol: f64, equal_nan: bool }
}

type Compare = fn(&Lower, Var, Var) -> Lowered<Var>;

/// Compares in the type in which operands meet.
fn compared(b: &Lower, a: &Pair, compare: Compare) -> Lowered<Var> {
    let [x, y] = operands(b, [&a.input, &a.other])?;
    compare(b, x, y)
}

/// Truth values as numbers, for operators that do not take them.
fn number(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        Bool => b.cast(x, Int32),
        _ => Ok(x),
    }
}

fn equal(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    b.equal(x, y)
}

/// Whether `x < y`; truth values count as 0 and 1.
pub(crate) fn lesser(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    b.less(number(b, x)?, number(b, y)?)
}

fn less_or_equal(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    let (x, y) = (number(b, x)?, number(b, y)?);
    match b.opset() >= 12 {
        true => b.less_or_equal(x, y),
        false => b.or(b.less(x, y)?, b.equal(x, y)?),
    }
}

fn isclose(b: &Lower, a: Close) -> Lowered<Var> {
    let dtype = float_of(common(b, &[&a.input, &a.other])?);
    let [x, y] = all_of(b, [&a.input, &a.other], dtype)?;
    let distance = b.abs(b.sub(x, y)?)?;
    let allowed = b.add(b.mul(b.abs(y)?, a.rtol)?, a.atol)?;
    let near = b.and(less_or_equal(b, distance, allowed)?, b.less(distance, f64::INFINITY)?)?;
    let close = b.or(b.equal(x, y)?, near)?;
    match a.equal_nan {
        true => b.or(close, b.and(b.is_nan(x)?, b.is_nan(y)?)?),
        false => Ok(close),
    }
}

/// Whether all elements are true.
pub(crate) fn all_true(b: &Lower, x: Var) -> Lowered<Var> {
    b.cast(b.reduce_min(b.cast(x, Int32)?).keepdims(false).one()?, Bool)
}

fn same(b: &Lower, a: Pair) -> Lowered<Value> {
    let shape = |v: &Value| match v {
        Value::Var(v) => b.dims_of(*v),
        _ => None,
    };
    let [x, y] = operands(b, [&a.input, &a.other])?;
    match (shape(&a.input), shape(&a.other)) {
        (Some(p), Some(q)) if p != q => Ok(Value::Bool(false)),
        (Some(_), Some(_)) => all_true(b, b.equal(x, y)?).map(Value::Var),
        _ => Err(b.diagnostic(Code::LayerUnsupported, "`equal` needs tensors of known shapes.")),
    }
}

fn logical(b: &Lower, a: &Pair, join: Compare) -> Lowered<Var> {
    let [x, y] = all_of(b, [&a.input, &a.other], Bool)?;
    join(b, x, y)
}

/// Truth values are joined by `of_bools`, integers by `of_bits`.
fn bits(b: &Lower, a: &Pair, of_bools: Compare, of_bits: Compare) -> Lowered<Var> {
    let [x, y] = operands(b, [&a.input, &a.other])?;
    if dtype_of(b, x)? == Bool {
        return of_bools(b, x, y);
    }
    if b.opset() < 18 {
        let message = "ONNX joins the bits of integers from opset 18 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    of_bits(b, x, y)
}

fn bitwise_not(b: &Lower, input: Var) -> Lowered<Var> {
    match dtype_of(b, input)? {
        Bool => b.not(input),
        _ if b.opset() >= 18 => b.bitwise_not(input),
        // The complement of two, which also holds for unsigned integers.
        dtype => b.sub(operand(b, &Value::Int(-1), dtype)?, input),
    }
}

/// `2 ** count`, in the type of `count`.
fn power_of_two(b: &Lower, count: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, count)?;
    if let Some(count) = known(b, count) {
        let whole = 1i64.checked_shl(count as u32).filter(|_| count >= 0.0).unwrap_or(0);
        return operand(b, &Value::Int(whole), dtype);
    }
    super::elementwise::pow(b, &Value::Int(2), &Value::Var(count))
}

fn shift_left(b: &Lower, a: Pair) -> Lowered<Var> {
    let [x, count] = operands(b, [&a.input, &a.other])?;
    b.mul(x, power_of_two(b, count)?)
}

fn shift_right(b: &Lower, a: Pair) -> Lowered<Var> {
    let [x, count] = operands(b, [&a.input, &a.other])?;
    let dtype = dtype_of(b, x)?;
    // All bits but the sign are gone, and its own power of two is no number of the type.
    if known(b, count).is_some_and(|count| count >= (dtype.bits() - 1) as f64) {
        let negative = b.cast(b.less(x, 0i64)?, dtype)?;
        return b.sub(operand(b, &Value::Int(0), dtype)?, negative);
    }
    match dtype.is_float() {
        true => b.div(x, power_of_two(b, count)?),
        false => floor_quotient(b, x, power_of_two(b, count)?),
    }
}

/// A type like `dtype` that runtimes choose, clip and compare in.
fn in_runtimes(dtype: DataType) -> DataType {
    match dtype {
        Int16 | Uint16 => Int32,
        Uint64 => Int64,
        other => other,
    }
}

/// `x` where the condition holds, else `y`: of one element type. Runtimes choose among few types.
pub(crate) fn select(b: &Lower, condition: Var, x: Var, y: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let not = || b.not(condition);
    match (dtype, known(b, x), known(b, y)) {
        (Bool, Some(1.0), _) => b.or(condition, y),
        (Bool, Some(_), _) => b.and(not()?, y),
        (Bool, _, Some(1.0)) => b.or(not()?, x),
        (Bool, _, Some(_)) => b.and(condition, x),
        (Bool, ..) => b.or(b.and(condition, x)?, b.and(not()?, y)?),
        (Int16 | Uint16 | Uint64, ..) => {
            let computed = in_runtimes(dtype);
            let chosen = b.where_(condition, b.cast(x, computed)?, b.cast(y, computed)?)?;
            b.cast(chosen, dtype)
        }
        _ => b.where_(condition, x, y),
    }
}

fn choice(b: &Lower, condition: Var, x: &Value, y: &Value) -> Lowered<Var> {
    let [x, y] = operands(b, [x, y])?;
    select(b, b.cast(condition, Bool)?, x, y)
}

fn where_(b: &Lower, condition: Var, input: Value, other: Value) -> Lowered<Var> {
    choice(b, condition, &input, &other)
}

/// Where elements are true: the indices of each axis.
fn positions(b: &Lower, condition: Var) -> Lowered<Value> {
    let rank = b.rank_of(condition).ok_or_else(|| {
        b.diagnostic(Code::LayerUnsupported, "`where` needs a tensor of known rank.")
    })?;
    let x = if rank == 0 { b.reshape(condition, [1]).one()? } else { condition };
    let all = b.non_zero(x)?;
    let axes = (0..rank.max(1) as i64).map(|i| b.gather(all, i).axis(0).one());
    Ok(axes.collect::<Lowered<Vec<Var>>>()?.into())
}

fn masked_fill(b: &Lower, input: Var, mask: Var, value: Value) -> Lowered<Var> {
    let value = operand(b, &value, dtype_of(b, input)?)?;
    select(b, b.cast(mask, Bool)?, value, input)
}

/// 0 or 1 by the sign, and `values` where there is none.
fn heaviside(b: &Lower, a: Heaviside) -> Lowered<Var> {
    let [x, values] = operands(b, [&a.input, &a.values])?;
    let (dtype, x) = (dtype_of(b, x)?, number(b, x)?);
    select(b, b.equal(x, 0i64)?, values, b.cast(b.greater(x, 0i64)?, dtype)?)
}

/// False everywhere: of elements that are never not a number.
pub(crate) fn never(b: &Lower, x: Var) -> Lowered<Var> {
    let x = number(b, x)?;
    b.less(x, x)
}

fn infinite(b: &Lower, x: Var, is: fn(&Lower, Var, f64) -> Lowered<Var>) -> Lowered<Var> {
    match dtype_of(b, x)?.is_float() {
        true => is(b, x, f64::INFINITY),
        false => never(b, x),
    }
}

/// The greater or the lesser of two; no number where one of them is none.
pub(crate) fn extreme(b: &Lower, values: [&Value; 2], greater: bool) -> Lowered<Var> {
    let dtype = common(b, &values)?;
    let [x, y] = all_of(b, values, dtype)?;
    match dtype {
        Bool if greater => b.or(x, y),
        Bool => b.and(x, y),
        d if d.is_integer() && b.opset() < 12 => {
            let first = if greater { lesser(b, y, x)? } else { lesser(b, x, y)? };
            select(b, first, x, y)
        }
        Int16 | Uint16 => {
            let all = [b.cast(x, Int32)?, b.cast(y, Int32)?];
            b.cast(if greater { b.max(all)? } else { b.min(all)? }, dtype)
        }
        _ if greater => b.max([x, y]),
        _ => b.min([x, y]),
    }
}

/// As [`extreme`]; the other one where one is no number.
fn extreme_number(b: &Lower, a: &Pair, greater: bool) -> Lowered<Var> {
    let [x, y] = operands(b, [&a.input, &a.other])?;
    if !dtype_of(b, x)?.is_float() {
        return extreme(b, [&a.input, &a.other], greater);
    }
    let other = if greater { b.less(x, y)? } else { b.less(y, x)? };
    b.where_(b.or(other, b.is_nan(x)?)?, y, x)
}

/// `x`, not below `min`, then not above `max`.
pub(crate) fn clamp(b: &Lower, x: &Value, min: &Value, max: &Value) -> Lowered<Var> {
    let bounds: Vec<&Value> = [x, min, max].into_iter().filter(|v| **v != Value::None).collect();
    let dtype = common(b, &bounds)?;
    let scalar = |v: &Value| match v {
        Value::Var(v) => b.rank_of(*v) == Some(0) && (b.opset() >= 11 || known(b, *v).is_some()),
        _ => true,
    };
    if scalar(min) && scalar(max) && (dtype == Float || b.opset() >= 12) {
        let computed = in_runtimes(dtype);
        let bound = |v: &Value| match v {
            Value::None => Ok(None),
            v => operand(b, &operand(b, v, dtype)?.into(), computed).map(Some),
        };
        let x = operand(b, &operand(b, x, dtype)?.into(), computed)?;
        let clipped = b.clip(x).min(bound(min)?).max(bound(max)?).one()?;
        return b.cast(clipped, dtype);
    }
    let mut x = operand(b, x, dtype)?;
    for (bound, greater) in [(min, true), (max, false)] {
        if *bound != Value::None {
            x = extreme(b, [&Value::Var(x), bound], greater)?;
        }
    }
    b.cast(x, dtype)
}
