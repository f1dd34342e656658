//! What a trial is worth on samples that its ranges are not made of.

use crate::accuracy::{SampleSet, Score, default_samples};
use crate::observe::StatisticParts;
use crate::search::float_fallback::FloatFallback;
use crate::search::folds::{FoldStatistics, Folds, Judged};
use crate::search::static_trials::StaticSearch;
use crate::search::trial::Trial;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Model, NodeId};
use std::collections::BTreeSet;

impl StaticSearch<'_> {
    /// Sees what values a base has before the folds and in each.
    pub(crate) fn see(
        &mut self,
        base: usize,
        parts: &StatisticParts,
        folds: &mut Folds,
    ) -> Result<(), Diagnostics> {
        let mut seen = Vec::new();
        let first = folds.all.first().map_or(0, |fold| fold.from);
        let ends = folds.all.iter().map(|fold| (fold.from, fold.to));
        let part = self.data.session.part("".into());
        for (at, (from, to)) in std::iter::once((0, first)).chain(ends).enumerate() {
            part.now(format!("part {} of {}", at + 1, folds.all.len() + 1));
            self.bases[base].seen = FoldStatistics::new();
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
        let mut folds = Folds::split(&self.data, self.calibrating, most);
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

/// A trial of which weighted operators can be left out.
pub(crate) struct Fallback<'s, 'c> {
    pub(crate) search: &'s mut StaticSearch<'c>,
    pub(crate) trial: &'s Trial,
}

impl FloatFallback for Fallback<'_, '_> {
    fn choices(&self) -> Result<Vec<NodeId>, Diagnostics> {
        Ok(self.search.bases[self.trial.base].choices().into_iter().collect())
    }

    fn sqnr_db(&mut self, floats: &BTreeSet<NodeId>) -> Result<f64, Diagnostics> {
        self.search.judged_db(self.trial, floats)
    }

    fn model(&self, floats: &BTreeSet<NodeId>) -> Result<Model, Diagnostics> {
        Ok(self.search.made(self.trial, floats)?.1)
    }

    fn float(&self) -> &Model {
        &self.search.bases[0].model
    }

    fn data(&self) -> &SampleSet<'_> {
        &self.search.data
    }

    fn hurry(&mut self) {
        self.search.clock.hurry();
    }

    fn late(&mut self) -> bool {
        self.search.clock.late()
    }
}
