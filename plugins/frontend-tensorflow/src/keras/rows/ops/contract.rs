//! Products of matrices and tensors, and what is made of matrices.

use super::elementwise::{Two, any, compared};
use super::promote::{self, as_tensors, in_floats};
use super::reduce::in_sum;
use super::shapes::moved;
use crate::keras::rows::count;
use crate::keras::rows::ints;
use crate::ops::create::scalar;
use crate::ops::linear::aligned;
use crate::ops::reduce::{Reduction, along};
use crate::ops::select::choice;
use crate::ops::shape::{DimSize, axis_of, sized, sizes};
use crate::ops::{Lower, RowContext, dtype_of, rank, widened};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::formulas::matrix::{correlation, kron};
use onnxd_plugin_sdk::ir::DataType::{self, Int8, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{ArgumentReader, Lowered, Parameter, Table, Value, WrongArgument};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Matmul" => matmul;
        "ops.Dot" => |b, a: Two| multiplied(b, a, |m| (m - 2).max(0));
        "ops.Inner" => |b, a: Two| multiplied(b, a, |m| m - 1);
        "ops.Vdot" => |b, a: Two| {
            let flat = |x: &Value| Ok(Value::Var(b.reshape(any(b, x)?, [-1]).one()?));
            contracted(b, [&flat(&a.x1)?, &flat(&a.x2)?], &[0], &[0])
        };
        "ops.Outer" => |b, a: Two| compared(b, a, |b, x, y| {
            b.mul(b.reshape(x, [-1, 1]).one()?, b.reshape(y, [-1]).one()?)
        });
        "ops.Tensordot" => tensordot(x1, x2, axes);
        "ops.Einsum" => einsum;
        "ops.Cross" => cross;
        "ops.Kron" => |b, a: Two| compared(b, a, kron);
        "ops.CDist" => |b, x: Var, y: Var| {
            let apart = b.sub(b.unsqueeze(x, [-2])?, b.unsqueeze(y, [-3])?)?;
            b.reduce_l2(apart).axes([-1]).keepdims(0).one()
        };
        "ops.Tril" => |b, a: Band| band(b, a.x, a.k, true);
        "ops.Triu" => |b, a: Band| band(b, a.x, a.k, false);
        "ops.Diagonal" => |b, a: Diagonal| diagonal(b, a.x, a.offset, [a.axis1, a.axis2]);
        "ops.Trace" => |b, a: Diagonal| {
            let x = diagonal(b, a.x, a.offset, [a.axis1, a.axis2])?;
            along(b, in_sum(b, x)?, &[-1], false, Reduction::Sum)
        };
        "ops.Diag" => |b, a: Band| match rank(b, a.x)? {
            1 => matrix(b, a.x, a.k),
            _ => diagonal(b, a.x, a.k, [0, 1]),
        };
        "ops.Diagflat" => |b, a: Band| matrix(b, b.reshape(a.x, [-1]).one()?, a.k);
        "ops.Vander" => vander;
        "ops.Corrcoef" => |b, x: Var| correlation(b, promote::floats(b, x)?);
    }
}

arguments! {
    /// `Cross(x1, x2; axisa=-1, axisb=-1, axisc=-1, axis=None)`
    struct Cross { x1: Value, x2: Value, axisa: i64 = -1, axisb: i64 = -1, axisc: i64 = -1, axis: Option<i64> }
    /// `Tril(x; k=0)`
    struct Band { x: Var, k: i64 = 0 }
    /// `Diagonal(x; offset=0, axis1=0, axis2=1)`
    struct Diagonal { x: Var, offset: i64 = 0, axis1: i64 = 0, axis2: i64 = 1 }
}

/// `Vander(x; N=None, increasing=False)`
struct Vander {
    x: Var,
    n: Option<i64>,
    increasing: bool,
}

impl Parameter for Vander {
    fn take(reader: &mut ArgumentReader<'_>, _: &str) -> Result<Vander, WrongArgument> {
        let (x, n) = (reader.take("x", None)?, reader.take("N", None)?);
        Ok(Vander { x, n, increasing: reader.take("increasing", Some(false))? })
    }
}

/// `Einsum(*operands; subscripts)`
struct Einsum {
    operands: Vec<Value>,
    subscripts: String,
}

impl Parameter for Einsum {
    fn take(reader: &mut ArgumentReader<'_>, _: &str) -> Result<Einsum, WrongArgument> {
        Ok(Einsum { operands: reader.rest(), subscripts: reader.take("subscripts", None)? })
    }
}

/// Both as tensors to be multiplied, and the type of the result.
fn factors(b: &GraphBuilder, all: [&Value; 2]) -> Lowered<([Var; 2], DataType)> {
    let [x, y] = as_tensors(b, all)?;
    let to = dtype_of(b, x)?;
    let computed = if to.is_float() { to } else { widened(to) };
    Ok(([b.cast(x, computed)?, b.cast(y, computed)?], to))
}

fn matmul(b: &Lower, a: Two) -> Lowered<Var> {
    let all = [&a.x1, &a.x2];
    let bytes = |x: &Value| Ok(dtype_of(b, any(b, x)?)? == Int8);
    let both = bytes(all[0])? && bytes(all[1])?;
    let ([x, y], to) = factors(b, all)?;
    b.cast(b.mat_mul(x, y)?, if both { Int32 } else { to })
}

/// The product of numbers, or that along the last axis of the first and an axis of the second, by how many it has.
fn multiplied(b: &Lower, a: Two, axis: fn(i64) -> i64) -> Lowered<Var> {
    match (rank(b, any(b, &a.x1)?)? as i64, rank(b, any(b, &a.x2)?)? as i64) {
        (0, _) | (_, 0) => compared(b, a, GraphBuilder::mul),
        (n, m) => contracted(b, [&a.x1, &a.x2], &[n - 1], &[axis(m)]),
    }
}

/// The sum of products over axes of both.
fn contracted(b: &GraphBuilder, all: [&Value; 2], of_x: &[i64], of_y: &[i64]) -> Lowered<Var> {
    let ([x, y], to) = factors(b, all)?;
    let (n, m) = (rank(b, x)?, rank(b, y)?);
    let letter = |i: usize| char::from(b'a' + (i % 26) as u8);
    let left: Vec<char> = (0..n).map(letter).collect();
    let mut right: Vec<char> = (n..n + m).map(letter).collect();
    let mut out: Vec<char> = left.iter().chain(&right).copied().collect();
    for (i, j) in of_x.iter().zip(of_y) {
        let (i, j) = (axis_of(b, x, *i)?, axis_of(b, y, *j)?);
        out.retain(|c| *c != left[i] && *c != right[j]);
        right[j] = left[i];
    }
    refuse!(n + m > 26 || of_x.len() != of_y.len() => b.unsupported("The product has too many axes."));
    let text = |all: &[char]| all.iter().collect::<String>();
    let equation = format!("{},{}->{}", text(&left), text(&right), text(&out));
    b.cast(b.einsum([x, y]).equation(equation).one()?, to)
}

fn tensordot(b: &Lower, x1: Value, x2: Value, axes: Value) -> Lowered<Var> {
    let n = rank(b, any(b, &x1)?)? as i64;
    let pair = match &axes {
        Value::Int(count) if (0..=n).contains(count) => {
            Some(((n - count..n).collect(), (0..*count).collect()))
        }
        Value::List(both) if both.len() == 2 => ints(&both[0]).zip(ints(&both[1])),
        _ => None,
    };
    let (of_x, of_y) = pair.ok_or_else(|| b.wrong("The axes of the product are not known."))?;
    contracted(b, [&x1, &x2], &of_x, &of_y)
}

fn einsum(b: &Lower, a: Einsum) -> Lowered<Var> {
    let all: Vec<&Value> = a.operands.iter().collect();
    let tensors = a.operands.iter().map(|x| any(b, x)).collect::<Lowered<Vec<_>>>()?;
    refuse!(tensors.is_empty() => b.wrong("The product has no factors."));
    let to = promote::result(b, &all)?.fixed();
    let bytes = tensors.iter().all(|x| b.dtype_of(*x) == Some(Int8));
    let computed = match to {
        d if d.is_float() => d,
        d if d.bits() > 32 => Int64,
        _ => Int32,
    };
    let tensors = tensors.into_iter().map(|x| b.cast(x, computed)).collect::<Lowered<Vec<_>>>()?;
    let equation: String = a.subscripts.chars().filter(|c| !c.is_whitespace()).collect();
    let tensors = aligned(b, tensors, equation.split("->").next().unwrap_or_default())?;
    b.cast(b.einsum(tensors).equation(equation).one()?, if bytes { Int32 } else { to })
}

/// Vectors of two elements have a third of zero; of two such only that of the product is given.
fn cross(b: &Lower, a: Cross) -> Lowered<Var> {
    let [x, y] = as_tensors(b, [&a.x1, &a.x2])?;
    let [of_x, of_y, to] = a.axis.map_or([a.axisa, a.axisb, a.axisc], |axis| [axis; 3]);
    let (x, y) = (moved(b, x, &[of_x], &[-1])?, moved(b, y, &[of_y], &[-1])?);
    let size = |v: Var| b.shape_of(v).and_then(|shape| shape.last()?.known());
    let flat = size(x) == Some(2) && size(y) == Some(2);
    let wide = |v: Var| -> Lowered<Var> {
        if size(v) != Some(2) {
            return Ok(v);
        }
        let mut pads = vec![0; 2 * rank(b, v)?];
        *pads.last_mut().expect("a vector has an axis") = 1;
        b.pad(v, pads).one()
    };
    let (x, y) = (wide(x)?, wide(y)?);
    let part = |v: Var, i: i64| b.gather(v, [i % 3]).axis(-1).one();
    let term = |i: i64| {
        let first = b.mul(part(x, i + 1)?, part(y, i + 2)?)?;
        b.sub(first, b.mul(part(x, i + 2)?, part(y, i + 1)?)?)
    };
    if flat {
        return b.squeeze(term(2)?).axes([-1]).one();
    }
    let product = b.concat([term(0)?, term(1)?, term(2)?]).axis(-1).one()?;
    moved(b, product, &[-1], &[to])
}

/// The places below or above a diagonal; others are zero.
fn band(b: &GraphBuilder, x: Var, k: i64, lower: bool) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    if dtype == DataType::Bool {
        let y = band(b, b.cast(x, Int32)?, k, lower)?;
        return b.cast(y, dtype);
    }
    b.trilu(x).k(scalar(k, Int64)).upper(i64::from(!lower)).one()
}

/// Elements on a diagonal of two axes, along a last one.
pub(crate) fn diagonal(b: &GraphBuilder, x: Var, offset: i64, [i, j]: [i64; 2]) -> Lowered<Var> {
    let x = moved(b, x, &[i, j], &[-2, -1])?;
    let shape = b.shape_of(x).unwrap_or_default();
    let size = |back: usize| shape.get(shape.len().wrapping_sub(back))?.known();
    let (Some(rows), Some(columns)) = (size(2), size(1)) else {
        return Err(b.unsupported("The sizes of a matrix must be known to take its diagonal."));
    };
    count(b, "elements", rows.saturating_mul(columns))?;
    let column = |row: i64| row.saturating_add(offset);
    let places: Vec<i64> = (0..rows)
        .filter(|row| (0..columns).contains(&column(*row)))
        .map(|row| row * columns + column(row))
        .collect();
    let leading = sizes(b, x, 0..shape.len() - 2)?;
    let flat = sized(b, x, &[leading, vec![DimSize::Known(rows * columns)]].concat())?;
    b.gather(flat, places).axis(-1).one()
}

/// A matrix with a vector on its diagonal.
fn matrix(b: &GraphBuilder, x: Var, k: i64) -> Lowered<Var> {
    let n = b.shape(x).one()?;
    let square = b.concat([n, n]).axis(0).one()?;
    let hot = b.eye_like(crate::ops::create::filled(b, square, 0, Int32)?).one()?;
    let zero = b.constant(scalar(0, dtype_of(b, x)?));
    let wide = choice(b, b.cast(hot, DataType::Bool)?, b.unsqueeze(x, [0])?, zero)?;
    let k = k.signum() * count(b, "diagonals", k.saturating_abs())?;
    let (before, behind) = (k.max(0), (-k).max(0));
    b.pad(wide, [behind, before, before, behind]).one()
}

fn vander(b: &Lower, a: Vander) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    let size = b.shape_of(a.x).and_then(|shape| shape.first()?.known());
    let n = a.n.or(size).ok_or_else(|| b.unsupported("The number of columns is not known."))?;
    let mut powers: Vec<f32> = (0..count(b, "columns", n)?).map(|i| i as f32).collect();
    if !a.increasing {
        powers.reverse();
    }
    let [x] = in_floats(b, [&Value::Var(a.x)])?;
    let powers = b.cast(b.constant(Tensor::vector(powers)), dtype_of(b, x)?)?;
    b.cast(b.pow(b.unsqueeze(x, [-1])?, powers)?, dtype)
}
