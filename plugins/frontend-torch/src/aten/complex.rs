//! Complex numbers. ONNX computes with none, so a complex tensor is its real and imaginary parts, or both along a last
//! axis of two. A value that nothing computes stands for it in the program, with its type and sizes.

use super::dtype::{operand, to_float};
use super::linear::{matmul, number};
use super::{Lower, Source};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{self, Complex64, Complex128, Double, Float};
use onnxd_plugin_sdk::ir::ValueType;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    rows! { table;
        "aten::complex" => |b, a: Parts| of_broadcast(b, [a.real, a.imag]);
        "aten::polar" => |b, a: Polar|
            of_broadcast(b, [b.mul(a.abs, b.cos(a.angle)?)?, b.mul(a.abs, b.sin(a.angle)?)?]);
        "aten::view_as_complex" => |b, a: One| of_pair(b, a.input);
        "complex::view_as_real" | "complex::view_as_real_copy" => |b, a: One| pair(b, a.input);
        "complex::real" => |b, a: One| Ok(parts(b, a.input)?[0]);
        "complex::imag" => |b, a: One| Ok(parts(b, a.input)?[1]);
        "complex::abs" => |b, a: One| b.reduce_l2(pair(b, a.input)?).axes([-1]).keepdims(0).one();
        "complex::angle" => angle;
        "complex::neg" => |b, a: One| each(b, a.input, |b, x| b.neg(x));
        "complex::conj" | "complex::_conj" | "complex::conj_physical" => |b, a: One| {
            let [re, im] = parts(b, a.input)?;
            of_parts(b, [re, b.neg(im)?])
        };
        "complex::add" => |b, a: Sum| sum(b, &a, false);
        "complex::sub" => |b, a: Sum| sum(b, &a, true);
        "complex::mul" => |b, a: Two| product(b, [&a.input, &a.other], |b, x, y| b.mul(x, y));
        "complex::square" => |b, a: One| product(b, [&a.input.into(), &a.input.into()], |b, x, y| b.mul(x, y));
        "complex::matmul" => |b, a: Two| product(b, [&a.input, &a.other], matmul);
        "complex::mm" | "complex::bmm" => |b, a: Mm| product(b, [&a.input, &a.mat2], matmul);
        "complex::einsum" => einsum;
        "complex::div" => quotient;
        "complex::exp" => |b, a: One| {
            let [re, im] = parts(b, a.input)?;
            let length = b.exp(re)?;
            of_parts(b, [b.mul(length, b.cos(im)?)?, b.mul(length, b.sin(im)?)?])
        };
    }
}

arguments! {
    /// `view_as_real(Tensor self)`
    struct One { input: Var }
    /// `complex(Tensor real, Tensor imag)`
    struct Parts { real: Var, imag: Var }
    /// `polar(Tensor abs, Tensor angle)`
    struct Polar { abs: Var, angle: Var }
    /// `mul(Tensor self, Tensor other)`
    struct Two { input: Value, other: Value }
    /// `mm(Tensor self, Tensor mat2)`
    struct Mm { input: Value, mat2: Value }
    /// `add(Tensor self, Tensor other, *, Scalar alpha=1)`
    struct Sum { input: Value, other: Value, alpha: Option<Value> }
    /// `einsum(str equation, Tensor[] tensors, *, int[]? path=None)`
    struct Einsum { equation: String, tensors: Vec<Var>, path: Option<Value> }
}

/// What a complex value is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Complex {
    Parts([Var; 2]),
    /// Real and imaginary parts along the last axis.
    Pair(Var),
}

/// Whether `v` is complex.
pub(crate) fn is(b: &Lower, v: Var) -> bool {
    b.dtype_of(v).is_some_and(super::dtype::is_complex)
}

/// A value that stands for a complex tensor.
fn stands_for(b: &Lower, like: Var, axes: usize, made_of: Complex) -> Lowered<Var> {
    let dtype = if b.dtype_of(like) == Some(Double) { Complex128 } else { Complex64 };
    let shape = b.shape_of(like).map(|shape| shape[..shape.len().saturating_sub(axes)].to_vec());
    let v = b.placeholder(Some(ValueType::Tensor { dtype: Some(dtype), shape }));
    b.source.complex.borrow_mut().insert(v, made_of);
    Ok(v)
}

/// A complex tensor of parts that broadcast.
fn of_broadcast(b: &Lower, [re, im]: [Var; 2]) -> Lowered<Var> {
    let same = match (b.shape_of(re), b.shape_of(im)) {
        (Some(x), Some(y)) => x.len() == y.len() && x.iter().zip(&y).all(|(x, y)| x.same(y)),
        _ => false,
    };
    if same {
        return of_parts(b, [re, im]);
    }
    of_parts(b, [b.expand(re, b.shape(im).one()?)?, b.expand(im, b.shape(re).one()?)?])
}

/// A complex tensor of its parts, which have one shape.
pub(crate) fn of_parts(b: &Lower, [re, im]: [Var; 2]) -> Lowered<Var> {
    let larger = if b.rank_of(im) > b.rank_of(re) { im } else { re };
    stands_for(b, larger, 0, Complex::Parts([re, im]))
}

/// A complex tensor of both parts along the last axis.
pub(super) fn of_pair(b: &Lower, pair: Var) -> Lowered<Var> {
    stands_for(b, pair, 1, Complex::Pair(pair))
}

/// What a complex tensor is made of; a constant is taken apart now.
fn made_of(b: &Lower, v: Var) -> Lowered<Complex> {
    if let Some(known) = b.source.complex.borrow().get(&v) {
        return Ok(*known);
    }
    let constant = b.constant_of(v).and_then(|t| {
        let dtype = float_of(t.dtype());
        t.viewed_as(dtype, &[t.dims(), &[2]].concat()).ok()
    });
    let message = "A complex tensor is needed that is computed here, or constant.";
    let constant = constant.ok_or_else(|| b.diagnostic(Code::LayerUnsupported, message))?;
    let found = Complex::Pair(b.parameter("complex", constant));
    b.source.complex.borrow_mut().insert(v, found);
    Ok(found)
}

/// The type of the parts.
pub(crate) fn float_of(dtype: DataType) -> DataType {
    if dtype == Complex128 { Double } else { Float }
}

/// Both parts along a last axis.
pub(crate) fn pair(b: &Lower, v: Var) -> Lowered<Var> {
    match made_of(b, v)? {
        Complex::Pair(pair) => Ok(pair),
        Complex::Parts(parts) => {
            let [re, im] =
                parts.map(|part| b.unsqueeze(part, [b.rank_of(part).unwrap_or(0) as i64]));
            let pair = b.concat([re?, im?]).axis(-1).one()?;
            b.source.complex.borrow_mut().insert(v, Complex::Pair(pair));
            Ok(pair)
        }
    }
}

/// The real and the imaginary part.
pub(crate) fn parts(b: &Lower, v: Var) -> Lowered<[Var; 2]> {
    match made_of(b, v)? {
        Complex::Parts(parts) => Ok(parts),
        Complex::Pair(pair) => {
            let last = b.rank_of(pair).map_or(-1, |rank| rank as i64 - 1);
            let part = |i: i64| b.gather(pair, i).axis(last).one();
            Ok([part(0)?, part(1)?])
        }
    }
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

fn each(b: &Lower, v: Var, f: impl Fn(&Lower, Var) -> Lowered<Var>) -> Lowered<Var> {
    let [re, im] = parts(b, v)?;
    of_parts(b, [f(b, re)?, f(b, im)?])
}

fn angle(b: &Lower, a: One) -> Lowered<Var> {
    let [re, im] = parts(b, a.input)?;
    // The angle of (re + |z|, im) is half of that of (re, im), and never beyond a quarter.
    let length = b.sqrt(b.add(b.mul(re, re)?, b.mul(im, im)?)?)?;
    let zero = operand(b, &Value::Int(0), super::dtype::of(b, re)?)?;
    let pi = operand(b, &Value::Float(std::f64::consts::PI), super::dtype::of(b, re)?)?;
    let half = b.mul(b.atan(b.div(im, b.add(length, re)?)?)?, 2.0)?;
    let on_axis = b.where_(b.less(re, zero)?, pi, zero)?;
    b.where_(b.equal(im, zero)?, on_axis, half)
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
    let times = |x: &Value, y: &Value| {
        let [x, y] = reals(b, [x, y])?;
        times(b, x, y)
    };
    let both = match (&im, &im2) {
        (Some(im), Some(im2)) => {
            [b.sub(times(&re, &re2)?, times(im, im2)?)?, b.add(times(&re, im2)?, times(im, &re2)?)?]
        }
        (Some(im), None) => [times(&re, &re2)?, times(im, &re2)?],
        (None, Some(im2)) => [times(&re, &re2)?, times(&re, im2)?],
        (None, None) => return times(&re, &re2),
    };
    of_parts(b, both)
}

fn einsum(b: &Lower, a: Einsum) -> Lowered<Var> {
    let [x, y] = a.tensors[..] else {
        let message = "A product of more than two complex tensors cannot be said in ONNX.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let equation: String = a.equation.chars().filter(|c| !c.is_whitespace()).collect();
    product(b, [&x.into(), &y.into()], |b, x, y| b.einsum([x, y]).equation(equation.as_str()).one())
}

/// The product with the conjugate, over the square of the length.
fn quotient(b: &Lower, a: Two) -> Lowered<Var> {
    let (re2, im2) = parts_of(b, &a.other)?;
    let Some(im2) = im2 else {
        let (re, im) = parts_of(b, &a.input)?;
        let [re, divisor] = reals(b, [&re, &re2])?;
        let im = to_float(b, operand(b, &im.unwrap_or(Value::Int(0)), super::dtype::of(b, re)?)?)?;
        return of_parts(b, [b.div(re, divisor)?, b.div(im, divisor)?]);
    };
    let [re2, im2] = reals(b, [&re2, &im2])?;
    let square = b.add(b.mul(re2, re2)?, b.mul(im2, im2)?)?;
    let inverse = of_parts(b, [b.div(re2, square)?, b.div(b.neg(im2)?, square)?])?;
    product(b, [&a.input, &inverse.into()], |b, x, y| b.mul(x, y))
}

/// A tensor as an output: complex numbers are given as their parts along a last axis, as `view_as_real` has them.
pub(crate) fn real(b: &Lower, v: Var) -> Lowered<Var> {
    if is(b, v) { pair(b, v) } else { Ok(v) }
}

/// A real tensor whose axes begin with those of `v`.
pub(crate) fn shaped(b: &Lower, v: Var) -> Lowered<Var> {
    if !is(b, v) {
        return Ok(v);
    }
    Ok(match made_of(b, v)? {
        Complex::Parts([re, _]) => re,
        Complex::Pair(pair) => pair,
    })
}

/// Operators that do the same to both parts.
pub(crate) fn by_parts(name: &str) -> bool {
    const LINEAR: [&str; 19] = [
        "sum",
        "mean",
        "cumsum",
        "where",
        "index",
        "gather",
        "repeat_interleave",
        "tril",
        "triu",
        "copy",
        "zeros_like",
        "empty_like",
        "new_zeros",
        "slice_scatter",
        "select_scatter",
        "diagonal_scatter",
        "as_strided_scatter",
        "index_put",
        "scatter",
    ];
    LINEAR.contains(&name)
        || super::quantizer::MOVED.contains(&name) && !matches!(name, "relu" | "max" | "min")
}
