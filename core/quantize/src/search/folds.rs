//! The folds of a k-fold cross-validation: ranges are made of some samples and measured on others, so that every
//! sample counts once and none for itself. In the end, ranges are those of all samples.

use crate::accuracy::{Held, SampleSet, Score};
use crate::observe::{Statistic, Stats};
use std::collections::BTreeMap;

/// Folds of the k-fold cross-validation.
const FOLDS: u64 = 4;

/// What was seen of the values of a base in some samples.
pub(crate) type FoldStatistics = BTreeMap<String, Stats>;

/// Samples in folds. Those before the folds are in all ranges.
pub(crate) struct Folds {
    /// Each is measured with the ranges of all others.
    pub(crate) all: Vec<Held>,
    /// By base, what was seen before the folds, and in each.
    pub(crate) seen: BTreeMap<usize, Vec<FoldStatistics>>,
}

/// What a result is worth on the samples that it is judged on.
pub(crate) struct Judged {
    /// What it gives fold by fold, where few samples are split.
    pub(crate) folds: Option<Score>,
    /// The worst output in dB.
    pub(crate) db: f64,
}

impl Folds {
    /// The last of the first `samples`, in folds of `most` at most. A single batch cannot be split: it is used twice.
    pub(crate) fn split(data: &SampleSet, samples: u64, most: u64) -> Folds {
        let size = data.whole((samples / FOLDS).min(most).max(1));
        let count = (samples / size).min(FOLDS);
        let fold = |i: u64| {
            let from = samples - (count - i) * size;
            Held::between(from, from + size)
        };
        let whole = || vec![Held::between(0, samples)];
        let all = if count < 2 { whole() } else { (0..count).map(fold).collect() };
        Folds { all, seen: BTreeMap::new() }
    }

    /// Whether samples are measured with the ranges of others.
    pub(crate) fn are_apart(&self) -> bool {
        self.all.len() > 1
    }

    /// What was seen of a base's values in all samples but those of one fold.
    pub(crate) fn ranges(&self, base: usize, without: Option<usize>) -> FoldStatistics {
        let mut all = FoldStatistics::new();
        let parts = self.seen.get(&base).into_iter().flatten().enumerate();
        let kept = |at: usize| !self.are_apart() || without.is_none_or(|fold| at != fold + 1);
        for (name, stats) in parts.filter(|(at, _)| kept(*at)).flat_map(|(_, part)| part) {
            match all.get_mut(name) {
                Some(before) => before.merge(stats),
                None => {
                    all.insert(name.clone(), stats.clone());
                }
            }
        }
        all
    }
}
