//! Functions of one number each: roots, exponentials, logarithms, angles, roundings.

use super::dtype::{dtype_of, float_operands, known, operand, to_float};
use super::elementwise::truncated;
use super::{Lower, Pair, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::arithmetic::{self, is_negative};
use onnxd_plugin_sdk::formulas::elementary::{self, expm1, log1p};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::{FRAC_1_SQRT_2, LN_2, LN_10, PI};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::abs" | "aten::absolute" | "prims::abs" => |b, input: Var| unless_bool(b, input, |b, x| b.abs(x));
        "aten::neg" | "aten::negative" | "prims::neg" => negative(input);
        "aten::positive" => |_, input: Var| Ok(input);
        "aten::sign" | "aten::sgn" | "prims::sign" => |b, input: Var| unless_bool(b, input, |b, x| b.sign(x));
        "aten::ceil" | "prims::ceil" => |b, input: Var| rounded(b, input, |b, x| b.ceil(x));
        "aten::floor" | "prims::floor" => |b, input: Var| rounded(b, input, |b, x| b.floor(x));
        "aten::round" | "aten::special_round" | "prims::round" => round;
        "aten::trunc" | "aten::fix" | "prims::trunc" => |b, input: Var| truncated(b, input);
        "aten::frac" => |b, input: Var| fraction(b, input);
        "aten::exp" | "prims::exp" => |b, input: Var| b.exp(to_float(b, input)?);
        "aten::exp2" | "aten::special_exp2" | "prims::exp2" => |b, input: Var| {
            let x = to_float(b, input)?;
            b.pow(operand(b, &Value::Int(2), dtype_of(b, x)?)?, x)
        };
        "aten::expm1" | "aten::special_expm1" | "prims::expm1" => |b, input: Var| expm1(b, to_float(b, input)?);
        "aten::log" | "prims::log" => |b, input: Var| b.log(to_float(b, input)?);
        "aten::log2" | "prims::log2" => |b, input: Var| b.div(b.log(to_float(b, input)?)?, LN_2);
        "aten::log10" | "prims::log10" => |b, input: Var| b.div(b.log(to_float(b, input)?)?, LN_10);
        "aten::log1p" | "aten::special_log1p" | "prims::log1p" => |b, input: Var| log1p(b, to_float(b, input)?);
        "aten::sqrt" | "prims::sqrt" => |b, input: Var| b.sqrt(to_float(b, input)?);
        "aten::rsqrt" | "prims::rsqrt" => |b, input: Var| b.reciprocal(b.sqrt(to_float(b, input)?)?);
        "aten::reciprocal" | "prims::reciprocal" => |b, input: Var| b.reciprocal(to_float(b, input)?);
        "prims::cbrt" => |b, input: Var| {
            let x = to_float(b, input)?;
            let third = operand(b, &Value::Float(1.0 / 3.0), dtype_of(b, x)?)?;
            b.mul(b.sign(x)?, b.pow(b.abs(x)?, third)?)
        };
    };
    angles(errors(table))
}

fn angles(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::sin" | "prims::sin" => |b, input: Var| b.sin(to_float(b, input)?);
        "aten::cos" | "prims::cos" => |b, input: Var| b.cos(to_float(b, input)?);
        "aten::tan" | "prims::tan" => |b, input: Var| elementary::tan(b, to_float(b, input)?);
        "aten::asin" | "aten::arcsin" | "prims::asin" => |b, input: Var| elementary::asin(b, to_float(b, input)?);
        "aten::acos" | "aten::arccos" | "prims::acos" => |b, input: Var| elementary::acos(b, to_float(b, input)?);
        "aten::atan" | "aten::arctan" | "prims::atan" => |b, input: Var| elementary::atan(b, to_float(b, input)?);
        "aten::sinh" | "prims::sinh" => |b, input: Var| b.sinh(to_float(b, input)?);
        "aten::cosh" | "prims::cosh" => |b, input: Var| b.cosh(to_float(b, input)?);
        "aten::tanh" | "prims::tanh" => |b, input: Var| b.tanh(to_float(b, input)?);
        "aten::asinh" | "aten::arcsinh" | "prims::asinh" => |b, input: Var| elementary::asinh(b, to_float(b, input)?);
        "aten::acosh" | "aten::arccosh" | "prims::acosh" => |b, input: Var| elementary::acosh(b, to_float(b, input)?);
        "aten::atanh" | "aten::arctanh" | "prims::atanh" => |b, input: Var| elementary::atanh(b, to_float(b, input)?);
        "aten::atan2" | "aten::arctan2" | "prims::atan2" => |b, a: Pair| {
            let [y, x] = float_operands(b, [&a.input, &a.other])?;
            elementary::atan2(b, y, x)
        };
        "aten::hypot" | "prims::hypot" => |b, a: Pair| {
            let [x, y] = float_operands(b, [&a.input, &a.other])?;
            arithmetic::hypot(b, x, y)
        };
        "aten::deg2rad" => |b, input: Var| b.mul(to_float(b, input)?, PI / 180.0);
        "aten::rad2deg" => |b, input: Var| b.mul(to_float(b, input)?, 180.0 / PI);
        "aten::copysign" => copysign;
        "aten::sinc" | "aten::special_sinc" => |b, input: Var| arithmetic::sinc(b, to_float(b, input)?);
    }
}

fn errors(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::nan_to_num" => |b, input: Var, nan: Option<f64>, posinf: Option<f64>, neginf: Option<f64>| {
            arithmetic::nan_to_num(b, input, nan.unwrap_or(0.0), [posinf, neginf])
        };
        "aten::erf" | "aten::special_erf" | "prims::erf" => |b, input: Var| b.erf(to_float(b, input)?);
        "aten::erfc" | "aten::special_erfc" | "prims::erfc" => |b, input: Var| {
            b.sub(1i64, b.erf(to_float(b, input)?)?)
        };
        "aten::special_ndtr" => |b, input: Var| {
            let erf = b.erf(b.mul(to_float(b, input)?, FRAC_1_SQRT_2)?)?;
            b.mul(b.add(erf, 1i64)?, 0.5)
        };
        "aten::logit" | "aten::special_logit" => logit;
        "aten::logaddexp" => |b, a: Pair| logaddexp(b, &a, 1.0);
        "aten::logaddexp2" => |b, a: Pair| logaddexp(b, &a, LN_2);
        "aten::xlogy" | "aten::special_xlogy" => |b, a: Pair| xlogy(b, &a, false);
        "aten::special_xlog1py" => |b, a: Pair| xlogy(b, &a, true);
        "aten::special_entr" => |b, input: Var| {
            let x = to_float(b, input)?;
            let entropy = b.where_(b.less(x, 0i64)?, f64::NEG_INFINITY, b.neg(b.mul(x, b.log(x)?)?)?)?;
            b.where_(b.equal(x, 0i64)?, 0.0, entropy)
        };
    }
}

arguments! {
    /// `round`
    struct Round { input: Var, decimals: Option<i64> }
    /// `logit`
    struct Logit { input: Var, eps: Option<f64> }
}

/// What is the same for truth values.
fn unless_bool(b: &Lower, x: Var, f: fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    if dtype_of(b, x)? == DataType::Bool { Ok(x) } else { f(b, x) }
}

/// Integers are round.
fn rounded(b: &Lower, x: Var, f: fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    if dtype_of(b, x)?.is_float() { f(b, x) } else { Ok(x) }
}

fn negative(b: &Lower, input: Var) -> Lowered<Var> {
    use DataType::{Uint8, Uint16, Uint32, Uint64};
    match dtype_of(b, input)? {
        Uint8 | Uint16 | Uint32 | Uint64 => b.sub(0i64, input),
        _ => b.neg(input),
    }
}

fn round(b: &Lower, a: Round) -> Lowered<Var> {
    let Some(decimals) = a.decimals.filter(|d| *d != 0) else {
        return rounded(b, a.input, |b, x| b.round(x));
    };
    let x = a.input;
    if !dtype_of(b, x)?.is_float() {
        return Ok(x);
    }
    let digits = 10f64.powi(i32::try_from(decimals.unsigned_abs()).unwrap_or(i32::MAX));
    match decimals > 0 {
        true => b.div(b.round(b.mul(x, digits)?)?, digits),
        false => b.mul(b.round(b.div(x, digits)?)?, digits),
    }
}

/// What is behind the point, with the sign of the number.
fn fraction(b: &Lower, x: Var) -> Lowered<Var> {
    match b.opset() >= 10 {
        true => b.mod_(x, operand(b, &Value::Int(1), dtype_of(b, x)?)?).fmod(1).one(),
        false => b.sub(x, truncated(b, x)?),
    }
}

fn copysign(b: &Lower, a: Pair) -> Lowered<Var> {
    let [x, sign] = float_operands(b, [&a.input, &a.other])?;
    let x = b.abs(x)?;
    match known(b, sign) {
        Some(sign) if sign.is_sign_negative() => b.neg(x),
        Some(_) => Ok(x),
        None => b.where_(is_negative(b, sign)?, b.neg(x)?, x),
    }
}

fn logit(b: &Lower, a: Logit) -> Lowered<Var> {
    let mut x = to_float(b, a.input)?;
    if let Some(eps) = a.eps.filter(|eps| *eps >= 0.0) {
        x = b.clip(x).min(eps).max(1.0 - eps).one()?;
    }
    b.log(b.div(x, b.sub(1i64, x)?)?)
}

fn logaddexp(b: &Lower, a: &Pair, unit: f64) -> Lowered<Var> {
    let [x, y] = float_operands(b, [&a.input, &a.other])?;
    arithmetic::log_add_exp(b, x, y, unit)
}

/// `x * log(y)`, and 0 where `x` is.
fn xlogy(b: &Lower, a: &Pair, plus_one: bool) -> Lowered<Var> {
    let [x, y] = float_operands(b, [&a.input, &a.other])?;
    let logarithm = if plus_one { log1p(b, y)? } else { b.log(y)? };
    b.where_(b.equal(x, 0i64)?, 0.0, b.mul(x, logarithm)?)
}
