//! Functions of TensorFlow in models of Keras 2 for which neither its operators nor `keras.ops` have a row.

use super::ints;
use super::ops::nn::hot;
use super::ops::promote::{named, named_if, tensor};
use super::ops::reduce::axes;
use crate::ops::create::number;
use crate::ops::gather::gathered;
use crate::ops::join::parts;
use crate::ops::reduce::{Reduction, along};
use crate::ops::shape::axis_of;
use crate::ops::{Lower, RowContext, Values, dtype_of, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::ir::DataType::{Bool, Float, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "tf::Shape" => |b, a: Shape| b.cast(b.shape(a.input).one()?, named(b, &a.out_type)?);
        "tf::Argmax" => |b, a: Place| {
            b.cast(b.arg_max(a.input).axis(a.axis).keepdims(0).one()?, named(b, &a.output_type)?)
        };
        "tf::Argmin" => |b, a: Place| {
            b.cast(b.arg_min(a.input).axis(a.axis).keepdims(0).one()?, named(b, &a.output_type)?)
        };
        "tf::Gather" => |b, a: Gather| {
            let indices = tensor(b, &a.indices, Int64)?;
            gathered(b, a.params, indices, a.axis.unwrap_or(a.batch_dims), a.batch_dims)
        };
        "tf::Split" => split;
        "tf::L2Normalize" => |b, a: Normalize| {
            let list = axes(b, a.x, &a.axis)?;
            let square = along(b, b.mul(a.x, a.x)?, &list, true, Reduction::Sum)?;
            let least = b.constant(number(a.epsilon, dtype_of(b, square)?));
            b.div(a.x, b.sqrt(b.max([square, least])?)?)
        };
        "tf::Norm" => |b, a: Norm| along(b, a.tensor, &axes(b, a.tensor, &a.axis)?, a.keepdims, Reduction::L2);
        "tf::OneHot" => |b, a: OneHot| {
            let to = named_if(b, a.dtype.as_ref())?.unwrap_or(Float);
            let all = hot(b, b.cast(a.indices, Int64)?, a.depth, a.axis, Bool)?;
            let (on, off) = (a.on_value.unwrap_or(Value::Int(1)), a.off_value.unwrap_or(Value::Int(0)));
            crate::ops::select::choice(b, all, tensor(b, &on, to)?, tensor(b, &off, to)?)
        };
    }
}

arguments! {
    /// `shape(input, out_type=int32)`
    struct Shape { input: Var, out_type: String = "int32" }
    /// `argmax(input, axis=None, output_type=int64)`
    struct Place { input: Var, axis: i64 = 0, output_type: String = "int64" }
    /// `gather(params, indices, axis=None, batch_dims=0)`
    struct Gather { params: Var, indices: Value, axis: Option<i64>, batch_dims: i64 = 0 }
    /// `split(value, num_or_size_splits, axis=0)`
    struct Split { value: Var, num_or_size_splits: Value, axis: i64 = 0 }
    /// `l2_normalize(x, axis=None, epsilon=1e-12)`
    struct Normalize { x: Var, axis: Operand = Operand::Absent, epsilon: f64 = 1e-12 }
    /// `norm(tensor, axis=None, keepdims=False)`
    struct Norm { tensor: Var, axis: Operand = Operand::Absent, keepdims: bool = false }
    /// `one_hot(indices, depth, on_value=None, off_value=None, axis=-1, dtype=None)`
    struct OneHot {
        indices: Var, depth: i64, on_value: Option<Value>, off_value: Option<Value>, axis: i64 = -1,
        dtype: Option<String>,
    }
}

/// Parts of one size, or of sizes of which one may be what is left.
fn split(b: &Lower, a: Split) -> Lowered<Values> {
    let axis = axis_of(b, a.value, a.axis)?;
    let unknown = || b.unsupported(format!("The size of axis {axis} must be known to split it."));
    let size = size_of(b, a.value, axis).ok_or_else(unknown)?;
    let sizes: Option<Vec<i64>> = match &a.num_or_size_splits {
        Value::Int(n) if *n > 0 && *n <= size && size % n == 0 => Some(vec![size / n; *n as usize]),
        list @ Value::List(_) => ints(list),
        _ => None,
    };
    let known_sizes =
        |all: &[i64]| all.iter().filter(|n| **n >= 0).fold(0i64, |sum, n| sum.saturating_add(*n));
    let sizes = sizes.and_then(|mut all| {
        let rest = size - known_sizes(&all);
        if let Some(open) = all.iter_mut().find(|n| **n == -1) {
            *open = rest;
        }
        let fits = all.iter().all(|n| *n >= 0) && known_sizes(&all) == size;
        fits.then_some(all)
    });
    match sizes {
        Some(sizes) => parts(b, a.value, axis as i64, &sizes),
        None => Err(b.unsupported(format!("An axis of size {size} cannot be split like this."))),
    }
}
