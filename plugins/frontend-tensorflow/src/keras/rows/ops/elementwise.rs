//! Arithmetic, comparisons and functions element by element.

use super::promote::{
    as_tensors, floats, in_floats, named, numbers, result, tensor, together, wide_floats,
};
use crate::ops::compare::where_zero;
use crate::ops::create::number;
use crate::ops::select::choice;
use crate::ops::special::{computed, erfc};
use crate::ops::{Lower, RowContext, bits, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Call, GraphBuilder, Var, op};
use onnxd_plugin_sdk::formulas::arithmetic::{self, floor_quotient, floor_remainder};
use onnxd_plugin_sdk::formulas::elementary::{self, atan2, expm1, log1p};
use onnxd_plugin_sdk::formulas::special::{bessel, erfinv};
use onnxd_plugin_sdk::ir::DataType::{self, Bool, Double, Float, Int32};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::{LN_2, LN_10, PI};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = binary(table);
    let table = comparisons(table);
    let table = functions(table);
    let table = numbers_alone(table);
    integers(table)
}

arguments! {
    /// Operators of one tensor.
    pub(crate) struct One { x: Value }
    /// Operators of two.
    pub(crate) struct Two { x1: Value, x2: Value }
    /// `BitwiseAnd(x, y)`
    struct Bits { x: Value, y: Value }
    /// `Round(x; decimals=0)`
    struct Round { x: Var, decimals: i64 = 0 }
    /// `NanToNum(x; nan=0.0, posinf=None, neginf=None)`
    struct NanToNum { x: Var, nan: f64 = 0.0, posinf: Option<f64>, neginf: Option<f64> }
    /// `Isclose(x1, x2, rtol=1e-5, atol=1e-8; equal_nan=False)`
    struct Close { x1: Value, x2: Value, rtol: f64 = 1e-5, atol: f64 = 1e-8, equal_nan: bool = false }
}

/// `x` as a tensor of floats.
fn float(b: &GraphBuilder, x: &Value) -> Lowered<Var> {
    floats(b, any(b, x)?)
}

/// `x` as a tensor.
pub(crate) fn any(b: &GraphBuilder, x: &Value) -> Lowered<Var> {
    tensor(b, x, result(b, &[x])?.fixed())
}

/// Truth values of a tensor.
pub(crate) fn truth(b: &GraphBuilder, x: &Value) -> Lowered<Var> {
    b.cast(any(b, x)?, Bool)
}

fn binary(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Add" => |b, a: Two| two(b, a, GraphBuilder::add);
        "ops.Subtract" => |b, a: Two| two(b, a, GraphBuilder::sub);
        "ops.Multiply" => |b, a: Two| two(b, a, GraphBuilder::mul);
        "ops.Divide" | "ops.TrueDivide" => |b, a: Two| floating(b, a, GraphBuilder::div);
        "ops.DivideNoNan" => |b, a: Two| floating(b, a, |b, x, y| where_zero(b, y, y, |b| b.div(x, y)));
        "ops.FloorDivide" => |b, a: Two| two(b, a, floor_quotient);
        "ops.Power" => |b, a: Two| two(b, a, GraphBuilder::pow);
        "ops.Maximum" => |b, a: Two| two(b, a, |b, x, y| extreme(b, x, y, true));
        "ops.Minimum" => |b, a: Two| two(b, a, |b, x, y| extreme(b, x, y, false));
        "ops.Fmax" => |b, a: Two| two(b, a, |b, x, y| numeric(b, x, y, true));
        "ops.Fmin" => |b, a: Two| two(b, a, |b, x, y| numeric(b, x, y, false));
        "ops.Mod" => |b, a: Two| compared(b, a, |b, x, y| floor_remainder(b, numbers(b, x)?, numbers(b, y)?));
        "ops.Fmod" => |b, a: Two| compared(b, a, |b, x, y| b.mod_(numbers(b, x)?, numbers(b, y)?).fmod(1).one());
        "ops.Arctan2" => |b, a: Two| floating(b, a, atan2);
        "ops.Hypot" => |b, a: Two| compared(b, a, |b, x, y| {
            arithmetic::hypot(b, wide_floats(b, x)?, wide_floats(b, y)?)
        });
        "ops.Heaviside" => |b, a: Two| {
            let [x, at_zero] = as_tensors(b, [&a.x1, &a.x2])?;
            let [x, at_zero] = [wide_floats(b, x)?, wide_floats(b, at_zero)?];
            let step = b.cast(b.greater(x, 0)?, dtype_of(b, x)?)?;
            b.where_(b.equal(x, 0)?, at_zero, step)
        };
        "ops.Logaddexp" => |b, a: Two| floating(b, a, |b, x, y| arithmetic::log_add_exp(b, x, y, 1.0));
        "ops.Logaddexp2" => |b, a: Two| floating(b, a, |b, x, y| arithmetic::log_add_exp(b, x, y, LN_2));
        "ops.Ldexp" => |b, a: Two| {
            let [x, power] = in_floats(b, [&a.x1, &a.x2])?;
            let two = b.constant(number(2.0, dtype_of(b, x)?));
            let y = b.mul(x, b.pow(two, power)?)?;
            b.where_(b.or(infinite(b, x)?.one()?, b.equal(x, 0)?)?, x, y)
        };
        "ops.Where" => |b, condition: Value, x1: Value, x2: Value| {
            let [x, y] = together(b, [&x1, &x2])?;
            choice(b, truth(b, &condition)?, x, y)
        };
    }
}

fn comparisons(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Equal" => |b, a: Two| compared(b, a, GraphBuilder::equal);
        "ops.NotEqual" => |b, a: Two| compared(b, a, |b, x, y| b.not(b.equal(x, y)?));
        "ops.Less" => |b, a: Two| compared(b, a, GraphBuilder::less);
        "ops.LessEqual" => |b, a: Two| compared(b, a, GraphBuilder::less_or_equal);
        "ops.Greater" => |b, a: Two| compared(b, a, GraphBuilder::greater);
        "ops.GreaterEqual" => |b, a: Two| compared(b, a, GraphBuilder::greater_or_equal);
        "ops.LogicalAnd" => |b, a: Two| b.and(truth(b, &a.x1)?, truth(b, &a.x2)?);
        "ops.LogicalOr" => |b, a: Two| b.or(truth(b, &a.x1)?, truth(b, &a.x2)?);
        "ops.LogicalXor" => |b, a: Two| b.xor(truth(b, &a.x1)?, truth(b, &a.x2)?);
        "ops.LogicalNot" => |b, a: One| b.not(truth(b, &a.x)?);
        "ops.Isnan" => |b, a: One| if_float(b, &a.x, false, GraphBuilder::is_nan);
        "ops.Isinf" => |b, a: One| if_float(b, &a.x, false, |b, x| infinite(b, x)?.one());
        "ops.Isfinite" => |b, a: One| if_float(b, &a.x, true, |b, x| {
            b.not(b.or(b.is_nan(x)?, infinite(b, x)?.one()?)?)
        });
        "ops.Isposinf" => |b, a: One| if_float(b, &a.x, false, |b, x| infinite(b, x)?.detect_negative(0).one());
        "ops.Isneginf" => |b, a: One| if_float(b, &a.x, false, |b, x| infinite(b, x)?.detect_positive(0).one());
        "ops.Isreal" => |b, a: One| if_float(b, &a.x, true, |b, x| b.or(b.equal(x, x)?, b.is_nan(x)?));
        "ops.Isclose" => |b, a: Close| close(b, [&a.x1, &a.x2], [a.rtol, a.atol], a.equal_nan);
        "ops.AllClose" => |b, a: Close| {
            let near = close(b, [&a.x1, &a.x2], [a.rtol, a.atol], a.equal_nan)?;
            let [x, y] = as_tensors(b, [&a.x1, &a.x2])?;
            let near = b.or(near, b.equal(x, y)?)?;
            b.cast(b.reduce_min(b.cast(near, Int32)?).keepdims(0).one()?, Bool)
        };
    }
}

fn functions(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Exp" => |b, a: One| b.exp(float(b, &a.x)?);
        "ops.Exp2" => |b, a: One| b.exp(b.mul(float(b, &a.x)?, LN_2)?);
        "ops.Expm1" => |b, a: One| expm1(b, float(b, &a.x)?);
        "ops.Log" => |b, a: One| b.log(float(b, &a.x)?);
        "ops.Log10" => |b, a: One| b.div(b.log(float(b, &a.x)?)?, LN_10);
        "ops.Log2" => |b, a: One| b.div(b.log(float(b, &a.x)?)?, LN_2);
        "ops.Log1p" => |b, a: One| log1p(b, float(b, &a.x)?);
        "ops.Sqrt" => |b, a: One| b.sqrt(float(b, &a.x)?);
        "ops.Rsqrt" => |b, a: One| b.reciprocal(b.sqrt(float(b, &a.x)?)?);
        "ops.Cbrt" => |b, a: One| {
            let x = wide_floats(b, any(b, &a.x)?)?;
            let third = b.constant(number(1.0 / 3.0, dtype_of(b, x)?));
            b.mul(b.sign(x)?, b.pow(b.abs(x)?, third)?)
        };
        "ops.Sin" => |b, a: One| b.sin(float(b, &a.x)?);
        "ops.Cos" => |b, a: One| b.cos(float(b, &a.x)?);
        "ops.Tan" => |b, a: One| elementary::tan(b, float(b, &a.x)?);
        "ops.Arcsin" => |b, a: One| elementary::asin(b, float(b, &a.x)?);
        "ops.Arccos" => |b, a: One| elementary::acos(b, float(b, &a.x)?);
        "ops.Arctan" => |b, a: One| elementary::atan(b, float(b, &a.x)?);
        "ops.Sinh" => |b, a: One| b.sinh(float(b, &a.x)?);
        "ops.Cosh" => |b, a: One| b.cosh(float(b, &a.x)?);
        "ops.Tanh" => |b, a: One| b.tanh(float(b, &a.x)?);
        "ops.Arcsinh" => |b, a: One| elementary::asinh(b, float(b, &a.x)?);
        "ops.Arccosh" => |b, a: One| elementary::acosh(b, float(b, &a.x)?);
        "ops.Arctanh" => |b, a: One| elementary::atanh(b, float(b, &a.x)?);
        "ops.Sinc" => |b, a: One| arithmetic::sinc(b, float(b, &a.x)?);
        "ops.Erf" => |b, a: One| b.erf(any(b, &a.x)?);
        "ops.Erfc" => |b, a: One| computed(b, any(b, &a.x)?, Float, erfc);
        "ops.Erfinv" => |b, a: One| computed(b, any(b, &a.x)?, Float, erfinv);
        "ops.I0" => |b, a: One| computed(b, wide_floats(b, any(b, &a.x)?)?, Double, |b, x| bessel(b, x, false));
        "ops.Deg2rad" => |b, a: One| b.mul(wide_floats(b, any(b, &a.x)?)?, PI / 180.0);
        "ops.Rad2deg" => |b, a: One| b.mul(wide_floats(b, any(b, &a.x)?)?, 180.0 / PI);
    }
}

fn numbers_alone(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Absolute" | "ops.Abs" => |b, a: One| absolute(b, any(b, &a.x)?);
        "ops.Fabs" => |b, a: One| b.abs(float(b, &a.x)?);
        "ops.Negative" => |b, a: One| b.neg(any(b, &a.x)?);
        "ops.Sign" => |b, a: One| b.sign(any(b, &a.x)?);
        "ops.Signbit" => sign_bit;
        "ops.Square" => |b, a: One| {
            let x = numbers(b, any(b, &a.x)?)?;
            b.mul(x, x)
        };
        "ops.Reciprocal" => |b, a: One| {
            let x = any(b, &a.x)?;
            if dtype_of(b, x)?.is_float() { b.reciprocal(x) } else { b.div(1, x) }
        };
        "ops.Ceil" => |b, a: One| b.ceil(float(b, &a.x)?);
        "ops.Floor" => |b, a: One| b.floor(float(b, &a.x)?);
        "ops.Trunc" => |b, a: One| if_floats(b, &a.x, |b, x| {
            b.where_(b.less(x, 0)?, b.ceil(x)?, b.floor(x)?)
        });
        "ops.Round" => round;
        "ops.Clip" => clip(x, x_min, x_max);
        "ops.NanToNum" => |b, a: NanToNum| arithmetic::nan_to_num(b, a.x, a.nan, [a.posinf, a.neginf]);
        "ops.Copy" | "ops.StopGradient" | "ops.Real" | "ops.Conj" | "ops.Conjugate"
            => |_, x: Var| Ok(x);
        "ops.SaturateCast" => |b, x: Value, dtype: String| {
            super::promote::bounded(b, any(b, &x)?, named(b, &dtype)?)
        };
        "ops.Array" | "ops.ConvertToTensor" => array(x, dtype, sparse, ragged);
        "ops.Cast" => |b, x: Value, dtype: String| cast(b, any(b, &x)?, &dtype);
    }
}

/// Tensors are dense, whatever else they may be.
fn array(
    b: &Lower,
    x: Value,
    dtype: Option<String>,
    _sparse: Option<bool>,
    _ragged: Option<bool>,
) -> Lowered<Var> {
    let x = any(b, &x)?;
    dtype.map_or(Ok(x), |word| cast(b, x, &word))
}

fn integers(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.BitwiseAnd" => |b, a: Bits| bitwise(b, a, GraphBuilder::bitwise_and);
        "ops.BitwiseOr" => |b, a: Bits| bitwise(b, a, GraphBuilder::bitwise_or);
        "ops.BitwiseXor" => |b, a: Bits| bitwise(b, a, GraphBuilder::bitwise_xor);
        "ops.BitwiseInvert" | "ops.BitwiseNot" => |b, a: One| bits::inverted(b, any(b, &a.x)?);
        "ops.BitwiseLeftShift" | "ops.LeftShift" => |b, a: Bits| shifted(b, a, true);
        "ops.BitwiseRightShift" | "ops.RightShift" => |b, a: Bits| shifted(b, a, false);
        "ops.Gcd" => |b, a: Two| compared(b, a, |b, x, y| of_sizes(b, x, y, arithmetic::gcd));
        "ops.Lcm" => |b, a: Two| compared(b, a, |b, x, y| of_sizes(b, x, y, arithmetic::lcm));
    }
}

type Combine = fn(&GraphBuilder, Var, Var) -> Lowered<Var>;

fn two(b: &Lower, a: Two, f: Combine) -> Lowered<Var> {
    let [x, y] = together(b, [&a.x1, &a.x2])?;
    f(b, x, y)
}

pub(super) fn compared(b: &Lower, a: Two, f: Combine) -> Lowered<Var> {
    let [x, y] = as_tensors(b, [&a.x1, &a.x2])?;
    f(b, x, y)
}

fn floating(b: &Lower, a: Two, f: Combine) -> Lowered<Var> {
    let [x, y] = in_floats(b, [&a.x1, &a.x2])?;
    f(b, x, y)
}

/// What `f` makes of two numbers without their signs.
fn of_sizes(b: &GraphBuilder, x: Var, y: Var, f: Combine) -> Lowered<Var> {
    unless_short(b, absolute(b, x)?, absolute(b, y)?, |x, y| f(b, x, y))
}

fn shifted(b: &Lower, a: Bits, left: bool) -> Lowered<Var> {
    let [x, y] = together(b, [&a.x, &a.y])?;
    bits::shifted(b, crate::ops::operands::Two { x, y }, left)
}

fn bitwise(b: &Lower, a: Bits, f: Combine) -> Lowered<Var> {
    let [x, y] = as_tensors(b, [&a.x, &a.y])?;
    bits::combined(b, crate::ops::operands::Two { x, y }, f)
}

/// The larger or the smaller of two numbers.
pub(crate) fn extreme(b: &GraphBuilder, x: Var, y: Var, largest: bool) -> Lowered<Var> {
    unless_short(b, x, y, |x, y| match (dtype_of(b, x)?, largest) {
        (Bool, true) => b.or(x, y),
        (Bool, false) => b.and(x, y),
        (_, true) => b.max([x, y]),
        (_, false) => b.min([x, y]),
    })
}

/// What `f` makes of two tensors, with integers of 32 bits instead of those of 16, of which runtimes know little.
fn unless_short(
    b: &GraphBuilder,
    x: Var,
    y: Var,
    f: impl Fn(Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    match dtype_of(b, x)? {
        short @ (DataType::Int16 | DataType::Uint16) => {
            b.cast(f(b.cast(x, Int32)?, b.cast(y, Int32)?)?, short)
        }
        _ => f(x, y),
    }
}

/// As [`extreme`]; what is no number gives way.
fn numeric(b: &GraphBuilder, x: Var, y: Var, largest: bool) -> Lowered<Var> {
    let both = extreme(b, x, y, largest)?;
    if !dtype_of(b, x)?.is_float() {
        return Ok(both);
    }
    b.where_(b.is_nan(x)?, y, b.where_(b.is_nan(y)?, x, both)?)
}

/// Whether elements are infinite; before opset 20 half floats cannot be asked.
fn infinite(b: &GraphBuilder, x: Var) -> Lowered<Call<'_, op::IsInf>> {
    let half = matches!(dtype_of(b, x)?, DataType::Float16 | DataType::Bfloat16);
    Ok(b.is_inf(if half && b.opset() < 20 { b.cast(x, Float)? } else { x }))
}

/// A question about floats, whose answer is known for integers.
fn if_float(
    b: &Lower,
    x: &Value,
    other: bool,
    f: fn(&GraphBuilder, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let x = any(b, x)?;
    if dtype_of(b, x)?.is_float() {
        return f(b, x);
    }
    let shape = b.shape(x).one()?;
    crate::ops::create::filled(b, shape, i64::from(other), Bool)
}

/// What changes floats alone.
fn if_floats(b: &Lower, x: &Value, f: fn(&GraphBuilder, Var) -> Lowered<Var>) -> Lowered<Var> {
    let x = any(b, x)?;
    if dtype_of(b, x)?.is_float() { f(b, x) } else { Ok(x) }
}

fn close(b: &Lower, all: [&Value; 2], [rtol, atol]: [f64; 2], equal_nan: bool) -> Lowered<Var> {
    let [x, y] = as_tensors(b, all)?;
    if !dtype_of(b, x)?.is_float() {
        return b.equal(x, y);
    }
    let most = b.add(b.mul(b.abs(y)?, rtol)?, atol)?;
    let near = b.less_or_equal(b.abs(b.sub(x, y)?)?, most)?;
    match equal_nan {
        true => b.or(near, b.and(b.is_nan(x)?, b.is_nan(y)?)?),
        false => Ok(near),
    }
}

fn is_unsigned(dtype: DataType) -> bool {
    use DataType::{Uint8, Uint16, Uint32, Uint64};
    matches!(dtype, Bool | Uint8 | Uint16 | Uint32 | Uint64)
}

fn absolute(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    if is_unsigned(dtype_of(b, x)?) { Ok(x) } else { b.abs(x) }
}

fn sign_bit(b: &Lower, a: One) -> Lowered<Var> {
    let x = any(b, &a.x)?;
    match dtype_of(b, x)? {
        Bool => crate::ops::create::filled(b, b.shape(x).one()?, 0, Bool),
        _ => arithmetic::is_negative(b, x),
    }
}

fn round(b: &Lower, a: Round) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    if a.decimals == 0 || (!dtype.is_float() && a.decimals > 0) {
        return if dtype.is_float() { b.round(a.x) } else { Ok(a.x) };
    }
    let factor = 10f64.powi(a.decimals.clamp(-300, 300) as i32);
    let x = floats(b, a.x)?;
    b.cast(b.div(b.round(b.mul(x, factor)?)?, factor)?, dtype)
}

/// Bounds are of the type of `x`.
fn clip(b: &Lower, x: Var, x_min: Value, x_max: Value) -> Lowered<Var> {
    let x = numbers(b, x)?;
    let dtype = dtype_of(b, x)?;
    let (low, high) = (tensor(b, &x_min, dtype)?, tensor(b, &x_max, dtype)?);
    let scalar = |v: Var| b.rank_of(v) == Some(0);
    if scalar(low) && scalar(high) && dtype.is_float() {
        return b.clip(x).min(low).max(high).one();
    }
    b.max([b.min([x, high])?, low])
}

/// Keras casts as TensorFlow does: floats that leave a small integer type wrap.
fn cast(b: &Lower, x: Var, to: &str) -> Lowered<Var> {
    let to = named(b, to)?;
    let narrow = to.is_integer() && to.bits() < 32;
    match dtype_of(b, x)?.is_float() && narrow {
        true => b.cast(b.cast(x, Int32)?, to),
        false => b.cast(x, to),
    }
}
