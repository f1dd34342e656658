//! Functions the standard library lacks.

use crate::parallel::vectorized;
use std::f64::consts::PI;
use std::sync::LazyLock;

/// The error function, to about 1e-15.
///
/// Below 2.5 the series `2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1) / (1*3*..*(2n+1))`, whose terms are
/// all positive; above, one minus the continued fraction of the complement.
pub(crate) fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a.is_nan() {
        return x;
    }
    let value = if a < 2.5 {
        let (mut term, mut sum, mut n) = (a, a, 0.0);
        while term > sum * 1e-17 {
            n += 1.0;
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
        }
        std::f64::consts::FRAC_2_SQRT_PI * (-a * a).exp() * sum
    } else if a < 6.0 {
        // erfc(x) = exp(-x^2)/sqrt(pi) * 1/(x + (1/2)/(x + 1/(x + (3/2)/(x + ...))))
        let tail = (1..=60).rev().fold(a, |rest, k| a + f64::from(k) / 2.0 / rest);
        1.0 - std::f64::consts::FRAC_2_SQRT_PI / 2.0 * (-a * a).exp() / tail
    } else {
        1.0
    };
    value.copysign(x)
}

/// From here on the error function of a `float` is one.
const ERF_END: f32 = 4.0;
/// Terms of the series of [`erf32`], which leave a relative error of 7e-11.
const TERMS: usize = 20;
/// Elements computed side by side.
const LANES: usize = 16;

/// The error function of `float`s, rounded from about 1e-10.
///
/// `erf(x) / x` is smooth in `x^2`; it is summed as a Chebyshev series in `t = x^2 / 8 - 1`, by
/// Clenshaw's recurrence `b[k] = c[k] + 2 t b[k + 1] - b[k + 2]`.
pub(crate) fn erf32(x: &[f32], y: &mut [f32]) {
    static SERIES: LazyLock<[f64; TERMS]> = LazyLock::new(|| {
        let angle = |i: usize| (i as f64 + 0.5) * PI / TERMS as f64;
        let value = |i: usize| {
            let a = f64::from(ERF_END) * ((angle(i).cos() + 1.0) / 2.0).sqrt();
            erf(a) / a
        };
        std::array::from_fn(|k| {
            let sum: f64 = (0..TERMS).map(|i| value(i) * (k as f64 * angle(i)).cos()).sum();
            sum * if k == 0 { 1.0 } else { 2.0 } / TERMS as f64
        })
    });
    erf_series(x, y, &SERIES);
}

vectorized! {
    fn erf_series(x: &[f32], y: &mut [f32], series: &[f64; TERMS]) {
        for (x, y) in x.chunks(LANES).zip(y.chunks_mut(LANES)) {
            let mut a = [0f64; LANES];
            a.iter_mut().zip(x).for_each(|(a, x)| *a = f64::from(x.abs().min(ERF_END)));
            let double = a.map(|a| a * a / 4.0 - 2.0);
            let (mut b, mut before) = ([0f64; LANES], [0f64; LANES]);
            for c in series[1..].iter().rev() {
                for i in 0..LANES {
                    (b[i], before[i]) = (double[i] * b[i] + (c - before[i]), b[i]);
                }
            }
            for (i, (x, y)) in x.iter().zip(y).enumerate() {
                let quotient = series[0] + double[i] / 2.0 * b[i] - before[i];
                *y = if x.is_nan() { *x } else { ((a[i] * quotient) as f32).copysign(*x) };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{erf, erf32};

    #[test]
    fn floats_are_rounded_from_the_exact_value() {
        let x: Vec<f32> = (-50_000..50_000).map(|i| i as f32 * 1.1e-4).collect();
        let mut y = vec![0.0; x.len()];
        erf32(&x, &mut y);
        for (x, y) in x.iter().zip(y) {
            let exact = erf(f64::from(*x));
            let gap = (f64::from(y) - exact).abs();
            let most = 0.51 * f64::from(f32::EPSILON) * exact.abs();
            assert!(gap <= most, "erf({x}) is off by {gap}");
        }
        let mut ends = [0f32; 4];
        erf32(&[9.0, f32::NEG_INFINITY, -0.0, f32::NAN], &mut ends);
        assert_eq!(ends[..3], [1.0, -1.0, 0.0]);
        assert!(ends[3].is_nan() && ends[2].is_sign_negative());
    }

    #[test]
    fn known_values() {
        // Abramowitz and Stegun, table 7.1, and one value on each side of the switch.
        let table = [(0.0, 0.0), (0.5, 0.5204998778), (1.0, 0.8427007929), (2.0, 0.9953222650)];
        for (x, y) in table {
            assert!((erf(x) - y).abs() < 1e-10 && (erf(-x) + y).abs() < 1e-10, "erf({x})");
        }
        assert!((erf(2.5 - 1e-12) - erf(2.5)).abs() < 1e-14);
        assert_eq!((erf(7.0), erf(f64::NEG_INFINITY)), (1.0, -1.0));
        assert!(erf(f64::NAN).is_nan());
    }
}
