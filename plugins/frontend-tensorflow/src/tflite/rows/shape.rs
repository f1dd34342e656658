//! Shapes, slices and updates.

use crate::ops::shape::{int64s, reshaped};
use crate::ops::slicing::{Strided, strided_slice};
use crate::ops::update::{cut, each, places, updated, vector};
use crate::ops::{Lower, RowContext, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "RESHAPE" => reshape;
        "STRIDED_SLICE" => |b, a: Slice| {
            let a = if a.offset { ends_from_begin(b, a)? } else { a };
            strided_slice(b, Strided {
                input: a.input, begin: a.begin.into(), end: a.end.into(), strides: a.strides,
                begin_mask: a.begin_mask, end_mask: a.end_mask, ellipsis_mask: a.ellipsis_mask,
                new_axis_mask: a.new_axis_mask, shrink_axis_mask: a.shrink_axis_mask,
            })
        };
        "DYNAMIC_UPDATE_SLICE" => |b, operand: Var, update: Var, start_indices: Var| {
            updated(b, operand, update, &each(b, operand, start_indices)?)
        };
        "STABLEHLO_DYNAMIC_UPDATE_SLICE" => |b, operand: Var, update: Var, start_indices: Vec<Var>| {
            let starts = places(b, &start_indices)?;
            updated(b, operand, update, &starts)
        };
        "STABLEHLO_DYNAMIC_SLICE" => |b, operand: Var, start_indices: Vec<Var>, slice_sizes: Vec<i64>| {
            let starts = places(b, &start_indices)?;
            cut(b, operand, &starts, &slice_sizes)
        };
    }
}

arguments! {
    /// `RESHAPE(input, shape?)`
    struct Reshape { input: Var, shape: Option<Operand>, new_shape: Option<Vec<i64>>, result: Option<Vec<i64>> }
    /// `STRIDED_SLICE(input, begin, end, strides)`; with `offset`, the end counts from the beginning.
    struct Slice {
        input: Var, begin: Var, end: Var, strides: Vec<i64>, begin_mask: i64, end_mask: i64, ellipsis_mask: i64,
        new_axis_mask: i64, shrink_axis_mask: i64, offset: bool = false,
    }
}

/// A slice whose ends count from where it begins, as one whose ends count from the first element. As in TFLite's
/// kernel, it begins within the axis, and `end_mask` does not count.
fn ends_from_begin(b: &GraphBuilder, a: Slice) -> Lowered<Slice> {
    refuse!(a.ellipsis_mask != 0 || a.new_axis_mask != 0 =>
        b.unsupported("Ends that count from the beginning, beside an ellipsis or a new axis, are not read."));
    let list = |one: &dyn Fn(usize) -> i64| -> Var {
        let all: Vec<i64> = (0..a.strides.len()).map(one).collect();
        b.constant(onnxd_plugin_sdk::ir::Tensor::vector(all))
    };
    let back = |at: usize| a.strides[at] < 0;
    let masked = |at: usize| at < 64 && a.begin_mask >> at & 1 == 1;
    let first = list(&|at| if back(at) { -1 } else { 0 });
    let begin = match (0..a.strides.len()).any(masked) {
        true => b.where_(
            b.equal(list(&|at| i64::from(masked(at))), 1)?,
            first,
            b.cast(a.begin, Int64)?,
        )?,
        false => b.cast(a.begin, Int64)?,
    };
    let is_inside = b.ints_of(begin).is_some_and(|all| all.iter().all(|begin| *begin >= 0));
    let begin = match is_inside && !a.strides.iter().any(|step| *step < 0) {
        true => begin,
        false => {
            let sizes = b.shape(a.input).start(0).end(a.strides.len() as i64).one()?;
            let counted = b.where_(b.less(begin, 0)?, b.add(begin, sizes)?, begin)?;
            let last = b.sub(sizes, list(&|at| i64::from(back(at))))?;
            b.max([b.min([counted, last])?, vector(b, 0)])?
        }
    };
    let end = b.add(begin, b.cast(a.end, Int64)?)?;
    // What lies before the first element would count from the last one.
    let before = list(&|at| if back(at) { i64::MIN + 1 } else { 0 });
    let end = b.where_(b.less(end, 0)?, before, end)?;
    Ok(Slice { begin, end, begin_mask: 0, end_mask: 0, ..a })
}

/// The shape is an input, or an option, or that of the result.
fn reshape(b: &Lower, a: Reshape) -> Lowered<Var> {
    let open = |sizes: &Vec<i64>| sizes.iter().filter(|n| **n < 0).count() < 2;
    match (a.shape, a.new_shape.filter(|sizes| !sizes.is_empty()), a.result.filter(open)) {
        (Some(shape), ..) => {
            let shape = int64s(b, &shape)?;
            // Old files say with a zero that the result is a number.
            let number = matches!(&shape, Operand::Ints(sizes) if sizes == &[0])
                && b.dims_of(a.input).is_some_and(|dims| dims.iter().product::<i64>() == 1);
            reshaped(b, a.input, &if number { Vec::<i64>::new().into() } else { shape })
        }
        (None, Some(sizes), _) | (None, None, Some(sizes)) => reshaped(b, a.input, &sizes.into()),
        (None, None, None) => Err(b.unsupported("The shape of the result is not known.")),
    }
}
