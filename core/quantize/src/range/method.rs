//! Ranges of activations from what a network computes on samples.

use crate::observe::{Feeds, Histogram, Limits, StatisticParts, Stats, WantedValues, observe_more};
use crate::range::Levels;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::Engine;
use onnxd_ir::Model;
use std::collections::{BTreeMap, BTreeSet};

/// Bins of histograms on each side of zero.
const BINS: usize = 2048;

/// Samples whose extremes are taken together before they are averaged. One sample alone often
/// reaches but a part of the range, and how many run at once must not matter.
const GROUP: u64 = 16;

/// How a range follows from the values seen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Method {
    /// All values.
    MinMax,
    /// The average range of 16 samples.
    MovingAverage,
    /// This share of the values, in percent; what lies outside is split between the ends that have
    /// values.
    Percentile(f64),
    /// The range whose integers lose the least information (Kullback-Leibler divergence).
    Entropy,
    /// The range whose integers have the least squared error.
    Mse,
}

impl Method {
    /// What the report calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Method::MinMax => "min-max",
            Method::MovingAverage => "moving average",
            Method::Percentile(_) => "percentile",
            Method::Entropy => "entropy",
            Method::Mse => "MSE",
        }
    }

    /// The method that the report calls so; `percentile` is the share of values that one keeps.
    #[must_use]
    pub fn named(name: &str, percentile: f64) -> Option<Method> {
        let share = Method::Percentile(percentile);
        let all = [Method::MinMax, Method::MovingAverage, share, Method::Entropy, Method::Mse];
        all.into_iter().find(|method| method.name() == name)
    }

    /// What it has to see, where so many samples run at once.
    #[must_use]
    pub fn parts(self, batch: u64) -> StatisticParts {
        StatisticParts {
            bins: self.counts().then_some(BINS),
            moments: false,
            group: GROUP / batch.clamp(1, GROUP),
            ..StatisticParts::default()
        }
    }

    /// Whether it takes histograms.
    #[must_use]
    pub fn counts(self) -> bool {
        !matches!(self, Method::MinMax | Method::MovingAverage)
    }

    /// The range to represent with `levels`; `None` if no value was seen.
    #[must_use]
    pub fn range(self, seen: &Stats, levels: Levels, symmetric: bool) -> Option<(f64, f64)> {
        let all = seen.extremes.range()?;
        let histogram = seen.histogram.as_ref();
        let range = match self {
            Method::MinMax => Some(all),
            Method::MovingAverage => seen.mean.range(),
            Method::Percentile(share) => histogram.map(|h| percentile(h, share)),
            Method::Entropy => histogram.map(|h| {
                let reach = entropy(&h.magnitudes(), quanta(levels, all)) as f64 * h.width();
                (-reach, reach)
            }),
            Method::Mse => histogram.map(|h| least_squares(h, seen.zeros, all, levels, symmetric)),
        };
        // Bins reach beyond the values in them.
        let (min, max) = range.unwrap_or(all);
        Some((min.max(all.0), max.min(all.1)))
    }
}

/// Statistics of the values of these names over all samples, as `make` makes them, added to those
/// of earlier ones; none of those that no run came by.
///
/// # Errors
/// Why samples cannot be had, or the model does not run on them.
pub(crate) fn statistics(
    (engine, model): (&dyn Engine, &Model),
    names: BTreeSet<String>,
    samples: &mut dyn Iterator<Item = Result<Feeds, Diagnostics>>,
    make: &(dyn Fn(&str) -> Stats + Sync),
    seen: &mut BTreeMap<String, Stats>,
    limits: Limits,
) -> Result<(), Diagnostics> {
    let wanted = WantedValues::Reached(names);
    observe_more(engine, model, samples, (&wanted, make), seen, limits)
}

/// The range that holds `share` percent of the values.
fn percentile(histogram: &Histogram, share: f64) -> (f64, f64) {
    let count = histogram.count() as f64;
    let outside = count * (1.0 - share / 100.0);
    let negative: u64 = histogram.negative().iter().sum();
    // An end without values gives up none.
    let (low, high) = match negative {
        0 => (0.0, outside),
        n if n as f64 >= count => (outside, 0.0),
        _ => (outside / 2.0, outside / 2.0),
    };
    let reach = |side: &[u64], outside: f64| {
        let mut beyond = 0.0;
        let last = side.iter().rposition(|n| {
            beyond += *n as f64;
            beyond > outside
        });
        last.map_or(0.0, |bin| (bin + 1) as f64 * histogram.width())
    };
    (-reach(histogram.negative(), low), reach(histogram.positive(), high))
}

/// Integers for the magnitudes: all of them where values have one sign, else half.
fn quanta(levels: Levels, (min, max): (f64, f64)) -> usize {
    let all = (levels.max - levels.min + 1) as usize;
    let one_sided = levels.min == 0 && (min >= 0.0 || max <= 0.0);
    (if one_sided { all } else { all / 2 }).clamp(2, BINS / 2)
}

/// How many bins of magnitudes to keep so that `quanta` integers tell most of the distribution:
/// the cut with the least divergence of what the integers say from what was counted, where counts
/// beyond the cut go to its last bin.
fn entropy(counts: &[u64], quanta: usize) -> usize {
    let used = counts.iter().rposition(|n| *n > 0).map_or(0, |last| last + 1);
    // Zeros stay zeros whatever the scale is, and would hide all else.
    let counts: Vec<f64> =
        counts.iter().enumerate().map(|(i, n)| if i == 0 { 0.0 } else { *n as f64 }).collect();
    let total: f64 = counts.iter().sum();
    if used <= quanta || total == 0.0 {
        return used;
    }
    let mut best = (f64::INFINITY, used);
    let mut within: f64 = counts[..quanta].iter().sum();
    for cut in quanta..=used {
        let found = divergence(&counts[..cut], total - within, quanta, total);
        // The widest of equal ones.
        if found <= best.0 {
            best = (found, cut);
        }
        within += counts.get(cut).copied().unwrap_or(0.0);
    }
    best.1
}

/// Of the counts spread evenly over the bins of each integer from the counts themselves, both as
/// shares of their sums.
fn divergence(counts: &[f64], beyond: f64, quanta: usize, total: f64) -> f64 {
    let cut = counts.len();
    let within = total - beyond;
    if within <= 0.0 {
        return f64::INFINITY;
    }
    let mut sum = (within / total).ln();
    for quantum in 0..quanta {
        let bins = quantum * cut / quanta..(quantum + 1) * cut / quanta;
        let part = &counts[bins.clone()];
        let nonzero = part.iter().filter(|n| **n > 0.0).count() as f64;
        let mean = part.iter().sum::<f64>() / nonzero.max(1.0);
        for (bin, n) in bins.zip(part) {
            let p = n + if bin + 1 == cut { beyond } else { 0.0 };
            if p > 0.0 {
                // An integer that stands for none of what is counted costs dearly, not infinitely.
                let q = if *n > 0.0 { mean } else { 1e-4 };
                sum += p / total * (p / q).ln();
            }
        }
    }
    sum
}

/// Narrows both ends, first together and then each, as long as the expected squared error falls.
fn least_squares(
    histogram: &Histogram,
    zeros: u64,
    (min, max): (f64, f64),
    levels: Levels,
    symmetric: bool,
) -> (f64, f64) {
    const STEPS: usize = 100;
    let low = Side::new(histogram.negative(), histogram.width());
    let high = Side::new(histogram.positive(), histogram.width());
    // Zeros have no error.
    let inside = (histogram.count() - zeros) as f64;
    let steps = (levels.max - levels.min) as f64;
    let error = |(lo, hi): (f64, f64)| {
        let reach = if symmetric { 2.0 * hi.max(-lo) } else { hi.max(0.0) - lo.min(0.0) };
        let (lo, hi) = if symmetric { (-reach / 2.0, reach / 2.0) } else { (lo, hi) };
        let (out_low, cost_low) = low.beyond(-lo);
        let (out_high, cost_high) = high.beyond(hi);
        let step = reach / steps;
        (inside - out_low - out_high) * step * step / 12.0 + cost_low + cost_high
    };
    let mut best = ((min, max), error((min, max)));
    let mut search = |narrow: &dyn Fn(f64) -> (f64, f64)| {
        for step in 1..STEPS {
            let range = narrow(1.0 - step as f64 / STEPS as f64);
            let square_error = error(range);
            if square_error < best.1 {
                best = (range, square_error);
            }
        }
        best.0
    };
    let (lo, hi) = search(&|share| (min * share, max * share));
    if symmetric {
        return (lo, hi);
    }
    let (_, hi) = search(&|share| (lo, max * share));
    search(&|share| (min * share, hi))
}

/// Sums over the bins of one side of zero, from the outside in.
struct Side {
    width: f64,
    /// Counts, their magnitudes and squares, of bin `i` and those beyond it.
    sums: Vec<(f64, f64, f64)>,
}

impl Side {
    fn new(counts: &[u64], width: f64) -> Side {
        let mut sums = vec![(0.0, 0.0, 0.0); counts.len() + 1];
        for (bin, n) in counts.iter().enumerate().rev() {
            let (n, x) = (*n as f64, (bin as f64 + 0.5) * width);
            let (count, first, second) = sums[bin + 1];
            sums[bin] = (count + n, first + n * x, second + n * x * x);
        }
        Side { width, sums }
    }

    /// How many values lie beyond `reach`, and the sum of the squares of how far.
    fn beyond(&self, reach: f64) -> (f64, f64) {
        let bin = (reach.max(0.0) / self.width).ceil() as usize;
        let (n, first, second) = self.sums.get(bin).copied().unwrap_or_default();
        let cost = second - 2.0 * reach * first + reach * reach * n;
        (n, cost.max(0.0))
    }
}
