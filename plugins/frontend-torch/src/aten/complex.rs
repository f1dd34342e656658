//! Complex numbers. ONNX computes with none, so a complex tensor is its real and imaginary parts, or both along a last
//! axis of two.

use super::dtype::{operand, to_float};
use super::linear::{matmul, number};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::complex::{self, is};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::complex" => |b: &Lower, real: Var, imag: Var| b.source.complex.of_broadcast(b, [real, imag]);
        "aten::polar" => |b: &Lower, abs: Var, angle: Var| {
            b.source.complex.of_broadcast(b, complex::polar(b, abs, angle)?)
        };
        "aten::view_as_complex" => |b: &Lower, input: Var| Ok(b.source.complex.of_pair(b, input));
        "complex::view_as_real" | "complex::view_as_real_copy" => |b: &Lower, input: Var| {
            b.source.complex.pair(b, input)
        };
        "complex::real" => |b, input: Var| Ok(parts(b, input)?[0]);
        "complex::imag" => |b, input: Var| Ok(parts(b, input)?[1]);
        "complex::abs" => |b: &Lower, input: Var| b.source.complex.length(b, input);
        "complex::angle" => |b, input: Var| complex::angle(b, parts(b, input)?);
        "complex::neg" => |b, input: Var| {
            let [re, im] = parts(b, input)?;
            of_parts(b, [b.neg(re)?, b.neg(im)?])
        };
        "complex::conj" | "complex::_conj" | "complex::conj_physical" => |b, input: Var| conjugate(b, input);
        "complex::add" => |b, a: Sum| sum(b, &a, false);
        "complex::sub" => |b, a: Sum| sum(b, &a, true);
        "complex::mul" => |b, input: Value, other: Value| product(b, [&input, &other], |b, x, y| b.mul(x, y));
        "complex::square" => |b, input: Var| product(b, [&input.into(), &input.into()], |b, x, y| b.mul(x, y));
        "complex::matmul" => |b, input: Value, other: Value| product(b, [&input, &other], matmul);
        "complex::mm" | "complex::bmm" => |b, input: Value, mat2: Value| product(b, [&input, &mat2], matmul);
        "complex::einsum" => einsum(equation, tensors, path);
        "complex::div" => quotient(input, other);
        "complex::exp" => |b, input: Var| of_parts(b, complex::exp(b, parts(b, input)?)?);
    }
}

arguments! {
    /// `add`
    struct Sum { input: Value, other: Value, alpha: Option<Value> }
}

/// A complex tensor of its parts, which have one shape.
pub(crate) fn of_parts(b: &Lower, parts: [Var; 2]) -> Lowered<Var> {
    Ok(b.source.complex.of_parts(b, parts))
}

/// The real and the imaginary part.
pub(crate) fn parts(b: &Lower, v: Var) -> Lowered<[Var; 2]> {
    b.source.complex.parts(b, v)
}

/// The parts of any operand; a real one has no imaginary part.
fn parts_of(b: &Lower, value: &Value) -> Lowered<(Value, Option<Value>)> {
    Ok(match value {
        Value::Var(v) if is(b, *v) => {
            let [re, im] = parts(b, *v)?;
            (re.into(), Some(im.into()))
        }
        Value::List(both) if both.len() == 2 => (both[0].clone(), Some(both[1].clone())),
        other => (other.clone(), None),
    })
}

/// Real operands in one float type.
fn reals<const N: usize>(b: &Lower, values: [&Value; N]) -> Lowered<[Var; N]> {
    super::dtype::float_operands(b, values)
}

fn sum(b: &Lower, a: &Sum, negative: bool) -> Lowered<Var> {
    let alpha = a.alpha.as_ref().and_then(number).unwrap_or(1.0);
    let alpha = if negative { -alpha } else { alpha };
    let ((re, im), (re2, im2)) = (parts_of(b, &a.input)?, parts_of(b, &a.other)?);
    let combined = |x: &Value, y: &Value| {
        let [x, y] = reals(b, [x, y])?;
        match alpha {
            1.0 => b.add(x, y),
            -1.0 => b.sub(x, y),
            factor => b.add(x, b.mul(y, factor)?),
        }
    };
    let zero = Value::Int(0);
    let imaginary = combined(im.as_ref().unwrap_or(&zero), im2.as_ref().unwrap_or(&zero))?;
    of_parts(b, [combined(&re, &re2)?, imaginary])
}

/// A product of any kind that is linear in both operands.
fn product(
    b: &Lower,
    values: [&Value; 2],
    times: impl Fn(&Lower, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let ((re, im), (re2, im2)) = (parts_of(b, values[0])?, parts_of(b, values[1])?);
    let of_reals = |x: &Value, y: &Value| {
        let [x, y] = reals(b, [x, y])?;
        times(b, x, y)
    };
    let both = match (&im, &im2) {
        (Some(im), Some(im2)) => {
            let [re, im, re2, im2] = reals(b, [&re, im, &re2, im2])?;
            complex::product(b, [re, im], [re2, im2], |x, y| times(b, x, y))?
        }
        (Some(im), None) => [of_reals(&re, &re2)?, of_reals(im, &re2)?],
        (None, Some(im2)) => [of_reals(&re, &re2)?, of_reals(&re, im2)?],
        (None, None) => return of_reals(&re, &re2),
    };
    of_parts(b, both)
}

fn einsum(b: &Lower, equation: String, tensors: Vec<Var>, _path: Option<Value>) -> Lowered<Var> {
    let [x, y] = tensors[..] else {
        let message = "A product of more than two complex tensors cannot be said in ONNX.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let equation: String = equation.chars().filter(|c| !c.is_whitespace()).collect();
    product(b, [&x.into(), &y.into()], |b, x, y| b.einsum([x, y]).equation(equation.as_str()).one())
}

/// The product with the conjugate, over the square of the length.
fn quotient(b: &Lower, input: Value, other: Value) -> Lowered<Var> {
    let (re2, im2) = parts_of(b, &other)?;
    let Some(im2) = im2 else {
        let (re, im) = parts_of(b, &input)?;
        let [re, divisor] = reals(b, [&re, &re2])?;
        let im =
            to_float(b, operand(b, &im.unwrap_or(Value::Int(0)), super::dtype::dtype_of(b, re)?)?)?;
        return of_parts(b, [b.div(re, divisor)?, b.div(im, divisor)?]);
    };
    let divisor = reals(b, [&re2, &im2])?;
    let mirrored = of_parts(b, complex::conjugate(b, divisor)?)?;
    let product = product(b, [&input, &mirrored.into()], |b, x, y| b.mul(x, y))?;
    of_parts(b, complex::over_square(b, parts(b, product)?, divisor)?)
}

pub(super) fn conjugate(b: &Lower, v: Var) -> Lowered<Var> {
    of_parts(b, complex::conjugate(b, parts(b, v)?)?)
}

/// A tensor as an output: complex numbers are given as their parts along a last axis, as `view_as_real` has them.
pub(crate) fn real(b: &Lower, v: Var) -> Lowered<Var> {
    if is(b, v) { b.source.complex.pair(b, v) } else { Ok(v) }
}

/// Operators that do the same to both parts.
pub(crate) fn by_parts(name: &str) -> bool {
    const LINEAR: [&str; 19] = [
        "sum", "mean", "cumsum", "where", "index", "gather", "repeat_interleave", "tril", "triu",
        "copy", "zeros_like", "empty_like", "new_zeros", "slice_scatter", "select_scatter",
        "diagonal_scatter", "as_strided_scatter", "index_put", "scatter",
    ];
    LINEAR.contains(&name)
        || super::quantizer::MOVED.contains(&name) && !matches!(name, "relu" | "max" | "min")
}
