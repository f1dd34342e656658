//! Positions of the extremes along an axis.

use crate::call::{KernelCall, one, scalar};
use crate::dims;
use crate::fault::Outcome;
use crate::num::{Num, is_nan, numeric};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::cmp::Ordering;

/// NaN counts as larger than everything.
fn order<T: Num>(a: T, b: T) -> Ordering {
    a.partial_cmp(&b).unwrap_or_else(|| is_nan(a).cmp(&is_nan(b)))
}

pub(super) fn arg_max(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    arg(call, Ordering::Greater)
}

pub(super) fn arg_min(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    arg(call, Ordering::Less)
}

fn arg(call: &KernelCall, better: Ordering) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    let (outer, size, inner) = dims::around(x.dims(), axis);
    let last = call.flag("select_last_index", false)?;
    let mut out_dims = x.dims().to_vec();
    out_dims[axis] = 1;
    if !call.flag("keepdims", true)? {
        out_dims.remove(axis);
    }
    refuse!(size == 0 && outer * inner > 0 => "axis {axis} of {x:?} is empty");
    call.room(DataType::Int64, &out_dims)?;
    numeric!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let lines_along_axis = (0..outer).flat_map(|o| (0..inner).map(move |i| o * size * inner + i));
        let best = lines_along_axis.map(|first| {
            let at = |k: usize| values[first + k * inner];
            (1..size).fold(0, |best, k| match order(at(k), at(best)) {
                lines_along_axis if lines_along_axis == better => k,
                Ordering::Equal if last => k,
                _ => best,
            }) as i64
        });
        one(Tensor::from_vec(out_dims, best.collect()))
    })
}

/// The `k` largest or smallest elements along an axis, of equals the first ones.
pub(super) fn top_k(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let axis = dims::axis(call.int("axis", -1)?, x.rank())?;
    let k = match call.int_opt("k")? {
        Some(k) => k,
        None => scalar(call.x(1)?)? as i64,
    };
    let (outer, size, inner) = dims::around(x.dims(), axis);
    let k = dims::size(k)?;
    refuse!(k > size => "k = {k} exceeds the {size} elements of axis {axis}");
    let largest = call.flag("largest", true)?;
    let sorted = call.flag("sorted", true)?;
    let mut out_dims = x.dims().to_vec();
    out_dims[axis] = k;
    let total = call.room(DataType::Int64, &out_dims)?;
    numeric!(x.dtype(), T => {
        let values = call.slice::<T>(0)?;
        let (mut top, mut places) = (vec![T::default(); total], vec![0i64; total]);
        let mut ranked: Vec<usize> = Vec::new();
        for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
            let at = |n: usize| values[(o * size + n) * inner + i];
            ranked.clear();
            ranked.extend(0..size);
            first_places(&mut ranked, (k, sorted), &|a, b| match largest {
                true => order(at(b), at(a)),
                false => order(at(a), at(b)),
            });
            for (n, place) in ranked.iter().enumerate() {
                let target = (o * k + n) * inner + i;
                (top[target], places[target]) = (at(*place), *place as i64);
            }
        }
        Ok(vec![Tensor::from_vec(out_dims.clone(), top), Tensor::from_vec(out_dims, places)])
    })
}

/// Leaves the first `k` places in the order `order`, or in that of the places if they are not to be sorted.
fn first_places(
    places: &mut Vec<usize>,
    (k, sorted): (usize, bool),
    order: &dyn Fn(usize, usize) -> Ordering,
) {
    places.sort_by(|a, b| order(*a, *b));
    places.truncate(k);
    if !sorted {
        places.sort_unstable();
    }
}
