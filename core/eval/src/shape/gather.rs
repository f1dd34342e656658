//! Picking elements by index.

use crate::call::{KernelCall, integers, one};
use crate::cells::{CellWidth, celled};
use crate::dims;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// Runs of `run` cells, taken in the order of `starts`.
fn blocks(x: &Tensor, starts: &[usize], run: usize, sizes: Vec<usize>) -> Outcome<Tensor> {
    let width = x.dtype().bits() / 8;
    if width > 0 {
        // Of a large table few rows are read, and it may lie anywhere in a file.
        let bytes = x.bytes();
        let mut out = Vec::with_capacity(starts.len() * run * width);
        for start in starts {
            out.extend_from_slice(&bytes[start * width..(start + run) * width]);
        }
        return Ok(Tensor::new(x.dtype(), sizes, out.into())?);
    }
    celled!(x.dtype(), T => {
        let cells = <T as CellWidth>::load(x);
        let mut out = Vec::with_capacity(starts.len() * run);
        for start in starts {
            out.extend_from_slice(&cells[*start..start + run]);
        }
        <T as CellWidth>::store(x.dtype(), sizes, out)
    })
}

pub(super) fn gather(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, indices) = (call.x(0)?, call.x(1)?);
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    let (outer, size, inner) = dims::around(x.dims(), axis);
    let sizes = [&x.dims()[..axis], indices.dims(), &x.dims()[axis + 1..]].concat();
    call.room_like(x, &sizes)?;
    let picked = integers(indices)?;
    let picked = picked.into_iter().map(|i| dims::index(i, size)).collect::<Outcome<Vec<_>>>()?;
    if sizes.contains(&0) {
        return one(blocks(x, &[], 0, sizes)?);
    }
    let start = |o: usize, i: &usize| (o * size + i) * inner;
    let starts: Vec<usize> =
        (0..outer).flat_map(|o| picked.iter().map(move |i| start(o, i))).collect();
    one(blocks(x, &starts, inner, sizes)?)
}

/// For every element of `indices`: the flat place in a tensor of sizes `sizes` whose coordinate on
/// `axis` is the element and whose others are the element's own.
pub(super) fn places(indices: &Tensor, sizes: &[usize], axis: usize) -> Outcome<Vec<usize>> {
    let fits = |(a, (i, s)): (usize, (&usize, &usize))| a == axis || i <= s;
    let all = indices.dims().iter().zip(sizes).enumerate().all(fits);
    refuse!(indices.rank() != sizes.len() || !all => "indices {indices:?} do not fit {sizes:?}");
    let (values, strides) = (integers(indices)?, dims::strides(sizes));
    let mut found = Vec::with_capacity(values.len());
    let mut wrong = Ok(());
    let mut next = values.into_iter();
    dims::for_each_index(indices.dims(), |at| {
        let Some(value) = next.next() else { return };
        match dims::index(value, sizes[axis]) {
            Ok(index) => found.push(
                at.iter()
                    .enumerate()
                    .map(|(a, i)| if a == axis { index } else { *i } * strides[a])
                    .sum(),
            ),
            Err(fault) => wrong = Err(fault),
        }
    });
    wrong.map(|()| found)
}

pub(super) fn gather_elements(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, indices) = (call.x(0)?, call.x(1)?);
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    call.room_like(x, indices.dims())?;
    one(blocks(x, &places(indices, x.dims(), axis)?, 1, indices.dims().to_vec())?)
}

/// For index tuples on the last axis of `indices`: the flat start of the slices they name in a
/// tensor of sizes `sizes`, the first `batch` axes being shared.
pub(super) fn tuples(indices: &Tensor, sizes: &[usize], batch: usize) -> Outcome<Vec<usize>> {
    let misfit = || Fault::invalid(format!("indices {indices:?} do not fit {sizes:?}"));
    let (tuple, outer) = indices.dims().split_last().ok_or_else(misfit)?;
    let shared = outer.get(..batch).is_some_and(|o| Some(o) == sizes.get(..batch));
    refuse!(!shared || batch + tuple > sizes.len() => misfit());
    let strides = dims::strides(sizes);
    let batches: usize = sizes[..batch].iter().product();
    let per_batch: usize = outer[batch..].iter().product();
    let area: usize = sizes[batch..].iter().product();
    let values = integers(indices)?;
    let mut found = Vec::with_capacity(batches * per_batch);
    for n in 0..batches * per_batch {
        let mut start = n / per_batch * area;
        for (k, value) in values[n * tuple..(n + 1) * tuple].iter().enumerate() {
            start += dims::index(*value, sizes[batch + k])? * strides[batch + k];
        }
        found.push(start);
    }
    Ok(found)
}

pub(super) fn gather_nd(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, indices) = (call.x(0)?, call.x(1)?);
    let batch = dims::size(call.int("batch_dims", 0)?)?;
    let starts = tuples(indices, x.dims(), batch)?;
    let (tuple, outer) =
        indices.dims().split_last().ok_or_else(|| Fault::invalid("indices have no axis"))?;
    let slice = &x.dims()[batch + tuple..];
    let sizes = [outer, slice].concat();
    call.room_like(x, &sizes)?;
    one(blocks(x, &starts, slice.iter().product(), sizes)?)
}
