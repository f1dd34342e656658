//! Complex numbers. ONNX computes with none, so a complex tensor is its real and imaginary parts, or both along a last
//! axis of two.
//!
//! An operator that reads complex numbers has a row of its own (`complex::Mul`), or is done to both parts.

use super::operands::Two;
use super::{Lower, RowContext, linear};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::formulas::complex::{self, float_of, is, is_complex};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Driver, Lowered, Lowering, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "Complex" => |b: &Lower, real: Var, imag: Var, tout: ElementType| {
            b.source.complex.of_broadcast(b, [real, imag])
        };
        "complex::Real" => |b, input: Var, tout: ElementType| Ok(parts(b, input)?[0]);
        "complex::Imag" => |b, input: Var, tout: ElementType| Ok(parts(b, input)?[1]);
        "complex::Angle" => |b, input: Var, tout: ElementType| complex::angle(b, parts(b, input)?);
        "complex::ComplexAbs" => |b: &Lower, x: Var, tout: ElementType| b.source.complex.length(b, x);
        "complex::Abs" => |b: &Lower, x: Var| b.source.complex.length(b, x);
        "complex::Conj" => |b, input: Var| conjugate(b, input);
        "complex::ConjugateTranspose" => |b, x: Var, perm: Vec<i64>| {
            let [re, im] = parts(b, x)?.map(|part| super::shape::transposed(b, part, &perm));
            of_parts(b, [re?, b.neg(im?)?])
        };
        "complex::Cast" => |b, x: Var, dstt: ElementType| {
            let ElementType(to) = dstt;
            match is_complex(to) {
                true => {
                    let [re, im] = parts(b, x)?;
                    of_parts(b, [b.cast(re, float_of(to))?, b.cast(im, float_of(to))?])
                },
                // TensorFlow drops the imaginary part.
                false => b.cast(parts(b, x)?[0], to),
            }
        };
    };
    arithmetic(table)
}

fn arithmetic(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "complex::Mul" => |b, a: Two| product(b, [a.x, a.y], |b, x, y| b.mul(x, y));
        "complex::Square" => |b, x: Var| product(b, [x, x], |b, x, y| b.mul(x, y));
        "complex::Div" | "complex::RealDiv" => |b, a: Two| {
            of_parts(b, complex::quotient(b, parts(b, a.x)?, parts(b, a.y)?)?)
        };
        "complex::Reciprocal" | "complex::Inv" => |b, x: Var| {
            of_parts(b, complex::reciprocal(b, parts(b, x)?)?)
        };
        "complex::DivNoNan" => |b: &Lower, a: Two| {
            let zero = b.equal(b.source.complex.length(b, a.y)?, 0.0)?;
            let [re, im] = complex::quotient(b, parts(b, a.x)?, parts(b, a.y)?)?;
            of_parts(b, [b.where_(zero, 0.0, re)?, b.where_(zero, 0.0, im)?])
        };
        "complex::MatMul" => |b, a: Matrices| {
            product(b, [a.a, a.b], |b, x, y| linear::product(b, [x, y], [a.transpose_a, a.transpose_b]))
        };
        "complex::BatchMatMul" | "complex::BatchMatMulV2" => |b, x: Var, y: Var, adj_x: bool, adj_y: bool| {
            let x = if adj_x { conjugate(b, x)? } else { x };
            let y = if adj_y { conjugate(b, y)? } else { y };
            product(b, [x, y], |b, x, y| linear::product(b, [x, y], [adj_x, adj_y]))
        };
        "complex::Einsum" => einsum(inputs, equation);
        "complex::Exp" => |b, x: Var| of_parts(b, complex::exp(b, parts(b, x)?)?);
        "complex::Log" => |b: &Lower, x: Var| {
            let length = b.source.complex.length(b, x)?;
            of_parts(b, [b.log(length)?, complex::angle(b, parts(b, x)?)?])
        };
        "complex::Sqrt" => |b, x: Var| root(b, x);
        "complex::Equal" => |b, a: Two| equal(b, a);
        "complex::NotEqual" => |b, a: Two| b.not(equal(b, a)?);
    }
}

arguments! {
    /// `MatMul`
    struct Matrices { a: Var, b: Var, transpose_a: bool, transpose_b: bool }
}

/// Operators that do the same to both parts.
const BY_PARTS: &[&str] = &[
    "Add", "AddV2", "AddN", "BatchMatrixBandPart", "BroadcastTo", "Concat", "ConcatV2", "Cumsum",
    "Diag", "DiagPart", "DynamicPartition", "DynamicStitch", "ExpandDims", "Fill", "Gather",
    "GatherNd", "GatherV2", "MatrixBandPart", "MatrixDiag", "MatrixDiagPart", "MatrixDiagPartV2",
    "MatrixDiagPartV3", "MatrixDiagV2", "MatrixDiagV3", "MatrixSetDiag", "MatrixSetDiagV2",
    "MatrixSetDiagV3", "Mean", "MirrorPad", "Neg", "Pack", "Pad", "PadV2", "ParallelDynamicStitch",
    "RESHAPE", "Reshape", "Reverse", "ReverseSequence", "ReverseV2", "Roll", "ScatterNd",
    "SegmentMean", "SegmentSum", "Select", "SelectV2", "Slice", "Split", "SplitV", "Squeeze",
    "STRIDED_SLICE", "StridedSlice", "Sub", "Sum", "TensorScatterAdd", "TensorScatterSub",
    "TensorScatterUpdate", "Tile", "Transpose", "Unpack", "UnsortedSegmentSum", "ZerosLike",
];

/// Operators that give what they get.
const SAME: &[&str] =
    &["DeepCopy", "EnsureShape", "Identity", "PlaceholderWithDefault", "StopGradient"];

/// Operators that look at sizes alone.
const SIZES: &[&str] = &["Rank", "Shape", "ShapeN", "Size"];

fn has_complex(b: &Lower, value: &Value) -> bool {
    match value {
        Value::Var(v) => is(b, *v),
        Value::List(items) => items.iter().any(|item| has_complex(b, item)),
        _ => false,
    }
}

/// Lowers an operator; one that reads complex numbers by its own row, or part by part.
pub(crate) fn lower(driver: &Driver<'_, RowContext>, item: Lowering) -> Vec<Value> {
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

fn both_parts(driver: &Driver<'_, RowContext>, item: &Lowering) -> Lowered<Vec<Value>> {
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

/// A complex tensor of its parts, which have one shape.
pub(crate) fn of_parts(b: &Lower, parts: [Var; 2]) -> Lowered<Var> {
    Ok(b.source.complex.of_parts(b, parts))
}

/// The real and the imaginary part.
pub(crate) fn parts(b: &Lower, v: Var) -> Lowered<[Var; 2]> {
    b.source.complex.parts(b, v)
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

pub(crate) fn conjugate(b: &Lower, v: Var) -> Lowered<Var> {
    of_parts(b, complex::conjugate(b, parts(b, v)?)?)
}

/// A product of any kind that is linear in both operands.
fn product(
    b: &Lower,
    [x, y]: [Var; 2],
    times: impl Fn(&Lower, Var, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    of_parts(b, complex::product(b, parts(b, x)?, parts(b, y)?, |x, y| times(b, x, y))?)
}

fn einsum(b: &Lower, inputs: Vec<Var>, equation: String) -> Lowered<Var> {
    let [x, y] = inputs[..] else {
        let message = "A product of more or fewer than two complex tensors cannot be said in ONNX.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    product(b, [x, y], |b, x, y| linear::summed(b, vec![x, y], &equation))
}

/// The root to the right of zero.
fn root(b: &Lower, x: Var) -> Lowered<Var> {
    let ([re, im], length) = (parts(b, x)?, b.source.complex.length(b, x)?);
    let half = |x: Var| b.sqrt(b.mul(x, 0.5)?);
    let up = half(b.sub(length, re)?)?;
    let signed = b.where_(b.less(im, 0.0)?, b.neg(up)?, up)?;
    of_parts(b, [half(b.add(length, re)?)?, signed])
}

fn equal(b: &Lower, a: Two) -> Lowered<Var> {
    let ([re, im], [re2, im2]) = (parts(b, a.x)?, parts(b, a.y)?);
    b.and(b.equal(re, re2)?, b.equal(im, im2)?)
}
