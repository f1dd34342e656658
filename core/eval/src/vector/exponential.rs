//! The exponential function, and what is made of it.

use super::logarithm::{LN_2_HIGH, LN_2_LOW, log_1p_up_to_one};
use super::{above, below, polynomial};
use std::f32::consts::LOG2_E;

/// The sum with it has no digits behind the point, and its last bits are the integer.
const MAGIC: f32 = 12_582_912.0;
/// `(e^r - 1 - r) / r^2` for `r` up to `ln(2) / 2`, within 0.23 units of the last place of `e^r - 1`.
const CURVE: [f32; 5] = [0.499_999_97, 0.166_665_43, 0.041_667_2, 0.008_366_547_5, 0.001_388_251_5];

/// 2 to an integer power, from -256 to 255, as what it adds to the bits of a number.
#[derive(Clone, Copy)]
pub(super) struct Power(u32);

impl Power {
    /// The sum of [`MAGIC`] and the integer.
    #[inline(always)]
    fn shifted(sum: f32) -> Power {
        Power(sum.to_bits() << 23)
    }

    /// The power times 2 to another integer, as far as that is a normal number.
    #[inline(always)]
    fn times(self, exponent: u32) -> f32 {
        f32::from_bits(self.0.wrapping_add((127 + exponent) << 23))
    }

    /// Two powers whose product it is.
    #[inline(always)]
    fn halves(self) -> (f32, f32) {
        let half = ((self.0.cast_signed() >> 24) << 23).cast_unsigned();
        (Power(half).times(0), Power(self.0.wrapping_sub(half)).times(0))
    }
}

/// `x` as `k * ln(2)` and a rest `r`: `2^k` and `e^r - 1`. `x` is at most 170 in magnitude.
#[inline(always)]
fn reduced(x: f32) -> (Power, f32) {
    let shifted = x * LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    (Power::shifted(shifted), less_one((x - k * LN_2_HIGH) - k * LN_2_LOW))
}

/// The same for `high + low`, where `low` is small.
#[inline(always)]
pub(super) fn reduced_sum(high: f32, low: f32) -> (Power, f32) {
    let shifted = (high + low) * LOG2_E + MAGIC;
    let k = shifted - MAGIC;
    (Power::shifted(shifted), less_one((high - k * LN_2_HIGH) + (low - k * LN_2_LOW)))
}

/// `e^r - 1`.
#[inline(always)]
fn less_one(r: f32) -> f32 {
    r * r * polynomial(r, CURVE) + r
}

/// `x` times a power of 2 from -158 to 95, rounded once where the result is subnormal.
#[inline(always)]
pub(super) fn scaled_down(x: f32, power: Power) -> f32 {
    const DOWN: f32 = 1.0 / 4_294_967_296.0;
    x * power.times(32) * DOWN
}

/// `e^x`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    // Beyond these the result is infinite, or rounds to zero.
    let (power, less_one) = reduced(below(above(x, -104.0), 89.0));
    let (first, second) = power.halves();
    (1.0 + less_one) * first * second
}

/// `e^-a` for the magnitude `a` of `x`.
#[inline(always)]
fn exp_of_minus(x: f32) -> f32 {
    let (power, less_one) = reduced(above(-x.abs(), -104.0));
    scaled_down(1.0 + less_one, power)
}

/// `e^x - 1` for `x` up to zero; larger ones mean nothing.
#[inline(always)]
pub(crate) fn exp_m1_below(x: f32) -> f32 {
    // The sum keeps the sign of a zero.
    let (power, less_one) = reduced(above(below(x, 1.0), -20.0));
    let power = power.times(0);
    let y = power * less_one + (power - 1.0);
    if x == 0.0 { x } else { y }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub(crate) fn sigmoid(x: f32) -> f32 {
    let small = exp_of_minus(x);
    (if x < 0.0 { small } else { 1.0 }) / (1.0 + small)
}

/// The hyperbolic tangent: `(e^2a - 1) / (e^2a + 1)` of the magnitude.
#[inline(always)]
pub(crate) fn tanh(x: f32) -> f32 {
    // From 9.02 on the result rounds to one.
    let (power, less_one) = reduced(2.0 * below(x.abs(), 10.0));
    let power = power.times(0);
    let less_one = power * less_one + (power - 1.0);
    (less_one / (less_one + 2.0)).copysign(x)
}

/// `ln(1 + e^x)`.
#[inline(always)]
pub(crate) fn softplus(x: f32) -> f32 {
    above(x, 0.0) + log_1p_up_to_one(exp_of_minus(x))
}

/// `x * tanh(softplus(x))`, where the tangent is `n / (n + 2)` for `n = e^x (e^x + 2)`.
#[inline(always)]
pub(crate) fn mish(x: f32) -> f32 {
    // From here on the tangent rounds to one.
    let power = exp(below(x, 20.0));
    let n = power * (power + 2.0);
    x * (n / (n + 2.0))
}
