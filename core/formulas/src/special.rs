//! Inverses of the error function, gamma and Bessel functions.
//!
//! Series are sums over a new last axis, so that the number of nodes does not depend on their length.

use crate::{number, vector};
use onnxd_build::{GraphBuilder, Result, Var};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

/// A polynomial, by its coefficients from the constant one on.
fn polynomial(b: &GraphBuilder, x: Var, coefficients: &[f64]) -> Result<Var> {
    let powers = vector(b, x, (0..coefficients.len()).map(|i| i as f64).collect())?;
    b.mat_mul(b.pow(b.unsqueeze(x, [-1])?, powers)?, vector(b, x, coefficients.to_vec())?)
}

/// `x + 0` to `x + 6`, on a new last axis.
fn steps(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.add(b.unsqueeze(x, [-1])?, vector(b, x, (0..STEPS).map(f64::from).collect())?)
}

/// After so many steps up, the series of the gamma functions are exact.
const STEPS: i32 = 7;

fn last_sum(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.reduce_sum(x).axes([-1]).keepdims(false).one()
}

/// The inverse of erf at `x`, divided by `x`: a fit over `w / 8.5 - 1` for `w = -log(1 - x ** 2)` up to 17.
const ERFINV: [f64; 19] = [
    2.748_383_55, 1.457_592_43, -0.339_641_617, 0.139_332_809, -0.050_086_677_6, -0.004_279_498_79,
    0.036_591_686_5, -0.049_391_385_1, 0.041_317_647_6, -0.015_796_648_2, 0.001_814_379_46,
    -0.010_892_229_2, -0.005_564_309, 0.042_137_006_9, -0.021_914_829, -0.024_228_049_5,
    0.018_594_814, 0.004_449_920_13, -0.004_343_364_82,
];

/// The inverse of erf at `x`, where `rest` is `1 - x ** 2`.
fn erfinv_of(b: &GraphBuilder, x: Var, rest: Var) -> Result<Var> {
    let at = b.sub(b.div(b.log(rest)?, -8.5)?, 1i64)?;
    let inside = b.mul(x, polynomial(b, at, &ERFINV)?)?;
    b.where_(b.equal(rest, 0i64)?, b.mul(x, f64::INFINITY)?, inside)
}

/// The inverse of the error function. Float32 suffices.
///
/// # Errors
/// Those of the builder.
pub fn erfinv(b: &GraphBuilder, x: Var) -> Result<Var> {
    erfinv_of(b, x, b.mul(b.sub(1i64, x)?, b.add(x, 1i64)?)?)
}

/// The quantile of the normal distribution.
///
/// # Errors
/// Those of the builder.
pub fn ndtri(b: &GraphBuilder, p: Var) -> Result<Var> {
    let rest = b.mul(b.mul(p, 4i64)?, b.sub(1i64, p)?)?;
    let x = b.sub(b.mul(p, 2i64)?, 1i64)?;
    b.mul(erfinv_of(b, x, rest)?, SQRT_2)
}

/// `exp(x ** 2) * erfc(x) * (1 + 2 * x)` for positive `x`: a fit over `(x - 3) / (x + 3)`.
const ERFCX: [f64; 12] = [
    1.253_008_06, -0.135_621_1, -0.047_562_156_1, 0.129_644_721, -0.119_275_281, 0.068_313_196_7,
    -0.023_763_559_3, 0.002_506_778_73, 0.001_875_059_76, -0.000_734_082_22, -9.253_745_47e-5,
    8.007_464_97e-5,
];

/// The error function's complement, times `exp(x ** 2)`. Float32 suffices.
///
/// # Errors
/// Those of the builder.
pub fn erfcx(b: &GraphBuilder, x: Var) -> Result<Var> {
    let size = b.abs(x)?;
    let at = b.div(b.sub(size, 3i64)?, b.add(size, 3i64)?)?;
    let right = b.div(polynomial(b, at, &ERFCX)?, b.add(b.mul(size, 2i64)?, 1i64)?)?;
    let left = b.sub(b.mul(b.exp(b.mul(x, x)?)?, 2i64)?, right)?;
    b.where_(b.less(x, 0i64)?, left, right)
}

/// The logarithm of the normal distribution.
///
/// # Errors
/// Those of the builder.
pub fn log_ndtr(b: &GraphBuilder, x: Var) -> Result<Var> {
    let y = b.mul(x, FRAC_1_SQRT_2)?;
    let tail = b.sub(b.log(b.mul(erfcx(b, b.neg(y)?)?, 0.5)?)?, b.mul(y, y)?)?;
    let middle = b.log(b.mul(b.add(b.erf(y)?, 1i64)?, 0.5)?)?;
    b.where_(b.less(x, -1i64)?, tail, middle)
}

/// `x`, or `1 - x` where it is below a half, and where that is so.
fn reflected(b: &GraphBuilder, x: Var) -> Result<[Var; 2]> {
    let low = b.less(x, 0.5)?;
    Ok([low, b.where_(low, b.sub(1i64, x)?, x)?])
}

/// The angle of which `x` is half a turn, without whole turns.
fn half_turns(b: &GraphBuilder, x: Var) -> Result<Var> {
    b.mul(b.sub(x, b.floor(x)?)?, PI)
}

/// Stirling's series some steps up, and the logarithms of the steps.
///
/// # Errors
/// Those of the builder.
pub fn lgamma(b: &GraphBuilder, x: Var) -> Result<Var> {
    let [low, y] = reflected(b, x)?;
    let z = b.add(y, i64::from(STEPS))?;
    let turned = b.reciprocal(z)?;
    let series = polynomial(
        b,
        b.mul(turned, turned)?,
        &[1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0],
    )?;
    let main = b.sub(b.mul(b.sub(z, 0.5)?, b.log(z)?)?, z)?;
    let main = b.add(b.add(main, (2.0 * PI).ln() / 2.0)?, b.mul(turned, series)?)?;
    let right = b.sub(main, last_sum(b, b.log(steps(b, y)?)?)?)?;
    let sine = b.log(b.div(PI, b.abs(b.sin(half_turns(b, x)?)?)?)?)?;
    let finite = b.where_(low, b.sub(sine, right)?, right)?;
    b.where_(b.is_inf(x).one()?, b.abs(x)?, finite)
}

/// The derivative of `lgamma`, NaN at all of its poles; in float64.
///
/// # Errors
/// Those of the builder.
pub fn digamma(b: &GraphBuilder, x: Var) -> Result<Var> {
    let [low, y] = reflected(b, x)?;
    let z = b.add(y, i64::from(STEPS))?;
    let turned = b.reciprocal(z)?;
    let square = b.mul(turned, turned)?;
    let series =
        polynomial(b, square, &[0.0, 1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0])?;
    let main = b.sub(b.sub(b.log(z)?, b.mul(turned, 0.5)?)?, series)?;
    let right = b.sub(main, last_sum(b, b.reciprocal(steps(b, y)?)?)?)?;
    let angle = half_turns(b, x)?;
    let cotangent = b.div(b.cos(angle)?, b.sin(angle)?)?;
    let all = b.where_(low, b.sub(right, b.mul(cotangent, PI)?)?, right)?;
    let pole = b.and(b.less(x, 0.5)?, b.equal(x, b.floor(x)?)?)?;
    b.where_(pole, f64::NAN, all)
}

/// Points of half a circle that the integral of a Bessel function is summed over: enough for what float64 holds.
const POINTS: usize = 96;

/// Cosines at the points, and their shares in the mean over the circle.
fn circle(b: &GraphBuilder, x: Var, first: bool, less: f64) -> Result<[Var; 2]> {
    let cosines: Vec<f64> = (0..=POINTS).map(|k| (PI * k as f64 / POINTS as f64).cos()).collect();
    let share = |(k, cosine): (usize, &f64)| {
        let share = if k == 0 || k == POINTS { 0.5 } else { 1.0 } / POINTS as f64;
        if first { share * cosine } else { share }
    };
    let shares = cosines.iter().enumerate().map(share).collect();
    let cosines = cosines.iter().map(|cosine| cosine - less).collect();
    Ok([vector(b, x, cosines)?, vector(b, x, shares)?])
}

/// The mean of `exp(x * cosine)` over a circle; of the first kind, times the cosine.
///
/// # Errors
/// Those of the builder.
pub fn bessel(b: &GraphBuilder, x: Var, first: bool) -> Result<Var> {
    let [cosines, shares] = circle(b, x, first, 0.0)?;
    b.mat_mul(b.exp(b.mul(b.unsqueeze(x, [-1])?, cosines)?)?, shares)
}

/// A Bessel function times `exp(-abs(x))`; far out by its series.
///
/// # Errors
/// Those of the builder.
pub fn scaled_bessel(b: &GraphBuilder, x: Var, first: bool) -> Result<Var> {
    let size = b.abs(x)?;
    let [cosines, shares] = circle(b, x, first, 1.0)?;
    let near = b.mat_mul(b.exp(b.mul(b.unsqueeze(size, [-1])?, cosines)?)?, shares)?;
    let order = if first { 4.0 } else { 0.0 };
    let mut coefficients = vec![1.0];
    for k in 1..6 {
        let odd = f64::from(2 * k - 1);
        let before = coefficients[coefficients.len() - 1];
        coefficients.push(-before * (order - odd * odd) / (8.0 * f64::from(k)));
    }
    let limit = number(b, x, FAR)?;
    let outside = b.max([size, limit])?;
    let series = polynomial(b, b.reciprocal(outside)?, &coefficients)?;
    let far = b.div(series, b.sqrt(b.mul(outside, 2.0 * PI)?)?)?;
    let both = b.where_(b.less(size, limit)?, near, far)?;
    if first { b.mul(both, b.sign(x)?) } else { Ok(both) }
}

/// From here on the series is exact, and up to here the sum.
const FAR: f64 = 100.0;

#[cfg(test)]
mod tests;
