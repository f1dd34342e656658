use super::*;
use crate::math::erf as exact_erf;
use std::f64::consts::{FRAC_1_SQRT_2, PI};

/// One unit in the last place of a `float` near `v`.
fn unit(v: f64) -> f64 {
    let magnitude = v.abs().max(f64::from(f32::MIN_POSITIVE));
    2f64.powi((magnitude.to_bits() >> 52) as i32 - 1023 - 23)
}

/// Numbers of all magnitudes and both signs, with infinities and NaN; more of those that functions bend at.
fn numbers() -> Vec<f32> {
    let all = (0..u32::MAX - 40_009).step_by(40_009).map(f32::from_bits);
    let near = (-60_000..60_000).map(|i| i as f32 * 2.13e-3);
    let ends =
        [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0, -0.0, f32::MAX, f32::MIN, 1e-45, -1e-45];
    all.chain(near).chain(ends).collect()
}

/// The error is at most `most` units in the last place, wherever `exact` is a number; what is infinite or no number
/// is so exactly. Zeros have the sign of exact ones.
fn holds(name: &str, kernel: &dyn Fn(&mut [f32]), exact: &dyn Fn(f64) -> f64, most: f64) {
    within(name, kernel, exact, &|_, wanted| most * unit(wanted));
}

/// The same with a bound from the number and the exact value.
fn within(
    name: &str,
    kernel: &dyn Fn(&mut [f32]),
    exact: &dyn Fn(f64) -> f64,
    bound: &dyn Fn(f64, f64) -> f64,
) {
    let x = numbers();
    let mut y = x.clone();
    kernel(&mut y);
    for (x, y) in x.iter().zip(y) {
        let wanted = exact(f64::from(*x));
        let (found, most) = (f64::from(y), bound(f64::from(*x), wanted));
        let right = if wanted.is_nan() {
            y.is_nan()
        } else if f64::from(wanted as f32).is_infinite() || y.is_infinite() {
            // The last numbers may round up to infinity.
            found.signum() == wanted.signum()
                && found.abs().max(wanted.abs()) + most > f64::from(f32::MAX)
        } else {
            (found - wanted).abs() <= most
        };
        let signed = wanted != 0.0 || y.is_sign_negative() == wanted.is_sign_negative();
        assert!(right && signed, "{name}({x:e}) is {y:e}, not {wanted:e}");
    }
}

fn logistic(x: f64) -> f64 {
    if x < 0.0 { x.exp() / (1.0 + x.exp()) } else { 1.0 / (1.0 + (-x).exp()) }
}

fn soft(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// `Phi(-a)` for `a` from zero on, with all digits also where it is small.
fn upper_tail(a: f64) -> f64 {
    let b = a * FRAC_1_SQRT_2;
    if b < 2.5 {
        return (1.0 - exact_erf(b)) / 2.0;
    }
    let fraction = (1..=80).rev().fold(b, |rest, k| b + f64::from(k) / 2.0 / rest);
    (-b * b).exp() / (2.0 * PI.sqrt() * fraction)
}

#[test]
fn exponentials_and_logarithms() {
    holds("exp", &exps, &f64::exp, 1.1);
    holds("log", &logs, &f64::ln, 1.1);
    holds("elu", &|run| elus(1.0, run), &|x| if x < 0.0 { x.exp_m1() } else { x }, 2.0);
    holds("celu", &|run| celus(1.0, run), &|x| if x < 0.0 { x.exp_m1() } else { x }, 2.0);
    holds("softplus", &softpluses, &|x| if x.is_nan() { x } else { soft(x) }, 2.8);
}

#[test]
fn sigmoid_and_tangent() {
    holds("sigmoid", &sigmoids, &logistic, 2.5);
    holds("tanh", &tanhs, &f64::tanh, 3.0);
    // A subnormal exponential has fewer digits, which the product shows.
    let product = |x: f64, y: f64| 4.0 * unit(y) + x.abs() * 2f64.powi(-149);
    within("swish", &|run| swishes(1.0, run), &|x| x * logistic(x), &product);
    let mish = |x: f64| if x.is_nan() { x } else { x * soft(x).tanh() };
    within("mish", &mishes, &mish, &product);
}

#[test]
fn error_function_and_gelu() {
    holds("erf", &erfs, &exact_erf, 0.54);
    // At minus infinity the definition multiplies infinity and zero; a result of zero has no sign.
    let gelu = |x: f64| match x {
        f64::NEG_INFINITY => f64::NAN,
        x if x < 0.0 => x * upper_tail(-x) + 0.0,
        x if x.is_nan() => x,
        x => x * (1.0 - upper_tail(x)) + 0.0,
    };
    let unsigned = |f: InPlace| {
        move |run: &mut [f32]| {
            f(run);
            run.iter_mut().for_each(|y| *y += 0.0);
        }
    };
    holds("gelu", &unsigned(gelus), &gelu, 6.0);
    let by_tanh = |x: f64| {
        let v = 2.0 * (2.0 / PI).sqrt() * (x + 0.044715 * x * x * x);
        match x {
            f64::NEG_INFINITY => f64::NAN,
            f64::INFINITY => x,
            x => x * logistic(v) + 0.0,
        }
    };
    holds("gelu by tanh", &unsigned(gelus_by_tanh), &by_tanh, 3.5);
}

#[test]
fn softmax_of_runs() {
    for count in [1, 5, 16, 100, 600] {
        let run: Vec<f32> = (0..count).map(|i| (i * 37 % 101) as f32 * 0.3 - 9.0).collect();
        let top = run.iter().copied().fold(f32::MIN, f32::max);
        let sum: f64 = run.iter().map(|x| f64::from(x - top).exp()).sum();
        let (mut y, mut logarithm) = (run.clone(), run.clone());
        softmax(&mut y);
        log_softmax(&mut logarithm);
        for ((x, y), logarithm) in run.iter().zip(y).zip(logarithm) {
            let wanted = f64::from(x - top).exp() / sum;
            assert!((f64::from(y) - wanted).abs() <= 3.0 * unit(wanted), "{y} {wanted}");
            let wanted = f64::from(x - top) - sum.ln();
            assert!(
                (f64::from(logarithm) - wanted).abs() <= 1e-7 + unit(wanted),
                "{logarithm} {wanted}"
            );
        }
    }
    for run in [[f32::NAN, 1.0], [f32::INFINITY, 1.0], [f32::NEG_INFINITY; 2]] {
        let mut y = run;
        softmax(&mut y);
        assert!(y[0].is_nan(), "{run:?} {y:?}");
    }
}
