//! Complex numbers. ONNX computes with none, so a complex tensor is its real and imaginary parts, or both along a last
//! axis of two. A value that nothing computes stands for it in the program, with its type and sizes.
//!
//! An operator that reads complex numbers has a row of its own (`complex::Mul`), or is done to both parts.

use super::operands::{Input, One, Two};
use super::{Lower, Source, linear, of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Complex64, Complex128, Double, Float};
use onnxd_plugin_sdk::ir::{Dim, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Lowered, Lowering, Table, Value};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "Complex" => |b, a: Made| of_broadcast(b, [a.real, a.imag]);
        "complex::Real" => |b, a: Taken| Ok(parts(b, a.input)?[0]);
        "complex::Imag" => |b, a: Taken| Ok(parts(b, a.input)?[1]);
        "complex::Angle" => |b, a: Taken| angle(b, a.input);
        "complex::ComplexAbs" => |b, a: Length| length(b, a.x);
        "complex::Abs" => |b, a: One| length(b, a.x);
        "complex::Conj" => |b, a: Input| conjugate(b, a.input);
        "complex::ConjugateTranspose" => |b, a: Turned| {
            let [re, im] = parts(b, a.x)?.map(|part| super::shape::transposed(b, part, &a.perm));
            of_parts(b, [re?, b.neg(im?)?])
        };
        "complex::Cast" => |b, a: Cast| {
            let ElementType(to) = a.dstt;
            match is_complex(to) {
                true => of_parts(b, both(parts(b, a.x)?.map(|part| b.cast(part, float_of(to))))?),
                // TensorFlow drops the imaginary part.
                false => b.cast(parts(b, a.x)?[0], to),
            }
        };
    };
    arithmetic(table)
}

fn arithmetic(table: Table<Source>) -> Table<Source> {
    super::rows! { table;
        "complex::Mul" => |b, a: Two| product(b, [a.x, a.y], |b, x, y| b.mul(x, y));
        "complex::Square" => |b, a: One| product(b, [a.x, a.x], |b, x, y| b.mul(x, y));
        "complex::Div" | "complex::RealDiv" => |b, a: Two| quotient(b, [a.x, a.y]);
        "complex::Reciprocal" | "complex::Inv" => |b, a: One| {
            let [re, im] = parts(b, a.x)?;
            let square = b.add(b.mul(re, re)?, b.mul(im, im)?)?;
            of_parts(b, [b.div(re, square)?, b.div(b.neg(im)?, square)?])
        };
        "complex::DivNoNan" => |b, a: Two| {
            let zero = b.equal(length(b, a.y)?, 0.0)?;
            let [re, im] = parts(b, quotient(b, [a.x, a.y])?)?;
            of_parts(b, [b.where_(zero, 0.0, re)?, b.where_(zero, 0.0, im)?])
        };
        "complex::MatMul" => |b, a: Matrices| {
            product(b, [a.a, a.b], |b, x, y| linear::product(b, [x, y], [a.transpose_a, a.transpose_b]))
        };
        "complex::BatchMatMul" | "complex::BatchMatMulV2" => |b, a: Stacks| {
            let x = if a.adj_x { conjugate(b, a.x)? } else { a.x };
            let y = if a.adj_y { conjugate(b, a.y)? } else { a.y };
            product(b, [x, y], |b, x, y| linear::product(b, [x, y], [a.adj_x, a.adj_y]))
        };
        "complex::Einsum" => einsum;
        "complex::Exp" => |b, a: One| {
            let [re, im] = parts(b, a.x)?;
            let length = b.exp(re)?;
            of_parts(b, [b.mul(length, b.cos(im)?)?, b.mul(length, b.sin(im)?)?])
        };
        "complex::Log" => |b, a: One| of_parts(b, [b.log(length(b, a.x)?)?, angle(b, a.x)?]);
        "complex::Sqrt" => |b, a: One| root(b, a.x);
        "complex::Equal" => |b, a: Two| equal(b, a);
        "complex::NotEqual" => |b, a: Two| b.not(equal(b, a)?);
    }
}

arguments! {
    /// `Complex(real, imag; T: type = float, Tout: type = complex64) -> out`
    struct Made { real: Var, imag: Var, tout: ElementType }
    /// `Real(input; T: type = complex64, Tout: type = float) -> output`
    struct Taken { input: Var, tout: ElementType }
    /// `ComplexAbs(x; T: type = complex64, Tout: type = float) -> y`
    struct Length { x: Var, tout: ElementType }
    /// `ConjugateTranspose(x, perm; T: type, Tperm: type = int32) -> y`
    struct Turned { x: Var, perm: Vec<i64> }
    /// `Cast(x; SrcT: type, DstT: type, Truncate: bool = false) -> y`
    struct Cast { x: Var, dstt: ElementType }
    /// `MatMul(a, b; transpose_a: bool = false, transpose_b: bool = false, T: type, ...) -> product`
    struct Matrices { a: Var, b: Var, transpose_a: bool, transpose_b: bool }
    /// `BatchMatMulV2(x, y; T: type, adj_x: bool = false, adj_y: bool = false, ...) -> output`
    struct Stacks { x: Var, y: Var, adj_x: bool, adj_y: bool }
    /// `Einsum(inputs*N; equation: string, N: int, T: type) -> output`
    struct Einsum { inputs: Vec<Var>, equation: String }
}

/// Operators that do the same to both parts.
const BY_PARTS: &[&str] = &[
    "Add",
    "AddV2",
    "AddN",
    "BatchMatrixBandPart",
    "BroadcastTo",
    "Concat",
    "ConcatV2",
    "Cumsum",
    "Diag",
    "DiagPart",
    "DynamicPartition",
    "DynamicStitch",
    "ExpandDims",
    "Fill",
    "Gather",
    "GatherNd",
    "GatherV2",
    "MatrixBandPart",
    "MatrixDiag",
    "MatrixDiagPart",
    "MatrixDiagPartV2",
    "MatrixDiagPartV3",
    "MatrixDiagV2",
    "MatrixDiagV3",
    "MatrixSetDiag",
    "MatrixSetDiagV2",
    "MatrixSetDiagV3",
    "Mean",
    "MirrorPad",
    "Neg",
    "Pack",
    "Pad",
    "PadV2",
    "ParallelDynamicStitch",
    "RESHAPE",
    "Reshape",
    "Reverse",
    "ReverseSequence",
    "ReverseV2",
    "Roll",
    "ScatterNd",
    "SegmentMean",
    "SegmentSum",
    "Select",
    "SelectV2",
    "Slice",
    "Split",
    "SplitV",
    "Squeeze",
    "STRIDED_SLICE",
    "StridedSlice",
    "Sub",
    "Sum",
    "TensorScatterAdd",
    "TensorScatterSub",
    "TensorScatterUpdate",
    "Tile",
    "Transpose",
    "Unpack",
    "UnsortedSegmentSum",
    "ZerosLike",
];

/// Operators that give what they get.
const SAME: &[&str] =
    &["DeepCopy", "EnsureShape", "Identity", "PlaceholderWithDefault", "StopGradient"];

/// Operators that look at sizes alone.
const SIZES: &[&str] = &["Rank", "Shape", "ShapeN", "Size"];

/// What a complex value is made of.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Complex {
    Parts([Var; 2]),
    /// Real and imaginary parts along the last axis.
    Pair(Var),
}

pub(crate) fn is_complex(dtype: DataType) -> bool {
    matches!(dtype, Complex64 | Complex128)
}

/// Whether `v` is complex.
pub(crate) fn is(b: &Lower, v: Var) -> bool {
    b.dtype_of(v).is_some_and(is_complex)
}

fn has_complex(b: &Lower, value: &Value) -> bool {
    match value {
        Value::Var(v) => is(b, *v),
        Value::List(items) => items.iter().any(|item| has_complex(b, item)),
        _ => false,
    }
}

/// Lowers an operator; one that reads complex numbers by its own row, or part by part.
pub(crate) fn lower(driver: &Driver<'_, Source>, item: Lowering) -> Vec<Value> {
    let b = driver.builder();
    let named = item.named.iter().map(|(_, value)| value);
    let own = format!("complex::{}", item.op);
    if !named.clone().chain(&item.arguments).any(|value| has_complex(b, value)) {
        // What has a row for complex numbers alone got none of them: why was told before.
        let lost = named.chain(&item.arguments).any(|value| *value == Value::Hole);
        if lost && driver.has_row(&own) && !driver.has_row(&item.op) {
            return vec![Value::Hole; item.results.len()];
        }
        return driver.lower(item);
    }
    if driver.has_row(&own) {
        return driver.lower(Lowering { op: own, ..item });
    }
    if SAME.contains(&item.op.as_str()) {
        let first = item.named.into_iter().map(|(_, value)| value).chain(item.arguments).next();
        return first.into_iter().collect();
    }
    match both_parts(driver, &item) {
        Ok(values) => values,
        Err(found) => {
            driver.report(found.at(item.layer.clone()));
            vec![Value::Hole; item.results.len()]
        }
    }
}

fn both_parts(driver: &Driver<'_, Source>, item: &Lowering) -> Lowered<Vec<Value>> {
    let b = driver.builder();
    let op = item.op.as_str();
    let of_part = |i: usize, results: Vec<String>| {
        let value = |value: &Value| part(b, value, i);
        let named = item.named.iter().map(|(name, v)| Ok((name.clone(), value(v)?)));
        let named = named.collect::<Lowered<_>>()?;
        let arguments = item.arguments.iter().map(value).collect::<Lowered<_>>()?;
        Ok(driver.lower(Lowering { named, arguments, results, ..item.clone() }))
    };
    if SIZES.contains(&op) {
        return of_part(0, item.results.clone());
    }
    if !BY_PARTS.contains(&op) {
        let message = format!("`{}` of complex numbers cannot be said in ONNX.", shown(op));
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let nameless = vec![String::new(); item.results.len()];
    let all = of_part(0, nameless.clone())?.into_iter().zip(of_part(1, nameless)?);
    all.map(|(re, im)| joined(b, re, im)).collect()
}

/// The real (0) or imaginary (1) part of what is complex in a value.
fn part(b: &Lower, value: &Value, i: usize) -> Lowered<Value> {
    Ok(match value {
        Value::Var(v) if is(b, *v) => parts(b, *v)?[i].into(),
        Value::List(items) => {
            Value::List(items.iter().map(|item| part(b, item, i)).collect::<Lowered<_>>()?)
        }
        other => other.clone(),
    })
}

fn joined(b: &Lower, re: Value, im: Value) -> Lowered<Value> {
    match (re, im) {
        (Value::Var(re), Value::Var(im)) => Ok(of_parts(b, [re, im])?.into()),
        _ => Ok(Value::Hole),
    }
}

/// A value that stands for a complex tensor.
fn stands_for(b: &Lower, like: Var, axes: usize, made_of: Complex) -> Lowered<Var> {
    let dtype = if of(b, like)? == Double { Complex128 } else { Complex64 };
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
    stands_for(b, re, 0, Complex::Parts([re, im]))
}

/// A complex tensor of both parts along the last axis.
pub(crate) fn of_pair(b: &Lower, pair: Var) -> Lowered<Var> {
    stands_for(b, pair, 1, Complex::Pair(pair))
}

/// The type of both parts along a last axis, for the type of a complex tensor.
pub(crate) fn pair_of(ty: &ValueType) -> Option<ValueType> {
    let dtype = ty.dtype().filter(|dtype| is_complex(*dtype))?;
    let shape = ty.shape().map(|shape| shape.iter().cloned().chain([Dim::Known(2)]).collect());
    Some(ValueType::Tensor { dtype: Some(float_of(dtype)), shape })
}

/// What users should know of a complex input or output.
pub(crate) fn as_pair(what: &str, name: &str) -> Diagnostic {
    let message = format!(
        "The {what} `{}` is complex: its real and imaginary parts are a last axis of two.",
        shown(name)
    );
    Diagnostic::new(Code::LayerParameter, message)
}

/// A real tensor as a complex one.
pub(crate) fn of_real(b: &Lower, re: Var, to: DataType) -> Lowered<Var> {
    let re = b.cast(re, float_of(to))?;
    let im = super::create::filled(b, b.shape(re).one()?, 0, float_of(to))?;
    of_parts(b, [re, im])
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
            let axis = rank(b, parts[0])? as i64;
            let [re, im] = parts.map(|part| b.unsqueeze(part, [axis]));
            let pair = b.concat([re?, im?]).axis(axis).one()?;
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
            let last = rank(b, pair)? as i64 - 1;
            both([0i64, 1].map(|i| b.gather(pair, i).axis(last).one()))
        }
    }
}

fn both([re, im]: [Lowered<Var>; 2]) -> Lowered<[Var; 2]> {
    Ok([re?, im?])
}

/// The distance from zero.
pub(crate) fn length(b: &Lower, v: Var) -> Lowered<Var> {
    match made_of(b, v)? {
        Complex::Pair(pair) => {
            let last = rank(b, pair)? as i64 - 1;
            b.reduce_l2(pair).axes([last]).keepdims(0).one()
        }
        Complex::Parts([re, im]) => b.sqrt(b.add(b.mul(re, re)?, b.mul(im, im)?)?),
    }
}

pub(crate) fn angle(b: &Lower, v: Var) -> Lowered<Var> {
    let [re, im] = parts(b, v)?;
    super::math::atan2(b, im, re)
}

pub(crate) fn conjugate(b: &Lower, v: Var) -> Lowered<Var> {
    let [re, im] = parts(b, v)?;
    of_parts(b, [re, b.neg(im)?])
}

/// A product of any kind that is linear in both operands.
fn product(
    b: &Lower,
    [x, y]: [Var; 2],
    times: impl Fn(&Lower, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let ([re, im], [re2, im2]) = (parts(b, x)?, parts(b, y)?);
    let real = b.sub(times(b, re, re2)?, times(b, im, im2)?)?;
    of_parts(b, [real, b.add(times(b, re, im2)?, times(b, im, re2)?)?])
}

fn einsum(b: &Lower, a: Einsum) -> Lowered<Var> {
    let [x, y] = a.inputs[..] else {
        let message = "A product of more or fewer than two complex tensors cannot be said in ONNX.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    product(b, [x, y], |b, x, y| linear::summed(b, vec![x, y], &a.equation))
}

/// The product with the conjugate, over the square of the length.
fn quotient(b: &Lower, [x, y]: [Var; 2]) -> Lowered<Var> {
    let [re, im] = parts(b, product(b, [x, conjugate(b, y)?], |b, x, y| b.mul(x, y))?)?;
    let [re2, im2] = parts(b, y)?;
    let square = b.add(b.mul(re2, re2)?, b.mul(im2, im2)?)?;
    of_parts(b, [b.div(re, square)?, b.div(im, square)?])
}

/// The root to the right of zero.
fn root(b: &Lower, x: Var) -> Lowered<Var> {
    let ([re, im], length) = (parts(b, x)?, length(b, x)?);
    let half = |x: Var| b.sqrt(b.mul(x, 0.5)?);
    let up = half(b.sub(length, re)?)?;
    let signed = b.where_(b.less(im, 0.0)?, b.neg(up)?, up)?;
    of_parts(b, [half(b.add(length, re)?)?, signed])
}

fn equal(b: &Lower, a: Two) -> Lowered<Var> {
    let ([re, im], [re2, im2]) = (parts(b, a.x)?, parts(b, a.y)?);
    b.and(b.equal(re, re2)?, b.equal(im, im2)?)
}
