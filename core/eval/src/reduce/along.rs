//! Running sums and products.

use crate::call::{KernelCall, one, scalar};
use crate::dims;
use crate::fault::Outcome;
use crate::num::{Num, numeric};
use onnxd_ir::Tensor;

/// Folds along the axis of input 1, keeping every intermediate result.
fn running<T: Num>(call: &KernelCall, start: T, f: fn(T, T) -> T) -> Outcome<Tensor> {
    let x = call.x(0)?;
    let (outer, size, inner) =
        dims::around(x.dims(), dims::axis(scalar(call.x(1)?)? as i64, x.rank())?);
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    let values = call.slice::<T>(0)?;
    let mut y = vec![start; values.len()];
    for first in (0..outer).flat_map(|o| (0..inner).map(move |i| o * size * inner + i)) {
        let mut sum = start;
        for k in 0..size {
            let at = first + if reverse { size - 1 - k } else { k } * inner;
            let next = f(sum, values[at]);
            y[at] = if exclusive { sum } else { next };
            sum = next;
        }
    }
    Ok(Tensor::from_vec(x.dims(), y))
}

pub(super) fn cum_sum(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => one(running(call, T::default(), T::plus)?))
}

pub(super) fn cum_prod(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    numeric!(call.x(0)?.dtype(), T => one(running(call, T::ONE, T::times)?))
}
