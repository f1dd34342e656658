//! The threshold with the least mean square error, as a search over all candidates finds it.
//!
//! The values that one integer stands for lie beside each other, so sums over bins from the first
//! on give the error of an integer at once. What that loses in rounding is bounded: candidates
//! within the bound are compared by adding up bin by bin.

use crate::histogram::Histogram;
use onnxd_quantize::observe::SavedHistogram;

/// Steps from the largest threshold to zero.
pub(crate) const STEPS: f64 = 1000.0;

/// Cumulative over all bins before one.
#[derive(Clone, Copy, Default)]
struct Cumulative {
    count: f64,
    first: f64,
    second: f64,
}

struct ThresholdSearch<'h> {
    histogram: &'h Histogram,
    /// One more than there are bins.
    sums: Vec<Cumulative>,
    /// Bounds of the integers.
    low: f64,
    high: f64,
}

/// The threshold for integers within `bounds`: the largest of the candidates with the least error.
pub(crate) fn threshold(histogram: &Histogram, bounds: (i64, i64)) -> f64 {
    let mut at = Cumulative::default();
    let sums = histogram.bins().map(|(x, n)| {
        at.count += n;
        at.first += n * x;
        at.second += n * x * x;
        at
    });
    let sums = [Cumulative::default()].into_iter().chain(sums).collect();
    let search = ThresholdSearch { histogram, sums, low: bounds.0 as f64, high: bounds.1 as f64 };
    search.run()
}

impl ThresholdSearch<'_> {
    fn run(&self) -> f64 {
        let reach = self.histogram.reach_of_grid();
        let levels = self.high - self.low + 1.0;
        let all = self.sums[self.sums.len() - 1];
        let lost = 4.0 * f64::EPSILON * (levels + self.sums.len() as f64) * all.second;
        let (mut least, mut errors_by_threshold) = (f64::INFINITY, Vec::new());
        let mut t = reach;
        while t > 0.0 {
            // What is cut off grows from candidate to candidate.
            if self.cut_off(t) > least + 2.0 * lost {
                break;
            }
            let error = self.estimate(t);
            least = least.min(error);
            errors_by_threshold.push((t, error));
            t -= reach / STEPS;
        }
        errors_by_threshold.retain(|(_, error)| *error <= least + 2.0 * lost);
        let (mut best, mut chosen) = (f64::INFINITY, reach);
        for (t, _) in errors_by_threshold {
            let error = self.exact(t, best);
            if error < best {
                (best, chosen) = (error, t);
            }
        }
        chosen
    }

    /// How many bins lie below `x`.
    fn below(&self, x: f64) -> usize {
        let SavedHistogram { low, width, counts, .. } = &self.histogram.0;
        (((x - low) / width - 0.5).ceil().max(0.0) as usize).min(counts.len())
    }

    /// Squared distances to `x` of the values in some bins.
    fn squares(&self, from: usize, to: usize, x: f64) -> f64 {
        let (a, b) = (&self.sums[from], &self.sums[to]);
        let count = b.count - a.count;
        if count == 0.0 {
            return 0.0;
        }
        b.second - a.second - 2.0 * x * (b.first - a.first) + x * x * count
    }

    /// The part of the error that values beyond the bounds have.
    fn cut_off(&self, t: f64) -> f64 {
        let low = t * self.low / self.high;
        let (below, above) = (self.below(low), self.below(t));
        self.squares(0, below, low) + self.squares(above, self.sums.len() - 1, t)
    }

    /// The sum of all squared errors, apart from rounding.
    fn estimate(&self, t: f64) -> f64 {
        let step = t / self.high;
        let (mut sum, mut from) = (0.0, 0);
        let mut q = self.low;
        while q < self.high {
            let to = self.below((q + 0.5) * step);
            sum += self.squares(from, to, q * step);
            (from, q) = (to, q + 1.0);
        }
        sum + self.squares(from, self.sums.len() - 1, t)
    }

    /// The mean square error as N2D2 adds it up; given up as soon as it is not below `limit`.
    fn exact(&self, t: f64, limit: f64) -> f64 {
        let total = self.sums[self.sums.len() - 1].count;
        let scale = self.high / t;
        let mut sum = 0.0;
        for (x, n) in self.histogram.bins().filter(|(_, n)| *n > 0.0) {
            let q = (x * scale).round().clamp(self.low, self.high);
            let error = x - q / scale;
            sum += error * error * n / total;
            if sum >= limit {
                break;
            }
        }
        sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// All candidates, bin by bin.
    fn slowly(histogram: &Histogram, (low, high): (i64, i64)) -> f64 {
        let search = ThresholdSearch {
            histogram,
            sums: vec![Cumulative {
                count: histogram.bins().map(|(_, n)| n).sum(),
                ..Cumulative::default()
            }],
            low: low as f64,
            high: high as f64,
        };
        let reach = histogram.reach_of_grid();
        let (mut least, mut chosen, mut t) = (f64::INFINITY, reach, reach);
        while t > 0.0 {
            let error = search.exact(t, least);
            if error < least {
                (least, chosen) = (error, t);
            }
            t -= reach / STEPS;
        }
        chosen
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn the_search_skips_nothing_that_counts(
            values in prop::collection::vec((-3.0..3.0f64, 0.0..4.0f64), 1..400),
            bits in 2u32..12, signed: bool, fine: bool,
        ) {
            // Most values are small, as in a network.
            let values: Vec<f64> = values.iter().map(|(x, p)| x * (-p).exp()).collect();
            let values = values.iter().map(|x| if signed { *x } else { x.abs() });
            let values: Vec<f64> = values.collect();
            let reach = values.iter().fold(0f64, |m, x| m.max(x.abs()));
            let mut histogram = Histogram::new(reach, signed, if fine { 4096 } else { 256 });
            histogram.see(values.into_iter());
            let bounds = crate::plan::bounds(bits, signed);
            prop_assert_eq!(threshold(&histogram, bounds), slowly(&histogram, bounds));
        }
    }
}
