//! Replacing elements by index.

use super::gather::{places, tuples};
use crate::call::{KernelCall, one, rounded, widened};
use crate::cells::{CellWidth, celled};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::num::{Num, numeric, slice};
use onnxd_diagnostics::refuse;
use onnxd_ir::Tensor;

/// Writes runs of `updates` at `starts` into a copy of `x`, reduced with what is there as the node
/// says.
fn scattered(call: &KernelCall, starts: &[usize], run: usize) -> Outcome<Vec<Tensor>> {
    let (x, updates) = (call.x(0)?, call.x(2)?);
    refuse!(updates.dtype() != x.dtype() || updates.len() != starts.len() * run =>
        "updates {updates:?} do not fit {x:?}");
    call.room_like(x, x.dims())?;
    let reduction = call.string("reduction", "none")?;
    if reduction == "none" {
        return celled!(x.dtype(), T => {
            let mut cells = <T as CellWidth>::load(x).into_owned();
            let new = <T as CellWidth>::load(updates);
            for (n, start) in starts.iter().enumerate() {
                cells[*start..start + run].clone_from_slice(&new[n * run..(n + 1) * run]);
            }
            one(<T as CellWidth>::store(x.dtype(), x.dims().to_vec(), cells)?)
        });
    }
    let (old, new) = (widened(x)?, widened(updates)?);
    let y: Tensor = numeric!(old.dtype(), T => {
        let f: fn(T, T) -> T = match reduction {
            "add" => T::plus,
            "mul" => T::times,
            "max" => T::larger,
            "min" => T::smaller,
            other => return Err(Fault::invalid(format!("reduction `{other}` is not defined"))),
        };
        let (mut cells, new) = (slice::<T>(&old)?.into_owned(), slice::<T>(&new)?);
        for (n, start) in starts.iter().enumerate() {
            let updates = &new[n * run..(n + 1) * run];
            cells[*start..start + run].iter_mut().zip(updates).for_each(|(c, u)| *c = f(*c, *u));
        }
        Ok(Tensor::from_vec(x.dims(), cells))
    })?;
    one(rounded(&y, x.dtype())?)
}

pub(super) fn scatter_elements(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, indices) = (call.x(0)?, call.x(1)?);
    let axis = dims::axis(call.int("axis", 0)?, x.rank())?;
    refuse!(indices.dims() != call.x(2)?.dims() => "indices and updates differ in shape");
    scattered(call, &places(indices, x.dims(), axis)?, 1)
}

pub(super) fn scatter_nd(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, indices) = (call.x(0)?, call.x(1)?);
    let starts = tuples(indices, x.dims(), 0)?;
    let tuple = indices.dims().last().copied().unwrap_or(0);
    scattered(call, &starts, x.dims()[tuple..].iter().product())
}
