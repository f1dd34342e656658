//! Elements at places that tensors name.

use super::compare::select;
use super::dtype::{dtype_of, operand};
use super::indices::{vector, whole};
use super::layout::permuted;
use super::scatter::scattered_nd;
use super::shape::{TargetSize, expanded, expanded_as, reshaped, same_shape};
use super::sizes::{self as of, axis, rank, size};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Bool, Uint8};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::index" | "aten::_unsafe_index" => |b, input: Var, indices: Vec<Value>| indexed(b, input, &indices);
        "aten::index_put" | "aten::_unsafe_index_put" | "aten::_index_put_impl" => index_put;
        "aten::_unsafe_masked_index" => |b, input: Var, mask: Var, indices: Vec<Value>, fill: Value| {
            let found = indexed(b, input, &masked_to_zero(b, mask, &indices)?)?;
            let fill = operand(b, &fill, dtype_of(b, found)?)?;
            select(b, mask, found, fill)
        };
        "aten::_unsafe_masked_index_put_accumulate" => |b, input: Var, mask: Var, indices: Vec<Value>, values: Var| {
            let zero = operand(b, &Value::Int(0), dtype_of(b, values)?)?;
            let values = select(b, mask, values, zero)?;
            let indices = masked_to_zero(b, mask, &indices)?;
            index_put(b, IndexPut { input, indices, values, accumulate: true })
        };
        "aten::index_select" => index_select(input, dim, index);
        "aten::gather" => gather(input, dim, index, sparse_grad);
        "aten::take" => |b, input: Var, index: Var| b.gather(flat(b, input)?, whole(b, index)?).one();
        "aten::take_along_dim" => take_along_dim;
        "aten::put" => put(input, index, source, accumulate);
    }
}

arguments! {
    struct IndexPut { input: Var, indices: Vec<Value>, values: Var, accumulate: bool }
    struct TakeAlong { input: Var, indices: Var, dim: Option<i64> }
}

/// Indices where a mask holds, and 0 elsewhere.
fn masked_to_zero(b: &Lower, mask: Var, indices: &[Value]) -> Lowered<Vec<Value>> {
    let zero = b.constant(Tensor::scalar(0i64));
    let masked = |index: &Value| match index {
        Value::Var(v) => Ok(Value::Var(b.where_(mask, whole(b, *v)?, zero)?)),
        other => Ok(other.clone()),
    };
    indices.iter().map(masked).collect()
}

fn flat(b: &Lower, x: Var) -> Lowered<Var> {
    reshaped(b, x, vec![(-1).into()])
}

fn is_mask(b: &Lower, index: Var) -> bool {
    matches!(b.dtype_of(index), Some(Bool | Uint8))
}

/// What the entries of an index pick: for each axis of the tensor a tensor of integers, or all of it.
fn picked(b: &Lower, x: Var, indices: &[Value]) -> Lowered<Vec<Option<Var>>> {
    let mut picked = vec![];
    for index in indices {
        match index {
            Value::Var(v) if is_mask(b, *v) => {
                let places = b.non_zero(b.cast(*v, Bool)?)?;
                for i in 0..rank(b, *v)? as i64 {
                    picked.push(Some(b.gather(places, i).axis(0).one()?));
                }
            }
            Value::Var(v) => picked.push(Some(whole(b, *v)?)),
            _ => picked.push(None),
        }
    }
    let rank = rank(b, x)?;
    if picked.len() > rank {
        let message = format!("{} indices for a tensor of {rank} axes.", picked.len());
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    picked.resize(rank, None);
    Ok(picked)
}

/// The only entry, if it is a mask, and the axis where it begins.
fn only_mask(b: &Lower, indices: &[Value]) -> Option<(usize, Var)> {
    let mut entries = indices.iter().enumerate().filter(|(_, index)| **index != Value::None);
    let (at, only) = entries.next()?;
    match (only, entries.next()) {
        (Value::Var(mask), None) if is_mask(b, *mask) => Some((at, *mask)),
        _ => None,
    }
}

fn indexed(b: &Lower, x: Var, indices: &[Value]) -> Lowered<Var> {
    if let Some((at, mask)) = only_mask(b, indices) {
        return compressed(b, x, at, mask);
    }
    let picked = picked(b, x, indices)?;
    let axes: Vec<usize> = (0..picked.len()).filter(|i| picked[*i].is_some()).collect();
    let tensors: Vec<Var> = picked.into_iter().flatten().collect();
    match (axes.as_slice(), tensors.as_slice()) {
        ([], _) => Ok(x),
        ([axis], [index]) => b.gather(x, *index).axis(*axis as i64).one(),
        _ => {
            let places = places(b, &tensors)?;
            let count = rank(b, places)? - 1;
            let front = permuted(b, x, &axes_first(&axes, rank(b, x)?))?;
            let found = b.gather_nd(front, places).one()?;
            permuted(b, found, &to_place(&axes, rank(b, x)?, count))
        }
    }
}

/// The elements of `x` where `mask` holds, whose axes are those of `x` from `at` on.
fn compressed(b: &Lower, x: Var, at: usize, mask: Var) -> Lowered<Var> {
    let (all, n) = (rank(b, x)?, rank(b, mask)?);
    let mask = b.cast(mask, Bool)?;
    match n {
        0 => {
            let mask = b.unsqueeze(mask, [0])?;
            b.compress(b.unsqueeze(x, [at as i64])?, mask).axis(at as i64).one()
        }
        1 if all == 1 => b.compress(x, mask).axis(0).one(),
        1 => b.compress(x, mask).axis(at as i64).one(),
        n if n == all => b.compress(x, flat(b, mask)?).one(),
        n => {
            let merged = of::count((at..at + n).map(|i| of::known_size(b, x, i)));
            let front = (0..at).map(TargetSize::Same);
            let back = (at + n..all).map(TargetSize::Same);
            let sizes = front.chain([merged.unwrap_or(-1).into()]).chain(back).collect();
            b.compress(reshaped(b, x, sizes)?, flat(b, mask)?).axis(at as i64).one()
        }
    }
}

/// Index tensors broadcast together, side by side along a new last axis.
fn places(b: &Lower, tensors: &[Var]) -> Lowered<Var> {
    if let Some(constant) = constant_places(b, tensors) {
        return Ok(b.constant(constant));
    }
    let mut all = tensors.iter().copied();
    let first = all.next().ok_or_else(|| b.diagnostic(Code::LayerParameter, "No index."))?;
    let together = all.try_fold(first, |so_far, x| match same_shape(b, so_far, x) {
        true => Ok(so_far),
        false => b.expand(so_far, b.shape(x).one()?),
    })?;
    let last = rank(b, together)? as i64;
    let column = |x: &Var| b.unsqueeze(expanded_as(b, *x, together)?, [last]);
    let columns = tensors.iter().map(column).collect::<Lowered<Vec<_>>>()?;
    if columns.len() == 1 { Ok(columns[0]) } else { b.concat(columns).axis(last).one() }
}

/// As [`places`], of constants of one shape.
fn constant_places(b: &Lower, tensors: &[Var]) -> Option<Tensor> {
    let constants = tensors.iter().map(|x| b.constant_of(*x)).collect::<Option<Vec<_>>>()?;
    let dims = constants.first()?.dims().to_vec();
    if constants.iter().any(|tensor| tensor.dims() != dims) {
        return None;
    }
    let columns = constants.iter().map(Tensor::to_i64s).collect::<Option<Vec<_>>>()?;
    let count = columns.first()?.len();
    let items = (0..count).flat_map(|i| columns.iter().map(move |column| column[i]));
    let dims: Vec<usize> = dims.into_iter().chain([tensors.len()]).collect();
    Some(Tensor::from_vec(dims, items.collect::<Vec<i64>>()))
}

/// The order of axes in which those that are indexed come first.
fn axes_first(axes: &[usize], rank: usize) -> Vec<usize> {
    let others = (0..rank).filter(|axis| !axes.contains(axis));
    axes.iter().copied().chain(others).collect()
}

/// Moves the `count` axes of the indices to where torch has them: at the first axis that is indexed, if those are
/// neighbours, else at the front.
fn to_place(axes: &[usize], rank: usize, count: usize) -> Vec<usize> {
    let neighbours = axes.windows(2).all(|pair| pair[1] == pair[0] + 1);
    let before = if neighbours { axes[0] } else { 0 };
    let others = rank - axes.len();
    let from_others = |i| count + i;
    (0..before).map(from_others).chain(0..count).chain((before..others).map(from_others)).collect()
}

fn index_put(b: &Lower, a: IndexPut) -> Lowered<Var> {
    let values = b.cast(a.values, dtype_of(b, a.input)?)?;
    if let Some((at, mask)) = only_mask(b, &a.indices)
        && let Some(done) = put_where(b, a.input, at, mask, values, a.accumulate)?
    {
        return Ok(done);
    }
    let picked = picked(b, a.input, &a.indices)?;
    let rank_of_x = picked.len();
    let axes: Vec<usize> = (0..rank_of_x).filter(|i| picked[*i].is_some()).collect();
    let tensors: Vec<Var> = picked.into_iter().flatten().collect();
    if axes.is_empty() {
        let values = expanded_as(b, values, a.input)?;
        return if a.accumulate { b.add(a.input, values) } else { Ok(values) };
    }
    let places = places(b, &tensors)?;
    let count = rank(b, places)? - 1;
    let order = axes_first(&axes, rank_of_x);
    let front = permuted(b, a.input, &order)?;
    // The values have the shape of what the index picks.
    let placed = to_place(&axes, rank_of_x, count);
    let missing = placed.len().saturating_sub(rank(b, values)?) as i64;
    let values = match missing {
        0 => values,
        n => b.unsqueeze(values, (0..n).collect::<Vec<_>>())?,
    };
    let values = permuted(b, values, &inverse(&placed))?;
    let mut sizes = (0..count).map(|i| size(b, places, i)).collect::<Lowered<Vec<_>>>()?;
    for i in axes.len()..rank_of_x {
        sizes.push(size(b, front, i)?);
    }
    let updates = expanded(b, values, &sizes)?;
    let written = scattered_nd(b, front, places, updates, combined(a.accumulate))?;
    permuted(b, written, &inverse(&order))
}

fn combined(accumulate: bool) -> &'static str {
    if accumulate { "add" } else { "none" }
}

pub(crate) fn inverse(order: &[usize]) -> Vec<usize> {
    let mut inverse = vec![0; order.len()];
    order.iter().enumerate().for_each(|(i, axis)| inverse[*axis] = i);
    inverse
}

/// Writes values where a mask holds, if they are the same at all its places.
fn put_where(
    b: &Lower,
    x: Var,
    at: usize,
    mask: Var,
    values: Var,
    accumulate: bool,
) -> Lowered<Option<Var>> {
    let (all, n, own) = (rank(b, x)?, rank(b, mask)?, rank(b, values)?);
    let after = all.saturating_sub(at + n);
    let single = b.dims_of(values).is_some_and(|dims| dims.iter().all(|n| *n == 1));
    if (own > after && !single) || own > all {
        return Ok(None);
    }
    let mask = b.cast(mask, Bool)?;
    let mask = match after {
        0 => mask,
        after => b.unsqueeze(mask, (n as i64..(n + after) as i64).collect::<Vec<_>>())?,
    };
    let values = if accumulate { b.add(x, values)? } else { values };
    select(b, mask, values, x).map(Some)
}

fn index_select(b: &Lower, input: Var, dim: i64, index: Var) -> Lowered<Var> {
    if rank(b, input)? == 0 {
        return Ok(input);
    }
    let index = vector(b, index)?;
    b.gather(input, index).axis(axis(b, input, dim)? as i64).one()
}

fn gather(b: &Lower, input: Var, dim: i64, index: Var, _sparse_grad: bool) -> Lowered<Var> {
    let at = axis(b, input, dim)? as i64;
    let index = whole(b, index)?;
    match (rank(b, input)?, rank(b, index)?) {
        (0, _) => expanded_as(b, input, index),
        (_, 0) => b.gather(input, index).axis(at).one(),
        _ => b.gather_elements(input, index).axis(at).one(),
    }
}

fn take_along_dim(b: &Lower, a: TakeAlong) -> Lowered<Var> {
    let index = whole(b, a.indices)?;
    let Some(dim) = a.dim else {
        return b.gather(flat(b, a.input)?, flat(b, index)?).one();
    };
    let at = axis(b, a.input, dim)?;
    let fits = |i: usize| {
        let sizes = [a.input, index].map(|x| b.shape_of(x).and_then(|s| s.get(i).cloned()));
        matches!(&sizes, [Some(one), Some(other)] if one.same(other))
    };
    if (0..rank(b, a.input)?).all(|i| i == at || fits(i)) {
        return b.gather_elements(a.input, index).axis(at as i64).one();
    }
    let (mut of_x, mut of_index) = (of::sizes(b, a.input)?, of::sizes(b, index)?);
    (of_x[at], of_index[at]) = (Value::Int(1), Value::Int(1));
    let (x, index) = (expanded(b, a.input, &of_index)?, expanded(b, index, &of_x)?);
    b.gather_elements(x, index).axis(at as i64).one()
}

fn put(b: &Lower, input: Var, index: Var, source: Var, accumulate: bool) -> Lowered<Var> {
    let source = b.cast(flat(b, source)?, dtype_of(b, input)?)?;
    let places = b.unsqueeze(flat(b, whole(b, index)?)?, [1])?;
    let whole = flat(b, input)?;
    let written = scattered_nd(b, whole, places, source, combined(accumulate))?;
    reshaped(b, written, super::shape::values(of::sizes(b, input)?))
}
