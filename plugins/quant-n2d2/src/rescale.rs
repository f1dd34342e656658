//! Factors as integers can compute them.

use crate::options::Rescaling;
use crate::plan::{How, Rescale};

/// A power of two, or a sum of two, is near enough from here on.
const PRECISE: f64 = 0.98;
/// Most fraction bits of a multiplier.
const FRACTION_BITS_MAX: f64 = 50.0;

/// A rescaling, and what outputs must be multiplied by beforehand, in one list each.
pub(crate) struct Approximated {
    pub(crate) rescale: Rescale,
    /// One element per element of `rescale.factors`.
    pub(crate) gains: Vec<f64>,
    /// The mode that was taken, if it is not the one that was asked for.
    pub(crate) instead: Option<Rescaling>,
}

/// Approximates positive `factors` in the way of `mode`. `None` if they are beyond it.
pub(crate) fn approximate(factors: &[f64], mode: Rescaling) -> Option<Approximated> {
    let largest = factors.iter().copied().fold(0.0, f64::max);
    if !factors.iter().all(|f| f.is_finite() && *f > 0.0) {
        return None;
    }
    let plain = |how| {
        let rescale = Rescale { factors: factors.to_vec(), how };
        Some(Approximated { rescale, gains: vec![1.0; factors.len()], instead: None })
    };
    match mode {
        Rescaling::FloatingPoint => {
            plain(How::FloatingPoint(factors.iter().map(|f| *f as f32).collect()))
        }
        Rescaling::FixedPoint16 if largest < 32767.0 => plain(fixed(factors, largest, 32767.0)),
        Rescaling::FixedPoint32 if largest < 2147483647.0 => {
            plain(fixed(factors, largest, 2147483647.0))
        }
        Rescaling::FixedPoint16 => instead(factors, Rescaling::FixedPoint32),
        Rescaling::FixedPoint32 => None,
        _ if largest > 1.0 => instead(factors, Rescaling::FixedPoint16),
        Rescaling::SingleShift | Rescaling::DoubleShift => {
            let terms = if mode == Rescaling::SingleShift { 1 } else { 2 };
            let approximations: Vec<_> = factors.iter().map(|f| powers(*f, terms)).collect();
            let gains = approximations.iter().map(|(_, precision)| 1.0 / precision).collect();
            let how = if terms == 1 {
                How::SingleShift(approximations.iter().map(|(e, _)| e[0]).collect())
            } else {
                How::DoubleShift(approximations.iter().map(|(e, _)| (e[1] - e[0], e[1])).collect())
            };
            let rescale = Rescale { factors: factors.to_vec(), how };
            Some(Approximated { rescale, gains, instead: None })
        }
    }
}

fn instead(factors: &[f64], mode: Rescaling) -> Option<Approximated> {
    let found = approximate(factors, mode)?;
    let instead = found.instead.or(Some(mode));
    Some(Approximated { instead, ..found })
}

fn fixed(factors: &[f64], largest: f64, limit: f64) -> How {
    let bits = (limit / largest).log2().floor().min(FRACTION_BITS_MAX);
    let multipliers = factors.iter().map(|f| (f * bits.exp2()).round() as i64).collect();
    How::FixedPoint { fraction_bits: bits as u32, multipliers }
}

/// Exponents `e` so that the sum of `2^-e` over `terms` of them is near `factor`, which is at most
/// one, and by what factor it is too large.
fn powers(factor: f64, terms: usize) -> ([u32; 2], f64) {
    let mut exponents = [0f64; 2];
    let mut precision = 0.0;
    for i in 0..terms {
        if precision == 1.0 {
            exponents[i - 1] += 1.0;
            exponents[i] = exponents[i - 1];
        } else {
            exponents[i] = (1.0 / (factor * (1.0 - precision))).log2().ceil();
            precision += 1.0 / (factor * exponents[i].exp2());
        }
    }
    let last = &mut exponents[terms - 1];
    if precision >= PRECISE {
        precision = 1.0;
    } else {
        precision += 1.0 / (factor * last.exp2());
        *last -= 1.0;
    }
    (exponents.map(|e| e as u32), precision)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn how(factor: f64, mode: Rescaling) -> How {
        approximate(&[factor], mode).unwrap().rescale.how
    }

    #[test]
    fn factors_as_n2d2_approximates_them() {
        for (factor, bits, multiplier, shift, pair) in [
            (0.00260574, 23, 21859, 8, (1, 10)),
            (0.00319273, 23, 26783, 8, (0, 9)),
            (0.00127841, 24, 21448, 9, (1, 11)),
        ] {
            let fixed = How::FixedPoint { fraction_bits: bits, multipliers: vec![multiplier] };
            assert_eq!(how(factor, Rescaling::FixedPoint16), fixed);
            assert_eq!(how(factor, Rescaling::SingleShift), How::SingleShift(vec![shift]));
            assert_eq!(how(factor, Rescaling::DoubleShift), How::DoubleShift(vec![pair]));
        }
    }

    #[test]
    fn a_factor_above_one_is_no_shift() {
        let found = approximate(&[0.25, 1.5], Rescaling::SingleShift).unwrap();
        assert_eq!(found.instead, Some(Rescaling::FixedPoint16));
        assert_eq!((found.rescale.apply(100, 0), found.rescale.apply(100, 1)), (25, 150));
        assert!(approximate(&[0.0], Rescaling::FloatingPoint).is_none());
        assert!(approximate(&[1e10], Rescaling::FixedPoint16).is_none());
    }

    #[test]
    fn halves_go_up() {
        let half = |mode| approximate(&[0.5], mode).unwrap().rescale;
        for mode in [Rescaling::SingleShift, Rescaling::DoubleShift, Rescaling::FixedPoint16] {
            assert_eq!([3, -3, 4].map(|x| half(mode).apply(x, 0)), [2, -1, 2], "{mode:?}");
        }
        let float = half(Rescaling::FloatingPoint);
        assert_eq!([3, -3, 4].map(|x| float.apply(x, 0)), [2, -2, 2]);
    }

    proptest! {
        /// What shifts get wrong is made up for in weights, apart from two percent.
        #[test]
        fn approximations_are_near(factor in 1e-6..1.0f64, acc in -1_000_000i64..1_000_000) {
            use Rescaling::*;
            for mode in [FloatingPoint, FixedPoint16, FixedPoint32, SingleShift, DoubleShift] {
                let found = approximate(&[factor], mode).unwrap();
                prop_assert!(found.gains[0] <= 1.0 && found.gains[0] > 0.5 - 1e-9);
                let wide = (acc as f64 * found.gains[0]).round() as i64;
                let (q, real) = (found.rescale.apply(wide, 0) as f64, acc as f64 * factor);
                prop_assert!((q - real).abs() <= 0.021 * real.abs() + 1.5, "{mode:?} {q} {real}");
            }
        }
    }
}
