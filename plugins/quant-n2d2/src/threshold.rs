//! What value the largest integer shall stand for.

use crate::histogram::Histogram;
use crate::least_error::{self, STEPS};
use crate::options::Clipping;
use crate::plan::bounds;

impl Histogram {
    /// The threshold that `clipping` chooses for integers of `bits` bits.
    pub(crate) fn threshold(&self, clipping: Clipping, bits: u32, quantile: f64) -> f64 {
        let total: f64 = self.bins().map(|(_, n)| n).sum();
        if total == 0.0 {
            return 0.0;
        }
        let reach = self.reach_of_grid();
        match clipping {
            Clipping::None => reach,
            Clipping::Mse => least_error::threshold(self, bounds(bits, self.signed())),
            Clipping::KlDivergence => {
                let low = if self.signed() { -1.0 } else { 0.0 };
                let (mut coarse, bins) = (Coarse::new(bits), self.bins().collect::<Vec<_>>());
                best(reach, |t| coarse.divergence(&bins, total, low * t, t))
            }
            Clipping::Quantile => {
                let wanted = (quantile * total).trunc();
                let filled = || self.bins().filter(|(_, n)| *n > 0.0);
                let mut seen = 0.0;
                let reached = filled().find(|(_, n)| {
                    seen += n;
                    seen >= wanted
                });
                reached.or(filled().last()).map_or(0.0, |(x, _)| x)
            }
        }
    }
}

/// The candidate with the least score: `reach`, and down to zero in equal steps.
fn best(reach: f64, mut score: impl FnMut(f64) -> f64) -> f64 {
    let (mut least, mut chosen) = (f64::INFINITY, reach);
    let mut t = reach;
    while t > 0.0 {
        let found = score(t);
        if found < least {
            (least, chosen) = (found, t);
        }
        t -= reach / STEPS;
    }
    chosen
}

/// A coarse histogram, kept to be filled again.
struct Coarse {
    counts: Vec<f64>,
    /// Of each fine bin.
    places: Vec<usize>,
}

impl Coarse {
    fn new(bits: u32) -> Coarse {
        Coarse { counts: vec![0.0; 1 << bits], places: vec![] }
    }

    /// Divergence of the distribution from that of its values in coarse bins between two bounds.
    fn divergence(&mut self, bins: &[(f64, f64)], total: f64, low: f64, high: f64) -> f64 {
        let count = self.counts.len();
        let width = (high - low) / count as f64;
        let place = |x: f64| (((x.clamp(low, high) - low) / width + 1e-6) as usize).min(count - 1);
        self.counts.fill(0.0);
        self.places.clear();
        self.places.extend(bins.iter().map(|(x, _)| place(*x)));
        for ((_, n), at) in bins.iter().zip(&self.places) {
            self.counts[*at] += n;
        }
        let norm: f64 = self.places.iter().map(|at| self.counts[*at]).sum();
        let term = |((_, n), at): (&(f64, f64), &usize)| {
            let p = n / total;
            if p > 0.0 { p * (p / (self.counts[*at] / norm)).ln() } else { 0.0 }
        };
        bins.iter().zip(&self.places).map(term).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn filled(values: &[f64], signed: bool) -> Histogram {
        let reach = values.iter().fold(0f64, |m, x| m.max(x.abs()));
        let mut histogram = Histogram::new(reach, signed, 256);
        histogram.see(values.iter().copied());
        histogram
    }

    #[test]
    fn an_outlier_is_cut_off() {
        let mut values: Vec<f64> = (0..100_000).map(|i| f64::from(i % 1000) / 1000.0).collect();
        values.push(8.0);
        let histogram = filled(&values, false);
        assert_eq!(histogram.threshold(Clipping::None, 4, 0.0), 8.0);
        let mse = histogram.threshold(Clipping::Mse, 4, 0.0);
        assert!((0.9..1.2).contains(&mse), "{mse}");
        let median = histogram.threshold(Clipping::Quantile, 4, 0.5);
        assert!((0.46..0.54).contains(&median), "{median}");
    }

    #[test]
    fn a_grid_has_an_end() {
        let mut histogram = Histogram::new(1.0, true, 16384);
        assert!(histogram.reach(1e9).is_err() && histogram.reach(f64::INFINITY).is_err());
        assert!(histogram.reach(3.0).is_ok());
        assert_eq!(Histogram::new(1.0, true, 64).threshold(Clipping::Mse, 8, 0.0), 0.0);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]

        #[test]
        fn thresholds_lie_within_the_values(
            values in prop::collection::vec(-2.0..2.0f64, 1..50), bits in 2u32..9, signed: bool,
        ) {
            let own = values.iter().map(|x| if signed { *x } else { x.abs() });
            let histogram = filled(&own.collect::<Vec<_>>(), signed);
            for clipping in [Clipping::Mse, Clipping::KlDivergence, Clipping::None] {
                let t = histogram.threshold(clipping, bits, 0.0);
                prop_assert!(t > 0.0 && t <= histogram.0.high, "{clipping:?} {t}");
            }
        }
    }
}
