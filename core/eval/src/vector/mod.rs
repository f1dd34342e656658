//! Smooth functions of `float`s, for many at a time. Each is written for one number, without a branch and without a
//! call, so that the compiler computes several of them side by side in any loop that uses it. Their errors, in units in
//! the last place, stand in `tests.rs`. Every processor gives the same bits: products and sums are not fused.

mod exponential;
mod gelu;
mod logarithm;
mod softmax;
mod sums;
#[cfg(test)]
mod tests;

use crate::fault::Outcome;
use crate::num::slice;
use crate::parallel::{copied_parts, vectorized};
use onnxd_ir::Tensor;

pub(crate) use exponential::{exp, exp_m1_below, mish, sigmoid, softplus, tanh};
pub(crate) use gelu::{erf, gelu, gelu_by_tanh};
pub(crate) use logarithm::log;
pub(crate) use softmax::{log_softmax, softmax};
pub(crate) use sums::{moments, sum, sum_of};

/// A kernel that replaces elements by a function of each.
pub(crate) type InPlace = fn(&mut [f32]);

/// The kernel's results for the elements of a tensor of `float`s.
pub(crate) fn mapped(x: &Tensor, kernel: &(dyn Fn(&mut [f32]) + Sync)) -> Outcome<Tensor> {
    let y = copied_parts(&slice::<f32>(x)?, 1, COST, &|_, part| kernel(part));
    Ok(Tensor::from_vec(x.dims(), y))
}

/// Steps of work that an element takes, beside moving it.
pub(crate) const COST: usize = 4;

/// Loops over a function of one number. Iterators' closures would be compiled apart, for vectors of any processor.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($($p:ident),*) $x:ident => $y:expr;)*) => { $(
        vectorized! {
            $(#[$doc])*
            pub(crate) fn $name($($p: f32,)* run: &mut [f32]) {
                for place in run {
                    let $x = *place;
                    *place = $y;
                }
            }
        }
    )* };
}

kernels! {
    ceils() x => x.ceil();
    clip(low, high) x => below(above(x, low), high);
    cubes() x => x * x * x;
    celus(alpha) x => above(x, 0.0) + alpha * exp_m1_below(below(x / alpha, 0.0));
    elus(alpha) x => if x < 0.0 { alpha * exp_m1_below(x) } else { x };
    erfs() x => erf(x);
    exps() x => exp(x);
    floors() x => x.floor();
    gelus() x => gelu(x);
    gelus_by_tanh() x => gelu_by_tanh(x);
    hard_sigmoids(alpha, beta) x => below(above(alpha * x + beta, 0.0), 1.0);
    hard_swishes() x => x * below(above(x / 6.0 + 0.5, 0.0), 1.0);
    logs() x => log(x);
    mishes() x => mish(x);
    // As a power: minus zero and minus infinity become positive.
    powers_of_half() x => if x == f32::NEG_INFINITY { f32::INFINITY } else { x.sqrt() + 0.0 };
    rectify() x => if x <= 0.0 { 0.0 } else { x };
    reciprocals() x => x.recip();
    rounds() x => x.round_ties_even();
    selus(alpha, gamma) x => gamma * if x > 0.0 { x } else { alpha * exp_m1_below(x) };
    sigmoids() x => sigmoid(x);
    silus() x => x * sigmoid(x);
    softpluses() x => softplus(x);
    softsigns() x => x / (1.0 + x.abs());
    square_roots() x => x.sqrt();
    squares() x => x * x;
    swishes(alpha) x => x * sigmoid(alpha * x);
    tanhs() x => tanh(x);
}

/// `x`, but at most `limit`; NaN stays.
#[inline(always)]
pub(crate) fn below(x: f32, limit: f32) -> f32 {
    if x > limit { limit } else { x }
}

/// `x`, but at least `limit`; NaN stays.
#[inline(always)]
pub(crate) fn above(x: f32, limit: f32) -> f32 {
    if x < limit { limit } else { x }
}

/// `c[0] + c[1] * x + ...`, the even and the odd terms side by side.
#[inline(always)]
fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let square = x * x;
    let mut sums = [0.0; 2];
    for i in (0..N).rev() {
        sums[i % 2] = sums[i % 2] * square + c[i];
    }
    sums[0] + x * sums[1]
}
