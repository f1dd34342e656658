//! Softmax of a run. Only sums are taken in `double`.

use super::exp;
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

/// Writes `e^(x - top)` and gives their sum.
#[inline(always)]
fn exponentials(run: &[f32], top: f32, out: &mut [f32]) -> f64 {
    let (chunks, rest) = run.as_chunks::<LANES>();
    let (results, last) = out.split_at_mut(chunks.len() * LANES);
    let mut sums = [0f64; LANES];
    for (x, y) in chunks.iter().zip(results.as_chunks_mut::<LANES>().0) {
        *y = x.map(|x| exp(x - top));
        sums.iter_mut().zip(y).for_each(|(sum, y)| *sum += f64::from(*y));
    }
    last.iter_mut().zip(rest).for_each(|(y, x)| *y = exp(x - top));
    sums.iter().sum::<f64>() + last.iter().map(|y| f64::from(*y)).sum::<f64>()
}

vectorized! {
    /// Softmax of `run`.
    pub(crate) fn softmax(run: &[f32], out: &mut [f32]) {
        let factor = exponentials(run, largest(run), out).recip() as f32;
        out.iter_mut().for_each(|y| *y *= factor);
    }
}

vectorized! {
    /// The logarithm of softmax of `run`.
    pub(crate) fn log_softmax(run: &[f32], out: &mut [f32]) {
        let top = largest(run);
        let less = f64::from(top) + exponentials(run, top, out).ln();
        out.iter_mut().zip(run).for_each(|(y, x)| *y = (f64::from(*x) - less) as f32);
    }
}
