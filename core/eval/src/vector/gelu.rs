//! The error function and Gelu.

use super::exponential::{reduced_sum, scaled_down};
use super::{above, below, polynomial};

/// From here on the error function of a `float` is one.
const ERF_END: f32 = 4.0;
/// `erf(x) / x` as a quotient of polynomials in `x^2`, within 2.1e-9 of its value.
const ERF_ABOVE: [f64; 7] = [
    1.1283791693772103, 0.1852031182855445, 0.054316907290966325, 0.0038496085932606394,
    0.0003796091601110388, 4.684787861675726e-06, -1.3202277885816588e-08,
];
const ERF_UNDER: [f64; 6] = [
    1.0, 0.4974654039516316, 0.11395838193016948, 0.015462084887378161, 0.0013075696685762124,
    6.311067621936624e-05,
];

/// The error function, rounded from `double`.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let a = f64::from(below(x.abs(), ERF_END));
    let t = a * a;
    let (mut over, mut under) = (ERF_ABOVE[6], ERF_UNDER[5]);
    for c in ERF_ABOVE[..6].iter().rev() {
        over = over * t + c;
    }
    for c in ERF_UNDER[..5].iter().rev() {
        under = under * t + c;
    }
    ((a * over / under) as f32).copysign(x)
}

/// From here on Gelu of a negative number rounds to zero.
const GELU_END: f32 = 14.6;
/// `(a + 4) e^(a^2 / 2) Phi(-a)` in `(a - 4) / (a + 4)`, within 0.15 units of the last place.
const TAIL: [f32; 10] = [
    0.755_285_14, -0.607_896_57, 0.387_136_9, -0.186_523_48, 0.060_403_764, -0.007_525_003_5,
    -0.003_512_078, 0.001_569_589_5, 0.000_178_371_51, -0.000_132_433_33,
];

/// `x * Phi(x)`, where `Phi` is the distribution function of normal numbers. With `a = |x|` that is `-a Phi(-a)` for
/// negative numbers, and `a - a Phi(-a)` for positive ones, which loses no digits. At minus infinity the definition
/// multiplies infinity and zero: it is NaN, as for the operators that Gelu is written out in.
#[inline(always)]
pub(crate) fn gelu(x: f32) -> f32 {
    // With zero nothing is subnormal on the way, which processors are slow at.
    let a = if x.abs() > GELU_END { 0.0 } else { x.abs() };
    // The square of the first twelve bits is exact, so that the exponential has all of its digits.
    let high = f32::from_bits(a.to_bits() & 0xffff_f000);
    let (power, less_one) = reduced_sum(-0.5 * high * high, -0.5 * (a - high) * (a + high));
    let inverse = 1.0 / (a + 4.0);
    let factor = polynomial((a - 4.0) * inverse, TAIL) * inverse * a;
    let found = above(x, 0.0) - scaled_down((1.0 + less_one) * factor, power);
    if x == f32::NEG_INFINITY { f32::NAN } else { found }
}

/// Twice the square root of 2 / pi, and that times 0.044715.
const TWICE: f64 = 1.595_769_121_605_730_8;
const CUBIC: f64 = 0.071_354_816_272_600_25;
/// From here of what the exponential is of on, this Gelu rounds to zero or to its argument.
const POWER_END: f64 = 109.0;

/// `x / 2 * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3)))`, which is `x / (1 + e^-v)` for twice what the tangent is of.
#[inline(always)]
pub(crate) fn gelu_by_tanh(x: f32) -> f32 {
    let wide = f64::from(x);
    let v = wide * (TWICE + CUBIC * wide * wide);
    let far = v.abs() > POWER_END;
    let exponent = if far { 0.0 } else { -v.abs() };
    let high = exponent as f32;
    let (power, less_one) = reduced_sum(high, (exponent - f64::from(high)) as f32);
    let small = if far { 0.0 } else { 1.0 + less_one };
    let quotient = x / (1.0 + scaled_down(small, power));
    let tail = scaled_down(small * if far { 0.0 } else { quotient }, power);
    let found = if v < 0.0 { tail } else { quotient };
    if x == f32::NEG_INFINITY { f32::NAN } else { found }
}
