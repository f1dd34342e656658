//! Tensors made of sizes and numbers.

use super::select::choice;
use super::shape::int64s;
use super::{Lower, RowContext, dtype_of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float, Int16, Int32, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "Fill" => |b, dims: Operand, value: Var| b.expand(value, int64s(b, &dims)?);
        "Empty" => |b, shape: Var, dtype: ElementType| filled(b, b.cast(shape, Int64)?, 0, dtype.0);
        "ZerosLike" => |b, x: Var| filled(b, b.shape(x).one()?, 0, dtype_of(b, x)?);
        "OnesLike" => |b, x: Var| filled(b, b.shape(x).one()?, 1, dtype_of(b, x)?);
        "Range" => range;
        "LinSpace" => lin_space(start, stop, num);
        "OneHot" => one_hot;
        "InvertPermutation" => invert_permutation(x);
    }
}

arguments! {
    /// `Range`
    struct Range { start: Var, limit: Var, delta: Var }
    /// `OneHot`
    struct OneHot { indices: Var, depth: Var, on_value: Var, off_value: Var, axis: i64 }
}

/// A real number as a tensor of rank 0.
pub(crate) fn number(value: f64, dtype: DataType) -> Tensor {
    Operand::Float(value).to_tensor(Some(dtype)).unwrap_or_else(|| scalar(0, dtype))
}

/// An integer as a tensor of rank 0.
pub(crate) fn scalar(value: i64, dtype: DataType) -> Tensor {
    let zeros = || {
        let bytes = vec![0; dtype.byte_len(1).unwrap_or_default()];
        Tensor::new(dtype, vec![], bytes.into()).expect("one element of zero bits")
    };
    Operand::Int(value).to_tensor(Some(dtype)).unwrap_or_else(zeros)
}

/// The numbers that count along an axis: 0, 1 and so on.
pub(crate) fn steps(b: &GraphBuilder, x: Var, axis: i64) -> Lowered<Var> {
    let size = b.shape(x).start(axis);
    let size = if axis == -1 { size.one()? } else { size.end(axis + 1).one()? };
    counted(b, b.squeeze(size).axes([0]).one()?)
}

/// The numbers from 0 to below another one.
pub(crate) fn counted(b: &GraphBuilder, n: impl Into<Operand>) -> Lowered<Var> {
    b.range(scalar(0, Int64), n, scalar(1, Int64)).one()
}

/// A tensor of the sizes `shape` whose elements are all `value`.
pub(crate) fn filled(b: &GraphBuilder, shape: Var, value: i64, dtype: DataType) -> Lowered<Var> {
    let value = scalar(value, dtype).reshaped([1]).expect("one element");
    b.constant_of_shape(shape).value(value).one()
}

/// Numbers from `start` on, below `limit`.
fn range(b: &Lower, a: Range) -> Lowered<Var> {
    let dtype = dtype_of(b, a.start)?;
    let computed = match dtype {
        Float | Double | Int16 | Int32 | Int64 => dtype,
        d if d.is_float() => Float,
        _ => Int64,
    };
    let [start, limit, delta] = [a.start, a.limit, a.delta].map(|x| b.cast(x, computed));
    b.cast(b.range(start?, limit?, delta?).one()?, dtype)
}

/// `num` numbers from `start` to `stop`, both included.
fn lin_space(b: &Lower, start: Var, stop: Var, num: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, start)?;
    let num = b.cast(num, Int64)?;
    let steps = b.cast(b.range(0, num, 1).one()?, dtype)?;
    let last = b.cast(b.max([b.sub(num, 1)?, b.constant(Tensor::scalar(1i64))])?, dtype)?;
    let step = b.div(b.sub(stop, start)?, last)?;
    b.add(start, b.mul(steps, step)?)
}

/// An index below zero or beyond the depth gives a row of `off_value`.
fn one_hot(b: &Lower, a: OneHot) -> Lowered<Var> {
    let dtype = dtype_of(b, a.indices)?;
    let places = b.range(scalar(0, Int64), b.cast(a.depth, Int64)?, scalar(1, Int64)).one()?;
    let places = b.cast(places, dtype)?;
    let rank = rank(b, a.indices)? as i64 + 1;
    let axis = if a.axis < 0 { a.axis + rank } else { a.axis };
    let behind: Vec<i64> = (1..rank - axis).collect();
    let places = super::shape::unsqueezed(b, places, &behind)?;
    let hot = b.equal(b.unsqueeze(a.indices, [axis])?, places)?;
    let known = |v: Var| b.constant_of(v).and_then(|t| t.to_reals()).map(|r| r.values[0]);
    match (known(a.on_value), known(a.off_value)) {
        (Some(1.0), Some(0.0)) => b.cast(hot, dtype_of(b, a.on_value)?),
        _ => choice(b, hot, a.on_value, a.off_value),
    }
}

/// The permutation that undoes another.
fn invert_permutation(b: &Lower, x: Var) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let places = b.range(scalar(0, Int64), b.size(x)?, scalar(1, Int64)).one()?;
    let places = b.cast(places, dtype)?;
    b.scatter_elements(x, x, places).axis(0).one()
}
