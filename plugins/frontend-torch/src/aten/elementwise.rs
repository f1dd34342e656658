//! Arithmetic of tensors and numbers.

use super::dtype::{
    all_of, common, dtype_of, float_of, float_operands, is_known, known, operand, operands, wide,
};
use super::{Lower, Pair, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::formulas::arithmetic::{self, floor_remainder};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::add" | "prims::add" => add;
        "aten::sub" | "aten::subtract" | "prims::sub" => sub;
        "aten::rsub" => rsub;
        "aten::_add_relu" => |b, a: Scaled| b.relu(add(b, a)?);
        "aten::mul" | "aten::multiply" | "prims::mul" => |b, a: Pair| mul(b, &a.input, &a.other);
        "aten::div" | "aten::divide" | "aten::true_divide" => div(input, other, rounding_mode);
        "prims::div" => prims_div;
        "aten::floor_divide" => |b, a: Pair| arithmetic(b, [&a.input, &a.other], |[x, y]| floor_quotient(b, x, y));
        "aten::remainder" | "prims::remainder" => |b, a: Pair| {
            arithmetic(b, [&a.input, &a.other], |[x, y]| floor_remainder(b, x, y))
        };
        "aten::fmod" | "prims::fmod" => |b, a: Pair| {
            arithmetic(b, [&a.input, &a.other], |[x, y]| b.mod_(x, y).fmod(1).one())
        };
        "aten::pow" => |b, input: Value, exponent: Value| pow(b, &input, &exponent);
        "prims::pow" => |b, a: Pair| pow(b, &a.input, &a.other);
        "aten::float_power" => float_power(input, exponent);
        "aten::square" => |b, input: Var| pow(b, &Value::Var(input), &Value::Int(2));
        "aten::addcmul" => addcmul(input, tensor1, tensor2, value);
        "aten::addcdiv" => addcdiv(input, tensor1, tensor2, value);
        "aten::lerp" => lerp;
        "aten::ldexp" => |b, a: Pair| {
            let [x, y] = float_operands(b, [&a.input, &a.other])?;
            b.mul(x, b.pow(operand(b, &Value::Int(2), dtype_of(b, x)?)?, y)?)
        };
        "aten::gcd" | "prims::gcd" => |b, a: Pair| {
            let dtype = common(b, &[&a.input, &a.other])?;
            let [x, y] = all_of(b, [&a.input, &a.other], wide(dtype))?;
            b.cast(arithmetic::gcd(b, b.abs(x)?, b.abs(y)?)?, dtype)
        };
        "aten::lcm" => lcm;
    }
}

arguments! {
    /// `add`
    struct Scaled { input: Value, other: Value, alpha: Value = 1i64 }
    /// `lerp`
    struct Lerp { input: Value, end: Value, weight: Value }
}

/// Computes in the type in which operands meet; where old versions have no small integers, in a wider one.
pub(crate) fn arithmetic<const N: usize>(
    b: &Lower,
    values: [&Value; N],
    compute: impl FnOnce([Var; N]) -> Lowered<Var>,
) -> Lowered<Var> {
    let dtype = common(b, &values)?;
    let computed = if b.opset() < 14 { wide(dtype) } else { dtype };
    b.cast(compute(all_of(b, values, computed)?)?, dtype)
}

/// `x * factor`, in the type of `x`.
fn scaled(b: &Lower, x: Var, factor: &Value) -> Lowered<Var> {
    if is_known(factor, 1.0) {
        return Ok(x);
    }
    b.mul(x, operand(b, factor, dtype_of(b, x)?)?)
}

fn add(b: &Lower, a: Scaled) -> Lowered<Var> {
    arithmetic(b, [&a.input, &a.other], |[x, y]| match dtype_of(b, x)? {
        DataType::Bool => b.or(x, y),
        _ => b.add(x, scaled(b, y, &a.alpha)?),
    })
}

fn sub(b: &Lower, a: Scaled) -> Lowered<Var> {
    arithmetic(b, [&a.input, &a.other], |[x, y]| b.sub(x, scaled(b, y, &a.alpha)?))
}

fn rsub(b: &Lower, a: Scaled) -> Lowered<Var> {
    sub(b, Scaled { input: a.other, other: a.input, alpha: a.alpha })
}

/// `x * y`; of truth values, whether both hold.
pub(crate) fn mul(b: &Lower, x: &Value, y: &Value) -> Lowered<Var> {
    arithmetic(b, [x, y], |[x, y]| match dtype_of(b, x)? {
        DataType::Bool => b.and(x, y),
        _ => b.mul(x, y),
    })
}

fn div(b: &Lower, input: Value, other: Value, rounding_mode: Option<String>) -> Lowered<Var> {
    let values = [&input, &other];
    match rounding_mode.as_deref() {
        None | Some("" | "None") => {
            let [x, y] = float_operands(b, values)?;
            b.div(x, y)
        }
        Some("floor") => arithmetic(b, values, |[x, y]| floor_quotient(b, x, y)),
        Some("trunc") => arithmetic(b, values, |[x, y]| truncated(b, b.div(x, y)?)),
        Some(other) => {
            let message = format!("There is no rounding mode `{}`.", shown(other));
            Err(b.diagnostic(Code::LayerParameter, message))
        }
    }
}

/// Integers stay integers, as in C.
fn prims_div(b: &Lower, a: Pair) -> Lowered<Var> {
    arithmetic(b, [&a.input, &a.other], |[x, y]| b.div(x, y))
}

/// `x` without its fraction.
pub(crate) fn truncated(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)?.is_float() {
        true => b.mul(b.sign(x)?, b.floor(b.abs(x)?)?),
        false => Ok(x),
    }
}

/// `x / y`, rounded down.
pub(crate) fn floor_quotient(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    match known(b, y) {
        // A fraction is not exact: 1.0 / 0.1 rounds to 10, but 0.1 is a little more than a tenth.
        Some(c) if c.fract() != 0.0 && dtype_of(b, x)?.is_float() => {
            b.round(b.div(b.sub(x, floor_remainder(b, x, y)?)?, y)?)
        }
        _ => arithmetic::floor_quotient(b, x, y),
    }
}

/// `base` to the power of `exponent`.
pub(crate) fn pow(b: &Lower, base: &Value, exponent: &Value) -> Lowered<Var> {
    let dtype = common(b, &[base, exponent])?;
    let x = || operand(b, base, dtype);
    if is_known(exponent, 1.0) {
        return x();
    }
    if is_known(exponent, 2.0) {
        return arithmetic(b, [base, exponent], |[x, _]| b.mul(x, x));
    }
    if dtype.is_float() {
        if is_known(exponent, 0.5) {
            return b.sqrt(x()?);
        }
        if is_known(exponent, -0.5) {
            return b.reciprocal(b.sqrt(x()?)?);
        }
        if is_known(exponent, -1.0) {
            return b.reciprocal(x()?);
        }
    }
    let computed = match dtype {
        d if d.is_float() => d,
        _ if b.opset() < 12 => DataType::Double,
        DataType::Uint32 | DataType::Uint64 => DataType::Int64,
        d => wide(d),
    };
    let [x, y] = all_of(b, [base, exponent], computed)?;
    let positive = known(b, y).is_some_and(|y| y >= 0.0);
    if positive || dtype.is_float() || b.opset() < 12 {
        return b.cast(b.pow(x, y)?, dtype);
    }
    b.cast(whole_pow(b, x, y)?, dtype)
}

/// Powers of integers. Negative ones are 0, but of 1 and -1, which have those of 0 and 1.
fn whole_pow(b: &Lower, x: Var, y: Var) -> Lowered<Var> {
    let negative = b.less(y, 0i64)?;
    let power = b.pow(x, b.where_(negative, b.mod_(y, 2i64).one()?, y)?)?;
    let none = b.and(negative, b.not(b.equal(b.abs(x)?, 1i64)?)?)?;
    b.where_(none, 0i64, power)
}

fn float_power(b: &Lower, input: Value, exponent: Value) -> Lowered<Var> {
    let [x, y] = all_of(b, [&input, &exponent], DataType::Double)?;
    match is_known(&exponent, 2.0) {
        true => b.mul(x, x),
        false => b.pow(x, y),
    }
}

/// `input + value * tensor1 * tensor2`
fn addcmul(b: &Lower, input: Value, tensor1: Value, tensor2: Value, value: Value) -> Lowered<Var> {
    arithmetic(b, [&input, &tensor1, &tensor2], |[x, y, z]| {
        b.add(x, b.mul(scaled(b, y, &value)?, z)?)
    })
}

/// `input + value * tensor1 / tensor2`
fn addcdiv(b: &Lower, input: Value, tensor1: Value, tensor2: Value, value: Value) -> Lowered<Var> {
    let [x, y, z] = float_operands(b, [&input, &tensor1, &tensor2])?;
    b.add(x, b.div(scaled(b, y, &value)?, z)?)
}

/// From `input` to `end`. As in torch, the nearer end is exact where the weight is known.
fn lerp(b: &Lower, a: Lerp) -> Lowered<Var> {
    let [x, end] = operands(b, [&a.input, &a.end])?;
    let weight = operand(b, &a.weight, dtype_of(b, x)?)?;
    let way = b.sub(end, x)?;
    match known(b, weight) {
        Some(w) if w >= 0.5 => {
            let rest = operand(b, &Value::Float(1.0 - w), float_of(dtype_of(b, x)?))?;
            b.sub(end, b.mul(way, rest)?)
        }
        _ => b.add(x, b.mul(way, weight)?),
    }
}

fn lcm(b: &Lower, a: Pair) -> Lowered<Var> {
    let dtype = common(b, &[&a.input, &a.other])?;
    let [x, y] = all_of(b, [&a.input, &a.other], wide(dtype))?;
    b.cast(arithmetic::lcm(b, b.abs(x)?, b.abs(y)?)?, dtype)
}
