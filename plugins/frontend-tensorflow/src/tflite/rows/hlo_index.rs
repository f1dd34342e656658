//! Slices and updates of StableHLO at places that are computed.

use super::window::Meeting;
use crate::ops::create::{counted, scalar};
use crate::ops::scatter::scattered;
use crate::ops::shape::{DimSize, size, transposed, unsqueezed};
use crate::ops::xla::{moved, others};
use crate::ops::{Lower, RowContext, dtype_of, rank, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "STABLEHLO_GATHER" => gather;
        "STABLEHLO_SCATTER" => scatter;
    }
}

arguments! {
    /// `STABLEHLO_GATHER(operand, start_indices)`
    struct Gather {
        operand: Var, start_indices: Var, offset_dims: Vec<i64>, collapsed_slice_dims: Vec<i64>,
        start_index_map: Vec<i64>, index_vector_dim: i64, slice_sizes: Vec<i64>,
    }
    /// `STABLEHLO_SCATTER(operand, indices, updates)`
    struct Scatter {
        operand: Var, indices: Var, updates: Var, update_window_dims: Vec<i64>, inserted_window_dims: Vec<i64>,
        scatter_dims_to_operand_dims: Vec<i64>, index_vector_dim: i64, body: String,
    }
}

/// Index vectors along the last axis.
fn vectors(b: &GraphBuilder, indices: Var, axis: i64) -> Lowered<Var> {
    let n = rank(b, indices)? as i64;
    let indices = b.cast(indices, Int64)?;
    if axis == n {
        return b.unsqueeze(indices, [n]);
    }
    let perm = [others(b, n, &[axis])?, vec![axis]].concat();
    transposed(b, indices, &perm)
}

/// Checks the sizes of slices of a tensor of `n` axes.
fn check_sizes(b: &GraphBuilder, n: usize, sizes: &[i64]) -> Lowered<()> {
    let wrong = |message: String| Err(b.wrong(message));
    match sizes.iter().find(|size| **size < 0) {
        _ if sizes.len() != n => {
            wrong(format!("A slice of {} axes is taken from {n} axes.", sizes.len()))
        }
        Some(size) => wrong(format!("A slice cannot have {size} elements.")),
        None => Ok(()),
    }
}

/// Slices of which each begins where an index vector says, moved inwards where it would reach over the end. Elements of
/// the axes that are sliced are taken one by one; the other axes are taken whole.
fn gather(b: &Lower, a: Gather) -> Lowered<Var> {
    let n = rank(b, a.operand)?;
    check_sizes(b, n, &a.slice_sizes)?;
    others(b, n as i64, &a.start_index_map)?;
    let starts = vectors(b, a.start_indices, a.index_vector_dim)?;
    let batch = rank(b, starts)? as i64 - 1;
    let is_whole = |axis: i64| {
        super::size_of(b, a.operand, axis as usize) == Some(a.slice_sizes[axis as usize])
    };
    let sliced: Vec<i64> = (0..n as i64)
        .filter(|axis| {
            a.start_index_map.contains(axis)
                || a.collapsed_slice_dims.contains(axis)
                || !is_whole(*axis)
        })
        .collect();
    let whole_axes = others(b, n as i64, &sliced)?;
    let count = sliced.len() as i64;
    let mut places = vec![];
    for (at, axis) in (0..).zip(&sliced) {
        let length = a.slice_sizes[*axis as usize];
        // Behind it are the steps of the axes that follow.
        let behind: Vec<i64> = (1..count - at).collect();
        let steps = unsqueezed(b, counted(b, scalar(length, Int64))?, &behind)?;
        let place = match a.start_index_map.iter().position(|mapped| mapped == axis) {
            None => steps,
            Some(column) => {
                let start = b.gather(starts, column as i64).axis(batch).one()?;
                let start = clamped(b, start, size(b, a.operand, *axis as usize)?, length)?;
                let apart: Vec<i64> = (batch..batch + count).collect();
                b.add(unsqueezed(b, start, &apart)?, steps)?
            }
        };
        places.push(place);
    }
    let shape = b.concat([
        b.shape(starts).end(batch).one()?,
        b.constant(onnxd_plugin_sdk::ir::Tensor::vector(
            sliced.iter().map(|axis| a.slice_sizes[*axis as usize]).collect::<Vec<i64>>(),
        )),
    ]);
    let shape = shape.axis(0).one()?;
    let full = |place: Var| b.unsqueeze(b.expand(place, shape)?, [-1]);
    let places = places.into_iter().map(full).collect::<Lowered<Vec<_>>>()?;
    let x = transposed(b, a.operand, &[&sliced[..], &whole_axes].concat())?;
    let y = b.gather_nd(x, b.concat(places).axis(-1).one()?).one()?;
    // The axes of a slice without those that are left out, in the order of the operand.
    let order: Vec<i64> = [&sliced[..], &whole_axes].concat();
    let gone: Vec<i64> = (batch..)
        .zip(&order)
        .filter(|(_, axis)| a.collapsed_slice_dims.contains(axis))
        .map(|(at, _)| at)
        .collect();
    let y = if gone.is_empty() { y } else { b.squeeze(y).axes(gone).one()? };
    let kept: Vec<i64> =
        order.into_iter().filter(|axis| !a.collapsed_slice_dims.contains(axis)).collect();
    let mut sorted = kept.clone();
    sorted.sort_unstable();
    let total = batch + kept.len() as i64;
    let mut to = others(b, total, &a.offset_dims)?;
    for axis in &kept {
        let place =
            sorted.iter().position(|other| other == axis).and_then(|at| a.offset_dims.get(at));
        to.extend(place);
    }
    let from: Vec<i64> = (0..total).collect();
    transposed(b, y, &moved(b, &from, &to)?)
}

/// Starts at which `length` elements lie within an axis.
fn clamped(b: &GraphBuilder, start: Var, size: DimSize, length: i64) -> Lowered<Var> {
    let zero = b.constant(scalar(0, Int64));
    let last = match size {
        DimSize::Known(n) => b.constant(scalar(n - length, Int64)),
        DimSize::Computed(v) => b.sub(v, length)?,
    };
    b.min([b.max([start, zero])?, last])
}

/// Updates of whole slices, or of single elements.
fn scatter(b: &Lower, a: Scatter) -> Lowered<Var> {
    let n = rank(b, a.operand)? as i64;
    let indices = vectors(b, a.indices, a.index_vector_dim)?;
    let mut inserted = a.inserted_window_dims.clone();
    let mut mapped = a.scatter_dims_to_operand_dims.clone();
    inserted.sort_unstable();
    mapped.sort_unstable();
    let rest = others(b, n, &a.scatter_dims_to_operand_dims)?;
    let (batch, window) = (rank(b, indices)? as i64 - 1, a.update_window_dims.len());
    let windows = rest.iter().zip(&a.update_window_dims).all(|(axis, at)| {
        let size =
            |v: Var, axis: i64| super::size_of(b, v, usize::try_from(axis).unwrap_or(usize::MAX));
        size(a.operand, *axis).is_some() && size(a.operand, *axis) == size(a.updates, *at)
    });
    refuse!(inserted != mapped || window != rest.len() || !windows =>
        b.unsupported("Updates of parts of slices have no counterpart in ONNX."));
    let reduction = match a.body.as_str() {
        "" => None,
        body => Some(match Meeting::parse(b, body)? {
            Meeting::Add => "add",
            Meeting::Mul => "mul",
            Meeting::Min | Meeting::And => "min",
            Meeting::Max | Meeting::Or => "max",
        }),
    };
    dtype_of(b, a.operand)?;
    let total = batch + window as i64;
    let updates = [others(b, total, &a.update_window_dims)?, a.update_window_dims].concat();
    let order = [a.scatter_dims_to_operand_dims, rest].concat();
    let x = transposed(b, a.operand, &order)?;
    let y = scattered(b, [x, indices, transposed(b, a.updates, &updates)?], reduction)?;
    transposed(b, y, &moved(b, &(0..n).collect::<Vec<_>>(), &order)?)
}
