//! Functions the standard library lacks.

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

/// Centres of the table lie this many to one apart.
const PER_UNIT: f64 = 64.0;
/// Behind it the error function of a `float` is one.
const ERF_END: f32 = 4.0;

/// The error function of a `float`, rounded from about 1e-13: the Taylor series around the next of
/// the points `i / 64`. With `t = x - c` and `e = 2/sqrt(pi) exp(-c^2)` it is
/// `erf(c) + e (t - c t^2 + (2 c^2 - 1) t^3 / 3 - (2 c^3 - 3 c) t^4 / 6 + ...)`.
pub(crate) fn erf32(x: f32) -> f32 {
    static TABLE: LazyLock<Vec<(f64, f64)>> = LazyLock::new(|| {
        let entry = |i: usize| {
            let c = i as f64 / PER_UNIT;
            (erf(c), std::f64::consts::FRAC_2_SQRT_PI * (-c * c).exp())
        };
        (0..=(f64::from(ERF_END) * PER_UNIT) as usize).map(entry).collect()
    });
    let a = x.abs();
    if a.is_nan() || a >= ERF_END {
        return if a.is_nan() { x } else { 1f32.copysign(x) };
    }
    // Within the table, since `a` is below its end.
    let a = f64::from(a);
    let i = (a * PER_UNIT + 0.5) as u32 as usize;
    let (value, slope) = TABLE[i];
    let c = i as f64 / PER_UNIT;
    let t = a - c;
    let square = c * c;
    // Divisions by constants would take longer than all the rest.
    const BY: [f64; 3] = [1.0 / 3.0, 1.0 / 6.0, 1.0 / 30.0];
    let third = (2.0 * square - 1.0) * BY[0];
    let fourth = (3.0 - 2.0 * square) * c * BY[1];
    let fifth = (4.0 * square * square - 12.0 * square + 3.0) * BY[2];
    let series = 1.0 + t * (t * (third + t * (fourth + t * fifth)) - c);
    ((value + slope * t * series) as f32).copysign(x)
}

#[cfg(test)]
mod tests {
    use super::{erf, erf32};

    #[test]
    fn floats_are_rounded_from_the_exact_value() {
        for i in -50_000..50_000 {
            let x = i as f32 * 1.1e-4;
            let exact = erf(f64::from(x));
            let gap = (f64::from(erf32(x)) - exact).abs();
            assert!(
                gap <= 0.51 * f64::from(f32::EPSILON) * exact.abs(),
                "erf({x}) is off by {gap}"
            );
        }
        assert_eq!((erf32(9.0), erf32(f32::NEG_INFINITY), erf32(0.0)), (1.0, -1.0, 0.0));
        assert!(erf32(f32::NAN).is_nan());
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
