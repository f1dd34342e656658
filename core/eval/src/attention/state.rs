//! Operators that carry a state from one token to the next.

use crate::call::{KernelCall, integers, one};
use crate::cells::{CellWidth, celled, joined, take};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, sized, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// A depthwise convolution over the past `k` positions; gives the last `k - 1` for the next call.
pub(super) fn causal_conv_with_state(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, w) = (call.x(0)?, call.x(1)?);
    let misfit = || Fault::invalid(format!("{x:?} and weights {w:?} do not fit each other"));
    let ([batch, channels, length], [c, 1, k]) = (x.dims(), w.dims()) else {
        return Err(misfit());
    };
    let (batch, channels, length, k) = (*batch, *channels, *length, *k);
    refuse!(*c != channels || k == 0 => misfit());
    let smooth = match call.string("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(Fault::invalid(format!("activation `{other}` is not defined"))),
    };
    let past_dims = [batch, channels, k - 1];
    let room = call.room(DataType::Double, &past_dims)?;
    let past = match call.opt(3) {
        Some(past) if past.dims() == past_dims => past.clone(),
        Some(_) => return Err(misfit()),
        None => stored(x.dtype(), &past_dims, vec![0.0; room])?,
    };
    let padded = joined(&[&past, x], 2)?;
    let bias = match call.opt(2) {
        Some(bias) => sized(bias, &[channels], "the bias")?,
        None => vec![0.0; channels],
    };
    let (values, weights) = (reals(&padded)?, reals(w)?);
    let mut y = vec![0f64; call.room(DataType::Double, x.dims())?];
    let full = length + k - 1;
    for (at, out) in y.iter_mut().enumerate() {
        let (row, i) = (at / length, at % length);
        let kernel = &weights[row % channels * k..][..k];
        let seen = &values[row * full + i..][..k];
        let sum: f64 = kernel.iter().zip(seen).map(|(w, v)| w * v).sum();
        let sum = sum + bias[row % channels];
        *out = if smooth { sum / (1.0 + (-sum).exp()) } else { sum };
    }
    let last = [(0..batch).collect(), (0..channels).collect(), (length..full).collect()];
    Ok(vec![stored(x.dtype(), x.dims(), y)?, take(&padded, &last, None)?])
}

/// Writes an update into a cache along `axis`, from the index on that each batch names.
pub(super) fn tensor_scatter(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (cache, update) = (call.x(0)?, call.x(1)?);
    let axis = dims::axis(call.int("axis", -2)?, cache.rank())?;
    let circular = match call.string("mode", "linear")? {
        "linear" => false,
        "circular" => true,
        other => return Err(Fault::invalid(format!("mode `{other}` is not defined"))),
    };
    let (outer, size, inner) = dims::around(cache.dims(), axis);
    let mut expected = cache.dims().to_vec();
    expected[axis] = update.dims().get(axis).copied().unwrap_or(0);
    let steps = expected[axis];
    refuse!(axis == 0 || update.dims() != expected || steps > size || update.dtype() != cache.dtype() =>
        "{update:?} does not fit the cache {cache:?}");
    let batch = cache.dims()[0];
    let starts = call.opt(2).map(integers).transpose()?.unwrap_or_else(|| vec![0; batch]);
    refuse!(starts.len() != batch => "write_indices does not have one index per batch");
    celled!(cache.dtype(), T => {
        let mut cells = <T as CellWidth>::load(cache).into_owned();
        let new = <T as CellWidth>::load(update);
        for row in 0..if new.is_empty() { 0 } else { outer } {
            let start = starts[row * batch / outer];
            for step in 0..steps {
                let at = start.saturating_add(step as i64);
                let at = if circular { at.rem_euclid(size as i64) } else { at };
                let at = usize::try_from(at).ok().filter(|at| *at < size).ok_or_else(|| {
                    Fault::invalid(format!("index {at} is outside of a cache of {size}"))
                })?;
                cells[(row * size + at) * inner..][..inner]
                    .clone_from_slice(&new[(row * steps + step) * inner..][..inner]);
            }
        }
        one(<T as CellWidth>::store(cache.dtype(), cache.dims().to_vec(), cells)?)
    })
}
