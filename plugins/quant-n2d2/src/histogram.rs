//! Histograms of values on N2D2's grid of bins.

use crate::options::Clipping;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_quantize::observe::SavedHistogram;

/// A histogram reaches at least so far.
const REACH_MIN: f64 = 0.1;
/// Most bins: beyond, an outlier among the values has made the grid useless.
const BINS_MAX: usize = 1 << 24;

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
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
}
