//! Sums in `double`, of several parts side by side: one after the other each would wait for the one before.

use crate::num::Num;
use crate::parallel::vectorized;

/// Sums that are taken side by side.
const LANES: usize = 16;

/// The sum of `f` of the elements.
#[inline(always)]
pub(crate) fn sum_of<T: Num>(run: &[T], f: impl Fn(f64) -> f64) -> f64 {
    let (chunks, rest) = run.as_chunks::<LANES>();
    let mut sums = [0f64; LANES];
    for chunk in chunks {
        for i in 0..LANES {
            sums[i] += f(chunk[i].to_f64());
        }
    }
    sums.iter().sum::<f64>() + rest.iter().map(|v| f(v.to_f64())).sum::<f64>()
}

vectorized! {
    /// The sum of the elements.
    pub(crate) fn sum<T: Num>(run: &[T]) -> f64 {
        sum_of(run, |v| v)
    }
}

vectorized! {
    /// Mean and variance.
    pub(crate) fn moments<T: Num>(run: &[T]) -> (f64, f64) {
        let count = run.len() as f64;
        let mean = sum_of(run, |v| v) / count;
        (mean, sum_of(run, |v| (v - mean) * (v - mean)) / count)
    }
}
