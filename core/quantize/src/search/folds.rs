//! The folds of a k-fold cross-validation: ranges are made of some samples and measured on others, so that every
//! sample counts once and none for itself. In the end, ranges are those of all samples.

use crate::accuracy::{Held, SampleSet, Score, default_samples};
use crate::observe::{Parts, Statistic, Stats};
use crate::search::static_search::Search;
use crate::search::trial::Trial;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Model, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Folds of the k-fold cross-validation.
const FOLDS: u64 = 4;

/// What was seen of the values of a base in some samples.
type Seen = BTreeMap<String, Stats>;

/// Samples in folds. Those before the folds are in all ranges.
pub(crate) struct Folds {
    /// Each is measured with the ranges of all others.
    pub(crate) all: Vec<Held>,
    /// By base, what was seen before the folds, and in each.
    pub(crate) seen: BTreeMap<usize, Vec<Seen>>,
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
    pub(crate) fn of(data: &SampleSet, samples: u64, most: u64) -> Folds {
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
    pub(crate) fn ranges(&self, base: usize, without: Option<usize>) -> Seen {
        let mut all = Seen::new();
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

impl Search<'_> {
    /// Sees what values a base has before the folds and in each.
    pub(crate) fn see(
        &mut self,
        base: usize,
        parts: &Parts,
        folds: &mut Folds,
    ) -> Result<(), Diagnostics> {
        let mut seen = Vec::new();
        let first = folds.all.first().map_or(0, |fold| fold.from);
        let ends = folds.all.iter().map(|fold| (fold.from, fold.to));
        let part = self.data.session.part("".into());
        for (at, (from, to)) in std::iter::once((0, first)).chain(ends).enumerate() {
            part.now(format!("part {} of {}", at + 1, folds.all.len() + 1));
            self.bases[base].seen = Seen::new();
            self.observe(base, parts, from, to)?;
            seen.push(std::mem::take(&mut self.bases[base].seen));
        }
        folds.seen.insert(base, seen);
        Ok(())
    }

    /// What a trial gives on fold number `at`, with the ranges of the others.
    pub(crate) fn score_fold(
        &mut self,
        (trial, floats): (&Trial, &BTreeSet<NodeId>),
        at: usize,
        folds: &mut Folds,
    ) -> Result<Score, Diagnostics> {
        self.bases[trial.base].seen = folds.ranges(trial.base, Some(at));
        let _fold = self.data.session.part(format!("fold {} of {}", at + 1, folds.all.len()));
        let (_, model, _) = self.made(trial, floats)?;
        folds.all[at].score((&self.bases[0].model, &model), &self.data)
    }

    /// What a trial gives on samples that its ranges are not made of, where few samples can be split; the ranges stay
    /// those of all. What was learned knows all samples but those of the last fold.
    pub(crate) fn score_folds(
        &mut self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<Option<Score>, Diagnostics> {
        let Some(mut folds) = self.folds.take() else { return Ok(None) };
        let ranges = std::mem::take(&mut self.bases[trial.base].seen);
        let learned = trial.rounding.is_some() || trial.correct;
        let from = if learned { folds.all.len() - 1 } else { 0 };
        let mut score = Score::default();
        for at in from..folds.all.len() {
            score.append(self.score_fold((trial, floats), at, &mut folds)?);
        }
        self.bases[trial.base].seen = ranges;
        self.folds = Some(folds);
        Ok(Some(score))
    }

    /// Splits few samples, so that what is taken is measured with ranges of others.
    pub(crate) fn split(&mut self, trial: &Trial) -> Result<(), Diagnostics> {
        if self.judged.held_out {
            return Ok(());
        }
        // Of a model whose runs take long, each fold has one sample.
        let most = default_samples(&self.bases[0].model);
        let mut folds = Folds::of(&self.data, self.calibrating, most);
        if folds.are_apart() {
            let ranges = std::mem::take(&mut self.bases[trial.base].seen);
            let _part = self.data.session.part("cross-validation".into());
            self.see(trial.base, &self.parts(trial.method), &mut folds)?;
            self.bases[trial.base].seen = ranges;
            self.folds = Some(folds);
        }
        Ok(())
    }

    /// Leaves the last fold to measure what is learned of the others.
    pub(crate) fn hold_back(&mut self) {
        if let Some(last) = self.folds.as_ref().and_then(|folds| folds.all.last()) {
            self.calibrating = last.from;
        }
    }

    /// The worst output with these in floating point, on the samples that the result is judged on.
    pub(crate) fn judged_db(
        &mut self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<f64, Diagnostics> {
        Ok(match self.score_folds(trial, floats)? {
            Some(score) => score,
            None => self.measure(trial, floats)?,
        }
        .db())
    }

    /// What a result is worth, which the trial made with these in floating point.
    pub(crate) fn judge(
        &mut self,
        trial: &Trial,
        (found, floats): (&Model, &BTreeSet<NodeId>),
    ) -> Result<Judged, Diagnostics> {
        let folds = self.score_folds(trial, floats)?;
        let db = match &folds {
            Some(score) => score.db(),
            None => self.score_of(found)?.db(),
        };
        Ok(Judged { folds, db })
    }
}
