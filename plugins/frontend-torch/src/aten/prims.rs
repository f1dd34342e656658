//! Primitive operators that exported programs are decomposed into: those that make and arrange tensors.

use super::layout::{flipped, permuted};
use super::shape::{TargetSize, expanded, reshaped, values, without_axes};
use super::sizes::{self as of, axes, rank, wrapped};
use super::{Lower, RowContext, create, dtype, join};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "prims::broadcast_in_dim" => broadcast_in_dim;
        "prims::cat" => |b, tensors: Vec<Var>, dim: i64| join::joined(b, tensors, dim);
        "prims::collapse" | "prims::collapse_view" => collapse;
        "prims::split_dim" => split_dim;
        "prims::squeeze" => |b, a: Squeeze| {
            without_axes(b, a.a, axes(b, a.a, &a.dimensions)?.into_iter().map(|x| x as i64).collect())
        };
        "prims::transpose" => |b, a: Transpose| permuted(b, a.a, &axes(b, a.a, &a.permutation)?);
        "prims::rev" => |b, a: Reverse| flipped(b, a.a, axes(b, a.a, &a.dims)?);
        "prims::full" => |b, a: Full| create::filled(b, &a.shape, &a.fill_value, dtype::named(b, a.dtype)?);
        "prims::empty" | "prims::empty_permuted" | "prims::empty_strided" => |b, a: Empty| {
            create::filled(b, &a.shape, &Value::Int(0), dtype::named(b, a.dtype)?)
        };
        "prims::full_like" => |b, a: FullLike| {
            create::filled(b, &of::sizes(b, a.a)?, &a.fill_value, dtype::named(b, a.dtype)?)
        };
        "prims::iota" => iota(length, start, step, dtype);
    }
}

arguments! {
    struct Broadcast { a: Var, shape: Vec<Value>, broadcast_dimensions: Vec<i64> }
    struct Collapse { a: Var, start: i64, end: i64 }
    struct SplitDim { a: Var, dim: i64, outer_length: Value }
    struct Squeeze { a: Var, dimensions: Vec<i64> }
    struct Transpose { a: Var, permutation: Vec<i64> }
    struct Reverse { a: Var, dims: Vec<i64> }
    struct Full { shape: Vec<Value>, fill_value: Value, dtype: i64 }
    struct Empty { shape: Vec<Value>, dtype: i64, strides: Option<Value>, physical_layout: Option<Value> }
    struct FullLike { a: Var, fill_value: Value, dtype: i64 }
}

/// The axes of `a` become the axes `broadcast_dimensions` of the result.
fn broadcast_in_dim(b: &Lower, a: Broadcast) -> Lowered<Var> {
    let new = (0..a.shape.len() as i64).filter(|axis| !a.broadcast_dimensions.contains(axis));
    let new: Vec<i64> = new.collect();
    let x = if new.is_empty() { a.a } else { b.unsqueeze(a.a, new)? };
    expanded(b, x, &a.shape)
}

/// Axes from `start` to `end` become one.
fn collapse(b: &Lower, a: Collapse) -> Lowered<Var> {
    let rank = rank(b, a.a)?;
    let (start, end) = (wrapped(b, a.start, rank)?, wrapped(b, a.end, rank)?);
    if start >= end {
        return Ok(a.a);
    }
    let merged = of::count((start..=end).map(|axis| of::known_size(b, a.a, axis)));
    let after = (end + 1..rank).map(TargetSize::Same);
    let merged = [TargetSize::from(merged.unwrap_or(-1))];
    reshaped(b, a.a, (0..start).map(TargetSize::Same).chain(merged).chain(after).collect())
}

fn split_dim(b: &Lower, a: SplitDim) -> Lowered<Var> {
    let at = of::axis(b, a.a, a.dim)?;
    let mut sizes = of::sizes(b, a.a)?;
    let inner = of::over(b, &sizes[at], &a.outer_length)?;
    sizes.splice(at..=at, [a.outer_length, inner]);
    reshaped(b, a.a, values(sizes))
}

/// As many numbers, from `start` in steps.
fn iota(b: &Lower, length: Value, start: Value, step: Value, dtype: i64) -> Lowered<Var> {
    let end = of::plus(b, &start, &of::times(b, &length, &step)?)?;
    create::arange(b, Some(start), end, Some(step), Some(dtype))
}
