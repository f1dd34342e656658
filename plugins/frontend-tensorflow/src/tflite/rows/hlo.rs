//! Operators of StableHLO.

use super::window::Meeting;
use crate::ops::create::{counted, scalar};
use crate::ops::reduce::{Axes, Reduction, reduced};
use crate::ops::shape::{transposed, unsqueezed};
use crate::ops::xla::{Dimensions, XlaWindow, convolved, others};
use crate::ops::{Lower, RowContext, dtype_of, rank, rows};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::DataType::{Bool, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "STABLEHLO_CLAMP" => |b, min: Var, operand: Var, max: Var| b.min([b.max([operand, min])?, max]);
        "STABLEHLO_AND" => |b, x: Var, y: Var| Meeting::And.meet(b, x, y);
        "STABLEHLO_OR" => |b, x: Var, y: Var| Meeting::Or.meet(b, x, y);
        "STABLEHLO_COMPARE" => compare(x, y, comparison_direction);
        "STABLEHLO_SLICE" => |b, operand: Var, start_indices: Vec<i64>, limit_indices: Vec<i64>, strides: Vec<i64>| {
            let axes: Vec<i64> = (0..start_indices.len() as i64).collect();
            b.slice(operand, start_indices, limit_indices).axes(axes).steps(strides).one()
        };
        "STABLEHLO_BROADCAST_IN_DIM" => |b, operand: Var, broadcast_dimensions: Vec<i64>, shape: Vec<i64>| {
            let n = shape.len() as i64;
            b.expand(spread(b, operand, &broadcast_dimensions, n)?, shape)
        };
        "STABLEHLO_IOTA" => |b, iota_dimension: i64, type_: ElementType, shape: Vec<i64>| {
            let size = usize::try_from(iota_dimension).ok().and_then(|at| shape.get(at));
            let size = size.ok_or_else(|| crate::ops::xla::outside(b))?;
            let numbers = spread(b, counted(b, scalar(*size, Int64))?, &[iota_dimension], shape.len() as i64)?;
            b.cast(b.expand(numbers, shape)?, type_.0)
        };
        "STABLEHLO_REDUCE" => reduce;
        "STABLEHLO_DOT_GENERAL" => dot_general;
        "STABLEHLO_CONVOLUTION" => convolution;
    }
}

arguments! {
    /// `STABLEHLO_REDUCE(inputs*)`: tensors, then what their reductions begin with.
    struct Reduce { inputs: Vec<Var>, dimensions: Vec<i64>, body: String }
    /// `STABLEHLO_DOT_GENERAL(lhs, rhs)`
    struct DotGeneral {
        lhs: Var, rhs: Var, lhs_batching_dimensions: Vec<i64>, rhs_batching_dimensions: Vec<i64>,
        lhs_contracting_dimensions: Vec<i64>, rhs_contracting_dimensions: Vec<i64>,
    }
    /// `STABLEHLO_CONVOLUTION(input, kernel)`
    struct Convolution {
        input: Var, kernel: Var, window_strides: Vec<i64>, padding: Vec<i64>, lhs_dilation: Vec<i64>,
        rhs_dilation: Vec<i64>, window_reversal: Vec<bool>, input_batch_dimension: i64,
        input_feature_dimension: i64, input_spatial_dimensions: Vec<i64>, kernel_input_feature_dimension: i64,
        kernel_output_feature_dimension: i64, kernel_spatial_dimensions: Vec<i64>, output_batch_dimension: i64,
        output_feature_dimension: i64, output_spatial_dimensions: Vec<i64>, feature_group_count: i64,
        batch_group_count: i64,
    }
}

/// `x` with its axis `i` at place `places[i]` of `n`; the other axes have size 1.
fn spread(b: &GraphBuilder, x: Var, places: &[i64], n: i64) -> Lowered<Var> {
    let mut order: Vec<i64> = (0..places.len() as i64).collect();
    order.sort_by_key(|axis| places[*axis as usize]);
    unsqueezed(b, transposed(b, x, &order)?, &others(b, n, places)?)
}

fn compare(b: &Lower, x: Var, y: Var, comparison_direction: i64) -> Lowered<Var> {
    match comparison_direction {
        0 => b.equal(x, y),
        1 => b.not(b.equal(x, y)?),
        2 => b.greater_or_equal(x, y),
        3 => b.greater(x, y),
        4 => b.less_or_equal(x, y),
        5 => b.less(x, y),
        other => Err(b.wrong(format!("There is no comparison {other}."))),
    }
}

/// Reductions of one tensor.
fn reduce(b: &Lower, a: Reduce) -> Lowered<Var> {
    let [x, init] = a.inputs[..] else {
        return Err(b.unsupported("Several tensors are reduced together."));
    };
    let meeting = Meeting::parse(b, &a.body)?;
    let how = match meeting {
        Meeting::Add => Reduction::Sum,
        Meeting::Mul => Reduction::Prod,
        Meeting::Min | Meeting::And => Reduction::Min,
        Meeting::Max | Meeting::Or => Reduction::Max,
    };
    let dtype = dtype_of(b, x)?;
    refuse!(matches!(meeting, Meeting::And | Meeting::Or) && dtype != Bool =>
        b.unsupported("Bits of integers are reduced, which ONNX does not do."));
    let y = reduced(b, x, &Axes::Known(a.dimensions), false, how)?;
    meeting.meet(b, y, init)
}

/// The axes of the result are those of the batch, then those of both sides that are left.
fn dot_general(b: &Lower, a: DotGeneral) -> Lowered<Var> {
    let named = |v: Var, batch: &[i64], summed: &[i64], first: u8| -> Lowered<(String, String)> {
        let n = rank(b, v)? as i64;
        let free = others(b, n, &[batch, summed].concat())?;
        let letter = |axis: i64| -> char {
            let at = |list: &[i64]| list.iter().position(|named| *named == axis).map(|at| at as u8);
            let code = match (at(batch), at(summed), at(&free)) {
                (Some(at), ..) => b'a' + at,
                (_, Some(at), _) => b'h' + at,
                (.., at) => first + at.unwrap_or(0),
            };
            char::from(code)
        };
        Ok(((0..n).map(letter).collect(), free.iter().map(|axis| letter(*axis)).collect()))
    };
    let batch = a.lhs_batching_dimensions.len();
    refuse!(batch.max(a.lhs_contracting_dimensions.len()) > 7 || rank(b, a.lhs)?.max(rank(b, a.rhs)?) > 6 =>
        b.unsupported("The product has too many axes."));
    let (lhs, left) =
        named(a.lhs, &a.lhs_batching_dimensions, &a.lhs_contracting_dimensions, b'n')?;
    let (rhs, right) =
        named(a.rhs, &a.rhs_batching_dimensions, &a.rhs_contracting_dimensions, b't')?;
    let batch: String = ('a'..).take(batch).collect();
    b.einsum([a.lhs, a.rhs]).equation(format!("{lhs},{rhs}->{batch}{left}{right}")).one()
}

fn convolution(b: &Lower, a: Convolution) -> Lowered<Var> {
    let dimensions = Dimensions {
        input: [a.input_batch_dimension, a.input_feature_dimension],
        input_spatial: a.input_spatial_dimensions,
        kernel: [a.kernel_output_feature_dimension, a.kernel_input_feature_dimension],
        kernel_spatial: a.kernel_spatial_dimensions,
        output: [a.output_batch_dimension, a.output_feature_dimension],
        output_spatial: a.output_spatial_dimensions,
    };
    let form = XlaWindow {
        strides: a.window_strides,
        padding: a.padding,
        lhs_dilation: a.lhs_dilation,
        rhs_dilation: a.rhs_dilation,
        reversal: a.window_reversal,
        groups: a.feature_group_count,
        batch_groups: a.batch_group_count,
    };
    convolved(b, [a.input, a.kernel], &dimensions, form)
}
