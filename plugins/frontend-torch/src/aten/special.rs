//! Functions that ONNX has no operators for: inverses of the error function, gamma and Bessel functions.
//!
//! Series are sums over a new last axis, so that the number of nodes does not depend on their length.

use super::dtype::{float_of, of, operand, to_float};
use super::{Lower, Source, Unary};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float};
use onnxd_plugin_sdk::ir::Reals;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use std::f64::consts::{FRAC_1_SQRT_2, PI, SQRT_2};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    rows! { table;
        "aten::erfinv" | "aten::special_erfinv" | "prims::erf_inv" => |b, a: Unary| computed(b, a.input, Float, erfinv);
        "aten::special_ndtri" | "prims::ndtri" => |b, a: Unary| computed(b, a.input, Float, ndtri);
        "aten::special_erfcx" | "prims::erfcx" => |b, a: Unary| computed(b, a.input, Float, erfcx);
        "aten::special_log_ndtr" => |b, a: Unary| computed(b, a.input, Float, log_ndtr);
        "aten::lgamma" | "aten::special_gammaln" | "prims::lgamma" => |b, a: Unary| {
            computed(b, a.input, Double, lgamma)
        };
        "aten::digamma" | "aten::special_digamma" | "aten::special_psi" | "prims::digamma"
            => |b, a: Unary| computed(b, a.input, Double, digamma);
        "aten::mvlgamma" | "aten::special_multigammaln" => mvlgamma;
        "aten::i0" | "aten::special_i0" | "aten::special_modified_bessel_i0" | "prims::bessel_i0"
            => |b, a: Unary| computed(b, a.input, Double, |b, x| bessel(b, x, false));
        "aten::special_i1" | "aten::special_modified_bessel_i1" | "prims::bessel_i1"
            => |b, a: Unary| computed(b, a.input, Double, |b, x| bessel(b, x, true));
        "aten::special_i0e" | "prims::bessel_i0e" => |b, a: Unary| {
            computed(b, a.input, Double, |b, x| scaled_bessel(b, x, false))
        };
        "aten::special_i1e" | "prims::bessel_i1e" => |b, a: Unary| {
            computed(b, a.input, Double, |b, x| scaled_bessel(b, x, true))
        };
        "aten::angle" => angle;
    }
    .refused("aten::polygamma", "ONNX has no derivatives of the gamma function")
    .refused("aten::special_polygamma", "ONNX has no derivatives of the gamma function")
    .refused("aten::special_zeta", "ONNX has no zeta function")
    .refused("aten::igamma", "ONNX has no incomplete gamma function")
    .refused("aten::igammac", "ONNX has no incomplete gamma function")
    .refused("aten::special_gammainc", "ONNX has no incomplete gamma function")
    .refused("aten::special_gammaincc", "ONNX has no incomplete gamma function")
}

arguments! {
    /// `mvlgamma(Tensor self, int p)`
    struct Multivariate { input: Var, p: i64 }
}

/// Applies `f` in a type that is at least as wide as `least`, and gives the type of a float function.
fn computed(
    b: &Lower,
    x: Var,
    least: DataType,
    f: fn(&Lower, Var) -> Lowered<Var>,
) -> Lowered<Var> {
    let dtype = float_of(of(b, x)?);
    let wide = if dtype == Double { Double } else { least };
    b.cast(f(b, b.cast(x, wide)?)?, dtype)
}

/// Numbers as a vector of the type of `x`.
fn vector(b: &Lower, x: Var, items: Vec<f64>) -> Lowered<Var> {
    let tensor = Reals { dims: vec![items.len()], values: items }.to_tensor(of(b, x)?);
    Ok(b.constant(tensor.expect("reals of a float type")))
}

/// A polynomial, by its coefficients from the constant one on.
fn polynomial(b: &Lower, x: Var, coefficients: &[f64]) -> Lowered<Var> {
    let powers = vector(b, x, (0..coefficients.len()).map(|i| i as f64).collect())?;
    b.mat_mul(b.pow(b.unsqueeze(x, [-1])?, powers)?, vector(b, x, coefficients.to_vec())?)
}

/// `x + 0` to `x + 6`, on a new last axis.
fn steps(b: &Lower, x: Var) -> Lowered<Var> {
    b.add(b.unsqueeze(x, [-1])?, vector(b, x, (0..STEPS).map(f64::from).collect())?)
}

/// After so many steps up, the series of the gamma functions are exact.
const STEPS: i32 = 7;

fn last_sum(b: &Lower, x: Var) -> Lowered<Var> {
    b.reduce_sum(x).axes([-1]).keepdims(false).one()
}

/// The inverse of erf at `x`, divided by `x`: a fit over `w / 8.5 - 1` for `w = -log(1 - x ** 2)` up to 17.
const ERFINV: [f64; 19] = [
    2.748_383_55,
    1.457_592_43,
    -0.339_641_617,
    0.139_332_809,
    -0.050_086_677_6,
    -0.004_279_498_79,
    0.036_591_686_5,
    -0.049_391_385_1,
    0.041_317_647_6,
    -0.015_796_648_2,
    0.001_814_379_46,
    -0.010_892_229_2,
    -0.005_564_309,
    0.042_137_006_9,
    -0.021_914_829,
    -0.024_228_049_5,
    0.018_594_814,
    0.004_449_920_13,
    -0.004_343_364_82,
];

/// The inverse of erf at `x`, where `rest` is `1 - x ** 2`.
fn erfinv_of(b: &Lower, x: Var, rest: Var) -> Lowered<Var> {
    let at = b.sub(b.div(b.log(rest)?, -8.5)?, 1i64)?;
    let inside = b.mul(x, polynomial(b, at, &ERFINV)?)?;
    b.where_(b.equal(rest, 0i64)?, b.mul(x, f64::INFINITY)?, inside)
}

fn erfinv(b: &Lower, x: Var) -> Lowered<Var> {
    erfinv_of(b, x, b.mul(b.sub(1i64, x)?, b.add(x, 1i64)?)?)
}

/// The quantile of the normal distribution.
fn ndtri(b: &Lower, p: Var) -> Lowered<Var> {
    let rest = b.mul(b.mul(p, 4i64)?, b.sub(1i64, p)?)?;
    let x = b.sub(b.mul(p, 2i64)?, 1i64)?;
    b.mul(erfinv_of(b, x, rest)?, SQRT_2)
}

/// `exp(x ** 2) * erfc(x) * (1 + 2 * x)` for positive `x`: a fit over `(x - 3) / (x + 3)`.
const ERFCX: [f64; 12] = [
    1.253_008_06,
    -0.135_621_1,
    -0.047_562_156_1,
    0.129_644_721,
    -0.119_275_281,
    0.068_313_196_7,
    -0.023_763_559_3,
    0.002_506_778_73,
    0.001_875_059_76,
    -0.000_734_082_22,
    -9.253_745_47e-5,
    8.007_464_97e-5,
];

fn erfcx(b: &Lower, x: Var) -> Lowered<Var> {
    let size = b.abs(x)?;
    let at = b.div(b.sub(size, 3i64)?, b.add(size, 3i64)?)?;
    let right = b.div(polynomial(b, at, &ERFCX)?, b.add(b.mul(size, 2i64)?, 1i64)?)?;
    let left = b.sub(b.mul(b.exp(b.mul(x, x)?)?, 2i64)?, right)?;
    b.where_(b.less(x, 0i64)?, left, right)
}

/// The logarithm of the normal distribution.
fn log_ndtr(b: &Lower, x: Var) -> Lowered<Var> {
    let y = b.mul(x, FRAC_1_SQRT_2)?;
    let tail = b.sub(b.log(b.mul(erfcx(b, b.neg(y)?)?, 0.5)?)?, b.mul(y, y)?)?;
    let middle = b.log(b.mul(b.add(b.erf(y)?, 1i64)?, 0.5)?)?;
    b.where_(b.less(x, -1i64)?, tail, middle)
}

/// `x`, or `1 - x` where it is below a half, and where that is so.
fn reflected(b: &Lower, x: Var) -> Lowered<[Var; 2]> {
    let low = b.less(x, 0.5)?;
    Ok([low, b.where_(low, b.sub(1i64, x)?, x)?])
}

/// The angle of which `x` is half a turn, without whole turns.
fn half_turns(b: &Lower, x: Var) -> Lowered<Var> {
    b.mul(b.sub(x, b.floor(x)?)?, PI)
}

/// Stirling's series some steps up, and the logarithms of the steps.
fn lgamma(b: &Lower, x: Var) -> Lowered<Var> {
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
    b.where_(low, b.sub(sine, right)?, right)
}

fn digamma(b: &Lower, x: Var) -> Lowered<Var> {
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
    let pole = b.and(b.less(x, 0i64)?, b.equal(x, b.floor(x)?)?)?;
    b.where_(pole, f64::NAN, all)
}

/// The sum of the logarithms of gamma at `x`, `x - 1 / 2`, ...
fn mvlgamma(b: &Lower, a: Multivariate) -> Lowered<Var> {
    let dtype = float_of(of(b, a.input)?);
    let x = b.unsqueeze(b.cast(a.input, Double)?, [-1])?;
    let below = vector(b, x, (0..a.p).map(|j| j as f64 / 2.0).collect())?;
    let sum = last_sum(b, lgamma(b, b.sub(x, below)?)?)?;
    b.cast(b.add(sum, (a.p * (a.p - 1)) as f64 / 4.0 * PI.ln())?, dtype)
}

/// Points of half a circle that the integral of a Bessel function is summed over: enough for what float64 holds.
const POINTS: usize = 96;

/// Cosines at the points, and their shares in the mean over the circle.
fn circle(b: &Lower, x: Var, first: bool, less: f64) -> Lowered<[Var; 2]> {
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
fn bessel(b: &Lower, x: Var, first: bool) -> Lowered<Var> {
    let [cosines, shares] = circle(b, x, first, 0.0)?;
    b.mat_mul(b.exp(b.mul(b.unsqueeze(x, [-1])?, cosines)?)?, shares)
}

/// A Bessel function times `exp(-abs(x))`; far out by its series.
fn scaled_bessel(b: &Lower, x: Var, first: bool) -> Lowered<Var> {
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
    let limit = operand(b, &Value::Float(FAR), of(b, x)?)?;
    let outside = b.max([size, limit])?;
    let series = polynomial(b, b.reciprocal(outside)?, &coefficients)?;
    let far = b.div(series, b.sqrt(b.mul(outside, 2.0 * PI)?)?)?;
    let both = b.where_(b.less(size, limit)?, near, far)?;
    if first { b.mul(both, b.sign(x)?) } else { Ok(both) }
}

/// From here on the series is exact, and up to here the sum.
const FAR: f64 = 100.0;

/// The angle of a real number: none, or half a turn.
fn angle(b: &Lower, a: Unary) -> Lowered<Var> {
    let x = to_float(b, a.input)?;
    let zero = operand(b, &Value::Int(0), of(b, x)?)?;
    let angle = b.where_(b.less(x, 0i64)?, operand(b, &Value::Float(PI), of(b, x)?)?, zero)?;
    b.where_(b.is_nan(x)?, x, angle)
}

#[cfg(test)]
mod tests {
    use crate::aten::tests::{assert_near, floats, run, run_at};
    use onnxd_plugin_sdk::ir::Tensor;

    fn of<const N: usize>(op: &str, x: [f32; N]) -> Tensor {
        run(op, [("input", floats(x).into())])
    }

    #[test]
    fn error_functions_are_inverted() {
        let found = of("aten::erfinv", [-0.5, 0.0, 0.999, 1.0]);
        assert_near(&found, &floats([-0.476_936_28, 0.0, 2.326_753_8, f32::INFINITY]));
        assert_near(&of("aten::special_ndtri", [0.025, 1e-6]), &floats([-1.959_964, -4.753_424]));
        assert_near(&of("aten::special_erfcx", [-1.0, 5.0]), &floats([5.008_980_3, 0.110_704_64]));
        assert_near(
            &of("aten::special_log_ndtr", [-9.0, 1.0]),
            &floats([-43.628_15, -0.172_753_78]),
        );
    }

    #[test]
    fn gamma_functions_hold_on_both_sides() {
        let found = of("aten::lgamma", [-1.5, 1.0, 0.5, 100.0]);
        assert_near(&found, &floats([0.860_047, 0.0, 0.572_364_9, 359.134_2]));
        assert_near(&of("aten::digamma", [-1.5, 1.0]), &floats([0.703_156_6, -0.577_215_7]));
        let both = run("aten::mvlgamma", [("input", floats([3.0]).into()), ("p", 2i64.into())]);
        assert_near(&both, &floats([1.550_194_7]));
        let refused = run_at(18, "aten::polygamma", []).unwrap_err();
        assert!(refused.contains("derivatives of the gamma function"), "{refused}");
    }

    #[test]
    fn bessel_functions_hold_far_out() {
        assert_near(&of("aten::i0", [0.0, -3.0]), &floats([1.0, 4.880_792_6]));
        assert_near(&of("aten::special_i1", [2.0]), &floats([1.590_636_9]));
        assert_near(
            &of("aten::special_i0e", [90.0, 400.0]),
            &floats([0.042_110_87, 0.019_953_357]),
        );
        assert_near(&of("aten::special_i1e", [-400.0]), &floats([-0.019_928_398]));
    }
}
