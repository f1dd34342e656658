//! Rotary position embedding: pairs of elements are rotated by angles that depend on the position.

use crate::call::{KernelCall, integers, one};
use crate::dims::{index, size};
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};

/// Sizes of the input, and the distance between two positions and two heads.
struct Axes {
    batch: usize,
    positions: usize,
    heads: usize,
    size: usize,
    position_step: usize,
    head_step: usize,
}

fn axes(call: &KernelCall) -> Outcome<Axes> {
    let x = call.x(0)?;
    let heads = size(call.int("num_heads", 0)?)?;
    match *x.dims() {
        [batch, heads, positions, size] => {
            let (position_step, head_step) = (size, positions * size);
            Ok(Axes { batch, positions, heads, size, position_step, head_step })
        }
        [batch, positions, hidden] if heads > 0 && hidden % heads == 0 => {
            let size = hidden / heads;
            Ok(Axes { batch, positions, heads, size, position_step: hidden, head_step: size })
        }
        _ => Err(Fault::invalid(format!("{x:?} does not divide into {heads} heads"))),
    }
}

/// The rows of a cache that belong to each batch and position.
fn rows(call: &KernelCall, cache: &Tensor, a: &Axes, half: usize) -> Outcome<Vec<usize>> {
    let wanted = a.batch * a.positions;
    let misfit = || Fault::invalid(format!("cache {cache:?} does not fit the input"));
    let found = match (call.opt(3), cache.dims()) {
        (Some(ids), [length, width]) if *width == half => {
            let ids = integers(ids)?;
            ids.into_iter().map(|i| index(i, *length)).collect::<Outcome<Vec<usize>>>()?
        }
        (None, [b, s, width]) if [*b, *s, *width] == [a.batch, a.positions, half] => {
            (0..wanted).collect()
        }
        _ => return Err(misfit()),
    };
    if found.len() == wanted { Ok(found) } else { Err(misfit()) }
}

pub(super) fn rotary_embedding(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, cos, sin) = (call.x(0)?, call.x(1)?, call.x(2)?);
    let a = axes(call)?;
    let turned = match size(call.int("rotary_embedding_dim", 0)?)? {
        0 => a.size,
        n => n,
    };
    refuse!(turned > a.size || turned % 2 != 0 || cos.dims() != sin.dims() =>
        "{turned} of {} elements cannot be rotated", a.size);
    let half = turned / 2;
    let rows = rows(call, cos, &a, half)?;
    call.room(DataType::Double, x.dims())?;
    let (cos, sin, mut y) = (reals(cos)?, reals(sin)?, reals(x)?);
    // First element of pair k, and the distance to the second.
    let (pair, apart) = if call.flag("interleaved", false)? { (2, 1) } else { (1, half) };
    for (at, row) in rows.iter().enumerate() {
        let (b, s) = (at / a.positions, at % a.positions);
        for h in 0..a.heads {
            let batch_start = b * a.positions * a.heads * a.size;
            let start = batch_start + s * a.position_step + h * a.head_step;
            for k in 0..half {
                let (c, s) = (cos[row * half + k], sin[row * half + k]);
                let (i, j) = (start + k * pair, start + k * pair + apart);
                (y[i], y[j]) = (c * y[i] - s * y[j], s * y[i] + c * y[j]);
            }
        }
    }
    one(stored(x.dtype(), x.dims(), y)?)
}
