//! Histograms of values on N2D2's grid of bins, and what value the largest integer shall stand for.

use crate::least_error;
use crate::options::Clipping;
use crate::plan::bounds;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_quantize::observe::SavedHistogram;

/// A histogram reaches at least so far.
const REACH_MIN: f64 = 0.1;
/// Most bins: beyond, an outlier among the values has made the grid useless.
const BINS_MAX: usize = 1 << 24;
/// Steps from the largest threshold to zero.
pub(crate) const STEPS: f64 = 1000.0;

/// Counts of values in bins of equal width, as they are saved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Histogram(pub(crate) SavedHistogram);

/// Bins at first, for thresholds of so many bits.
pub(crate) fn bins(clipping: Clipping, bits: u32) -> usize {
    match clipping {
        Clipping::Quantile => 1 << 16,
        _ => 1 << (bits + 6).min(16),
    }
}

impl Histogram {
    /// For values up to a magnitude of `reach`; below zero too if they are `signed`.
    pub(crate) fn new(reach: f64, signed: bool, bins: usize) -> Histogram {
        let high = reach.max(REACH_MIN);
        Histogram::between(if signed { -high } else { 0.0 }, high, bins)
    }

    /// For values between two bounds.
    pub(crate) fn between(low: f64, high: f64, bins: usize) -> Histogram {
        let width = (high - low) / bins as f64;
        Histogram(SavedHistogram { low, high, width, counts: vec![0; bins] })
    }

    /// `None` if values do not lead to such a grid.
    pub(crate) fn restored(saved: SavedHistogram) -> Option<Histogram> {
        let SavedHistogram { low, high, width, ref counts } = saved;
        let off = (high - low) / width - counts.len() as f64;
        let sound = high.is_finite() && high >= REACH_MIN && width > 0.0 && off.abs() < 0.5;
        let below = low == 0.0 || (low + high).abs() < width / 2.0;
        let sized = (1..=BINS_MAX).contains(&counts.len());
        (sound && below && sized).then_some(Histogram(saved))
    }

    /// Appends bins until values of a magnitude of `reach` fit.
    ///
    /// # Errors
    /// `N0507` for values that are not finite, or so much larger than the first ones that no grid
    /// fits both.
    pub(crate) fn reach(&mut self, reach: f64) -> Result<(), Diagnostic> {
        let grid = &mut self.0;
        if reach <= grid.high {
            return Ok(());
        }
        let more = ((reach - grid.high) / grid.width).ceil();
        let sides = if grid.low < 0.0 { 2.0 } else { 1.0 };
        let all = more * sides + grid.counts.len() as f64;
        if !all.is_finite() || all > BINS_MAX as f64 {
            let text = format!("a value of {reach} on samples whose first reach {}", grid.high);
            return Err(Diagnostic::new(Code::EvalInputs, text)
                .help("The calibration samples must all be like those the network will see."));
        }
        let new = more as usize;
        if grid.low < 0.0 {
            grid.counts.splice(0..0, std::iter::repeat_n(0, new));
            grid.low -= more * grid.width;
        }
        grid.counts.resize(grid.counts.len() + new, 0);
        grid.high += more * grid.width;
        Ok(())
    }

    /// Counts values, which should lie within; others count in the outermost bins.
    pub(crate) fn see(&mut self, values: impl Iterator<Item = f64>) {
        let SavedHistogram { low, high, width, counts } = &mut self.0;
        let last = counts.len() - 1;
        for x in values {
            let place = (x.clamp(*low, *high) - *low) / *width + 1e-6;
            counts[(place as usize).min(last)] += 1;
        }
    }

    /// Centres of the bins with their counts.
    pub(crate) fn bins(&self) -> impl Iterator<Item = (f64, f64)> {
        let SavedHistogram { low, width, counts, .. } = &self.0;
        counts.iter().enumerate().map(move |(i, n)| (low + (i as f64 + 0.5) * width, *n as f64))
    }

    /// The largest magnitude of the grid.
    pub(crate) fn reach_of_grid(&self) -> f64 {
        self.0.high.max(-self.0.low)
    }

    pub(crate) fn signed(&self) -> bool {
        self.0.low < 0.0
    }

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
        /// Bins are appended as they are needed, in whatever steps.
        #[test]
        fn growth_by_steps_is_growth_at_once(
            first in 0.2..1.0f64, more in prop::collection::vec(0.1..4.0f64, 1..5),
        ) {
            let mut steps = Histogram::new(first, true, 64);
            let mut once = steps.clone();
            let last = more.iter().fold(0f64, |m, x| m.max(*x));
            more.iter().for_each(|x| steps.reach(*x).unwrap());
            once.reach(last).unwrap();
            prop_assert_eq!(steps.0.counts.len(), once.0.counts.len());
            prop_assert!((steps.0.high - once.0.high).abs() < 1e-9 && steps.0.high >= last - 1e-9);
        }
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
