//! Softmax of a run. Only sums are taken in `double`.

use super::{exp, sum_of};
use crate::num::Num;
use crate::parallel::vectorized;

/// Numbers computed side by side.
const LANES: usize = 16;

/// The largest number; NaN if there is one.
#[inline(always)]
fn largest(run: &[f32]) -> f32 {
    let (chunks, rest) = run.as_chunks::<LANES>();
    let mut lanes = [f32::NEG_INFINITY; LANES];
    for chunk in chunks {
        lanes.iter_mut().zip(chunk).for_each(|(top, x)| *top = top.larger(*x));
    }
    lanes.iter().chain(rest).copied().fold(f32::NEG_INFINITY, Num::larger)
}

/// Replaces each number by `e^(x - top)` and gives the sum of these.
#[inline(always)]
fn exponentials(run: &mut [f32], top: f32) -> f64 {
    for x in run.iter_mut() {
        *x = exp(*x - top);
    }
    sum_of(run, |x| x)
}

vectorized! {
    /// Softmax of `run`.
    pub(crate) fn softmax(run: &mut [f32]) {
        let factor = exponentials(run, largest(run)).recip() as f32;
        run.iter_mut().for_each(|x| *x *= factor);
    }
}

vectorized! {
    /// The logarithm of softmax of `run`.
    pub(crate) fn log_softmax(run: &mut [f32]) {
        let (top, mut sum) = (largest(run), 0.0);
        let mut powers = [0f32; 256];
        for part in run.chunks(powers.len()) {
            let powers = &mut powers[..part.len()];
            powers.copy_from_slice(part);
            sum += exponentials(powers, top);
        }
        let less = f64::from(top) + sum.ln();
        run.iter_mut().for_each(|x| *x = (f64::from(*x) - less) as f32);
    }
}
