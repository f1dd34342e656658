//! Smooth functions of `float`s, for many at a time. Each is written for one number, without a branch and without a
//! call, so that the compiler computes several of them side by side in any loop that uses it. Their errors, in units in
//! the last place, stand in `tests.rs`. Every processor gives the same bits: products and sums are not fused.

mod exponential;
mod gelu;
mod logarithm;
mod softmax;
#[cfg(test)]
mod tests;

use crate::call::{Call, one};
use crate::fault::Outcome;
use crate::parallel::{fill_parts, vectorized};
use onnxd_ir::{DataType, Tensor};

pub(crate) use exponential::{exp, exp_m1_below, mish, sigmoid, softplus, tanh};
pub(crate) use gelu::{erf, gelu, gelu_by_tanh};
pub(crate) use logarithm::log;
pub(crate) use softmax::{log_softmax, softmax};

/// Computes results from as many elements.
pub(crate) type Kernel = fn(&[f32], &mut [f32]);

/// The kernel's results for a tensor, if it is one of `float`s.
pub(crate) fn mapped(call: &Call, kernel: Kernel) -> Outcome<Option<Vec<Tensor>>> {
    mapped_by(call, &kernel)
}

/// The same for a kernel with parameters.
pub(crate) fn mapped_by(
    call: &Call,
    kernel: &(dyn Fn(&[f32], &mut [f32]) + Sync),
) -> Outcome<Option<Vec<Tensor>>> {
    let x = call.x(0)?;
    if x.dtype() != DataType::Float {
        return Ok(None);
    }
    let values = call.slice::<f32>(0)?;
    let mut y = vec![0f32; values.len()];
    fill_parts(&mut y, 1, COST, &|first, part| kernel(&values[first..first + part.len()], part));
    one(Tensor::from_vec(x.dims(), y)).map(Some)
}

/// Steps of work that an element takes, beside moving it.
pub(crate) const COST: usize = 4;

/// Loops over a function of one number.
macro_rules! kernels {
    ($($(#[$doc:meta])* $name:ident($($p:ident),*) $x:ident => $y:expr;)*) => { $(
        vectorized! {
            $(#[$doc])*
            pub(crate) fn $name($($p: f32,)* x: &[f32], y: &mut [f32]) {
                y.iter_mut().zip(x).for_each(|(y, $x)| { let $x = *$x; *y = $y; });
            }
        }
    )* };
}

kernels! {
    ceils() x => x.ceil();
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
    reciprocals() x => x.recip();
    rounds() x => x.round_ties_even();
    selus(alpha, gamma) x => gamma * if x > 0.0 { x } else { alpha * exp_m1_below(x) };
    sigmoids() x => sigmoid(x);
    softpluses() x => softplus(x);
    softsigns() x => x / (1.0 + x.abs());
    square_roots() x => x.sqrt();
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

/// `c[0] + c[1] * x + ...`
#[inline(always)]
fn polynomial<const N: usize>(x: f32, c: [f32; N]) -> f32 {
    let mut sum = c[N - 1];
    for i in (0..N - 1).rev() {
        sum = sum * x + c[i];
    }
    sum
}
