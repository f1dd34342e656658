//! Joining, dividing and repeating tensors.

use super::layout::size_list;
use super::slice::{sliced, whole};
use crate::call::{KernelCall, one};
use crate::cells::{expanded, joined, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

pub(super) fn concat(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let all = call.all()?;
    let default = if call.opset < 4 { Some(1) } else { None };
    let axis = call.int_opt("axis")?.or(default);
    let axis = axis.ok_or_else(|| Fault::invalid("attribute `axis` is missing"))?;
    let axis = dims::axis(axis, all[0].rank())?;
    let total: usize = all.iter().map(|x| x.byte_len()).fold(0, usize::saturating_add);
    refuse!(total > call.bytes_max => Fault::memory(format!("the result exceeds {} bytes", call.bytes_max)));
    let parts = || all.iter().map(|x| (*x).clone()).collect::<Vec<_>>();
    one(call.moved(|| Tensor::concat(&parts(), axis), || joined(&all, axis))?)
}

/// Sizes from the attribute or input `split`, or even parts of which the last may be smaller.
pub(super) fn split(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    let size = x.dims()[axis];
    let parts = match call.ints_moved("split", 1)? {
        Some(parts) => dims::sizes(&parts)?,
        None => {
            let count = call.int("num_outputs", call.node.outputs.len() as i64)?;
            let count = usize::try_from(count).unwrap_or(0).max(1);
            refuse!(count > size.max(call.node.outputs.len()) => "{x:?} cannot be split into {count} parts");
            let part = size.div_ceil(count);
            (0..count).map(|i| part.min(size.saturating_sub(i * part))).collect()
        }
    };
    refuse!(parts.iter().copied().fold(0, usize::saturating_add) != size =>
        "parts {parts:?} do not add up to {size}");
    let (mut start, mut tables) = (0, whole(x.dims()));
    parts
        .iter()
        .map(|part| {
            tables[axis] = (start..start + part).collect();
            start += part;
            call.moved(|| sliced(x, &tables), || take(x, &tables, None))
        })
        .collect()
}

pub(super) fn expand(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let dims = dims::broadcast(x.dims(), &size_list(call, 1)?)?;
    call.room_like(x, &dims)?;
    one(expanded(x, &dims)?)
}

/// Repeats every axis; before opset 6 one axis, named by an input.
pub(super) fn tile(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let repeats = match call.opset < 6 {
        true => {
            let mut repeats = vec![1; x.rank()];
            let axis = crate::call::scalar(call.x(2)?)? as i64;
            repeats[dims::axis(axis, x.rank())?] =
                dims::size(crate::call::scalar(call.x(1)?)? as i64)?;
            repeats
        }
        false => size_list(call, 1)?,
    };
    refuse!(repeats.len() != x.rank() => "repeats {repeats:?} do not fit {x:?}");
    let overflow = || Fault::memory("the size overflows");
    let dims = x.dims().iter().zip(&repeats).map(|(d, r)| d.checked_mul(*r).ok_or_else(overflow));
    let dims = dims.collect::<Outcome<Vec<_>>>()?;
    call.room_like(x, &dims)?;
    if dims.contains(&0) {
        return one(take(x, &dims.iter().map(|d| vec![0; *d.min(&1)]).collect::<Vec<_>>(), None)?
            .reshaped(dims)?);
    }
    let table = |(d, size): (&usize, &usize)| (0..*size).map(|i| i % d).collect();
    let tables: Vec<Vec<usize>> = x.dims().iter().zip(&dims).map(table).collect();
    one(take(x, &tables, None)?)
}
