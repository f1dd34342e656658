//! Operators that only name the axes anew or change their order.

use crate::call::{KernelCall, integers, one};
use crate::cells::transposed;
use crate::dims;
use crate::fault::{Fault, Outcome};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// `0` copies the input's size (unless `allowzero`), `-1` takes what is left.
pub(super) fn reshape(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let shape = call
        .ints_moved("shape", 1)?
        .ok_or_else(|| Fault::invalid("the shape to take is missing"))?;
    let misfit = || Fault::invalid(format!("{x:?} cannot take the shape {shape:?}"));
    let keep_zero = call.flag("allowzero", false)?;
    let mut sizes = Vec::with_capacity(shape.len());
    let mut open = None;
    for (i, n) in shape.iter().enumerate() {
        sizes.push(match n {
            -1 if open.replace(i).is_some() => return Err(misfit()),
            -1 => 1,
            0 if !keep_zero => *x.dims().get(i).ok_or_else(misfit)?,
            n => usize::try_from(*n).map_err(|_| misfit())?,
        });
    }
    if let Some(i) = open {
        let known_count = dims::count(&sizes).ok_or_else(misfit)?;
        refuse!(known_count == 0 || x.len() % known_count != 0 => misfit());
        sizes[i] = x.len() / known_count;
    }
    one(x.reshaped(sizes).map_err(|_| misfit())?)
}

pub(super) fn flatten(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axis = call.int("axis", 1)?;
    let axis = match axis == x.rank() as i64 {
        true => x.rank(),
        false => dims::axis(axis, x.rank())?,
    };
    let (outer, inner) = x.dims().split_at(axis);
    one(x.reshaped([outer.iter().product(), inner.iter().product::<usize>()])?)
}

pub(super) fn transpose(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let perm = match call.ints("perm")? {
        Some(perm) => perm.iter().map(|a| dims::axis(*a, x.rank())).collect::<Outcome<Vec<_>>>()?,
        None => (0..x.rank()).rev().collect(),
    };
    let mut sorted = perm.clone();
    sorted.sort_unstable();
    refuse!(!sorted.into_iter().eq(0..x.rank()) => "perm {perm:?} is no order of the axes of {x:?}");
    one(call.moved(|| x.permuted(&perm), || transposed(x, &perm))?)
}

pub(super) fn squeeze(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axes = match call.ints_moved("axes", 1)? {
        Some(axes) => dims::axes(&axes, x.rank())?,
        None => (0..x.rank()).filter(|a| x.dims()[*a] == 1).collect(),
    };
    refuse!(let Some(axis) = axes.iter().find(|a| x.dims()[**a] != 1) => "axis {axis} of {x:?} is not of size 1");
    let kept = (0..x.rank()).filter(|a| !axes.contains(a)).map(|a| x.dims()[a]);
    one(x.reshaped(kept.collect::<Vec<_>>())?)
}

pub(super) fn unsqueeze(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axes = call.ints_moved("axes", 1)?.ok_or_else(|| Fault::invalid("the axes are missing"))?;
    let axes = dims::axes(&axes, x.rank() + axes.len())?;
    let mut sizes = x.dims().to_vec();
    axes.into_iter().for_each(|a| sizes.insert(a, 1));
    one(x.reshaped(sizes)?)
}

/// The sizes from `start` to `end`.
pub(super) fn shape(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let rank = x.rank() as i64;
    let clamp = |at: i64| {
        let at = if at < 0 { at.saturating_add(rank) } else { at };
        at.clamp(0, rank) as usize
    };
    let start = clamp(call.int("start", 0)?);
    let end = clamp(call.int("end", rank)?);
    let sizes = x.dims().get(start..end).unwrap_or_default();
    one(Tensor::vector(sizes.iter().map(|d| *d as i64).collect()))
}

pub(super) fn size(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    one(Tensor::scalar(call.x(0)?.len() as i64))
}

fn blocked<'a>(call: &KernelCall<'a>) -> Outcome<(&'a Tensor, [usize; 4], usize)> {
    let x = call.x(0)?;
    let block = usize::try_from(call.int("blocksize", 0)?).unwrap_or(0);
    match x.dims() {
        [n, c, h, w] if block > 0 => Ok((x, [*n, *c, *h, *w], block)),
        _ => Err(Fault::invalid(format!("{x:?} with blocksize {block}"))),
    }
}

/// Moves channels into blocks of `blocksize` times `blocksize` elements.
pub(super) fn depth_to_space(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, [n, c, h, w], b) = blocked(call)?;
    let area = b.checked_mul(b).filter(|area| c % area == 0);
    let area = area.ok_or_else(|| Fault::invalid(format!("{c} channels do not fill blocks")))?;
    let out = c / area;
    let y = match call.string("mode", "DCR")? {
        "DCR" => transposed(&x.reshaped([n, b, b, out, h, w])?, &[0, 3, 4, 1, 5, 2])?,
        "CRD" => transposed(&x.reshaped([n, out, b, b, h, w])?, &[0, 1, 4, 2, 5, 3])?,
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    };
    one(y.reshaped([n, out, h * b, w * b])?)
}

/// The inverse of `DepthToSpace`; before opset 28 always of its mode DCR.
pub(super) fn space_to_depth(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, [n, c, h, w], b) = blocked(call)?;
    refuse!(h % b != 0 || w % b != 0 => "{x:?} does not divide into blocks of {b}");
    let split = x.reshaped([n, c, h / b, b, w / b, b])?;
    let order = match call.string("mode", "DCR")? {
        "DCR" => [0, 3, 5, 1, 2, 4],
        "CRD" => [0, 1, 3, 5, 2, 4],
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    };
    one(transposed(&split, &order)?.reshaped([n, c * b * b, h / b, w / b])?)
}

/// Integers of an input that lists sizes.
pub(super) fn size_list(call: &KernelCall, i: usize) -> Outcome<Vec<usize>> {
    dims::sizes(&integers(call.x(i)?)?)
}
