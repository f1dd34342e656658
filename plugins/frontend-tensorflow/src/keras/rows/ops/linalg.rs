//! Norms, what follows from a decomposition of Cholesky, and elements without their copies.

use super::contract::diagonal;
use super::promote::{floats, tensor};
use super::reduce::axes;
use crate::keras::rows::count;
use crate::ops::create::number;
use crate::ops::reduce::{Reduction, along};
use crate::ops::shape::{axis_of, squeezed};
use crate::ops::{Lower, RowContext, Values, dtype_of, rank, spectral};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::formulas::matrix::{cholesky, qr, transposed};
use onnxd_plugin_sdk::formulas::singular::{self, Singular};
use onnxd_plugin_sdk::ir::DataType::{Double, Int32};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Norm" => norm;
        "ops.Cholesky" => |b, a: Matrix| {
            let lower = cholesky(b, floats(b, a.x)?)?;
            if a.upper { transposed(b, lower) } else { Ok(lower) }
        };
        "ops.Logdet" => |b, a: Matrix| {
            let lower = cholesky(b, floats(b, a.x)?)?;
            let logs = b.log(diagonal(b, lower, 0, [-2, -1])?)?;
            b.mul(b.reduce_sum(logs).axes([-1]).keepdims(0).one()?, 2.0)
        };
        "ops.Qr" => |b, a: Qr| {
            let complete = match a.mode.as_str() {
                "reduced" => false,
                "complete" => true,
                _ => return Err(b.wrong("`mode` is neither `reduced` nor `complete`.")),
            };
            qr(b, floats(b, a.x)?, complete)
        };
        "ops.SVD" => svd;
        "ops.MatrixRank" => |b, x: Var, tol: Option<f64>| {
            let x = floats(b, x)?;
            let s = spectral::values(b, x)?;
            let limit = match tol {
                Some(tol) => b.constant(number(tol, dtype_of(b, s)?)),
                None => rounding(b, x, s, 1.0)?,
            };
            b.reduce_sum(b.cast(b.greater(s, limit)?, Int32)?).axes([-1]).keepdims(0).one()
        };
        "ops.Pinv" => |b, x: Var, rcond: Option<f64>| {
            let x = floats(b, x)?;
            let parts = spectral::vectors(b, x, false)?;
            let limit = match rcond {
                Some(rcond) => b.mul(largest(b, parts.s)?, rcond)?,
                None => rounding(b, x, parts.s, 10.0)?,
            };
            parts.inverse(b, limit)
        };
        "ops.Unique" => unique;
    }
}

arguments! {
    /// `Norm(x; ord=None, axis=None, keepdims=False)`
    struct Norm { x: Var, ord: Option<Value>, axis: Operand = Operand::Absent, keepdims: bool = false }
    /// `Cholesky(x; upper=False)`
    struct Matrix { x: Var, upper: bool = false }
    /// `Qr(x; mode="reduced")`
    struct Qr { x: Var, mode: String = "reduced" }
    /// `SVD(x; full_matrices=True, compute_uv=True)`
    struct Svd { x: Var, full_matrices: bool = true, compute_uv: bool = true }
    /// `Unique(x; sorted=True, return_index=False, return_inverse=False, return_counts=False, axis=None, size=None,
    /// fill_value=None)`
    struct Unique {
        x: Var, sorted: bool = true, return_index: bool = false, return_inverse: bool = false,
        return_counts: bool = false, axis: Option<i64>, size: Option<i64>, fill_value: Option<Value>,
    }
}

fn svd(b: &Lower, a: Svd) -> Lowered<Values> {
    let x = floats(b, a.x)?;
    if !a.compute_uv {
        return Ok(Values(vec![spectral::values(b, x)?.into()]));
    }
    let Singular { u, s, v } = spectral::vectors(b, x, a.full_matrices)?;
    Ok(Values(vec![u.into(), s.into(), transposed(b, v)?.into()]))
}

/// The largest of the singular values of each matrix.
fn largest(b: &Lower, s: Var) -> Lowered<Var> {
    let last = rank(b, s)? as i64 - 1;
    singular::largest(b, s, &[last])
}

/// Up to where singular values may be errors of rounding, as TensorFlow has it.
fn rounding(b: &Lower, x: Var, s: Var, factor: f64) -> Lowered<Var> {
    let dtype = dtype_of(b, s)?;
    let epsilon = if dtype == Double { f64::EPSILON } else { f64::from(f32::EPSILON) };
    let sides = b.shape(x).start(rank(b, x)? as i64 - 2).one()?;
    let longer = b.cast(b.reduce_max(sides).keepdims(0).one()?, dtype)?;
    b.mul(b.mul(longer, factor * epsilon)?, largest(b, s)?)
}

/// The order of a norm.
#[derive(Clone, Copy, PartialEq)]
enum NormOrder {
    Euclidean,
    Number(f64),
}

impl NormOrder {
    fn from_value(b: &GraphBuilder, ord: Option<&Value>, of_matrix: bool) -> Lowered<NormOrder> {
        Ok(match ord {
            None => NormOrder::Euclidean,
            Some(Value::Text(word)) if word == "fro" && of_matrix => NormOrder::Euclidean,
            Some(Value::Int(2)) if !of_matrix => NormOrder::Euclidean,
            Some(Value::Int(n)) => NormOrder::Number(*n as f64),
            Some(Value::Float(n)) => NormOrder::Number(*n),
            Some(_) => return Err(unknown(b)),
        })
    }
}

fn unknown(b: &GraphBuilder) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    b.unsupported("A norm of this order has no counterpart in ONNX.")
}

fn norm(b: &Lower, a: Norm) -> Lowered<Var> {
    let x = floats(b, a.x)?;
    let list = axes(b, x, &a.axis)?;
    let along = |x: Var, axes: &[i64], keep: bool, how: Reduction| along(b, x, axes, keep, how);
    let order = NormOrder::from_value(b, a.ord.as_ref(), list.len() == 2)?;
    let NormOrder::Number(order) = order else { return along(x, &list, a.keepdims, Reduction::L2) };
    let extreme = if order > 0.0 { Reduction::Max } else { Reduction::Min };
    match list[..] {
        [_] if order.is_infinite() => along(b.abs(x)?, &list, a.keepdims, extreme),
        [_] if order == 0.0 => {
            let hits = b.cast(b.not(b.equal(x, 0)?)?, dtype_of(b, x)?)?;
            along(hits, &list, a.keepdims, Reduction::Sum)
        }
        [_] => {
            let power = |x: Var, to: f64| b.pow(x, b.constant(number(to, dtype_of(b, x)?)));
            let sum = along(power(b.abs(x)?, order)?, &list, a.keepdims, Reduction::Sum)?;
            power(sum, 1.0 / order)
        }
        [row, column] if order.abs() == 1.0 || order.is_infinite() => {
            // Sums of columns, or of rows.
            let [summed, left] = if order.is_infinite() { [column, row] } else { [row, column] };
            let sums = along(b.abs(x)?, &[summed], true, Reduction::Sum)?;
            let y = along(sums, &[left], true, extreme)?;
            if a.keepdims { Ok(y) } else { squeezed(b, y, &list) }
        }
        _ => Err(unknown(b)),
    }
}

/// A vector or tensor of another size along an axis: what is too much is cut off, what lacks is filled.
fn of_size(b: &GraphBuilder, x: Var, axis: usize, size: i64, fill: Var) -> Lowered<Var> {
    let axis = axis as i64;
    let cut = b.slice(x, [0], [size]).axes([axis]).one()?;
    let lacking = b.sub(size, b.shape(cut).start(axis).end(axis + 1).one()?)?;
    let n = rank(b, x)? as i64;
    let (before, behind) = (vec![0i64; (n + axis) as usize], vec![0i64; (n - axis - 1) as usize]);
    let pads = b.concat([Operand::from(before), lacking.into(), behind.into()]).axis(0).one()?;
    b.pad(cut, pads).constant_value(fill).one()
}

/// Elements or slices without their copies; where each is first, which one each place has, and how many there are.
fn unique(b: &Lower, a: Unique) -> Lowered<Values> {
    let axis = a.axis.map(|axis| axis_of(b, a.x, axis)).transpose()?;
    let along = axis.map(|axis| axis as i64);
    let [y, first, place, counts] = crate::ops::sort::unique(b, a.x, along, a.sorted)?;
    let sized = |x: Var, axis: usize, fill: &Value| match a.size {
        None => Ok(x),
        Some(size) => {
            let size = count(b, "elements", size)?;
            of_size(b, x, axis, size, tensor(b, fill, dtype_of(b, x)?)?)
        }
    };
    let fill = a.fill_value.unwrap_or(Value::Int(0));
    let place = match axis {
        None => b.reshape(place, b.shape(a.x).one()?).one()?,
        Some(_) => place,
    };
    let y = sized(y, axis.unwrap_or(0), &fill)?;
    // Keras fills the places with ones.
    let more = [
        a.return_index.then(|| sized(first, 0, &Value::Int(1))).transpose()?,
        a.return_inverse.then_some(place),
        a.return_counts.then(|| sized(counts, 0, &Value::Int(0))).transpose()?,
    ];
    let more = more.into_iter().flatten().map(|x| b.cast(x, Int32));
    Ok(Values::with(y, more.collect::<Lowered<Vec<_>>>()?))
}
