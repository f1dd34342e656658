//! `accuracy = "auto"` of static quantization: everything that may help is tried, and what clearly
//! helps is taken.
//!
//! Samples are split into folds, see [`Folds`]. What takes long to learn is learned once, without the last fold, and
//! measured on that.

use crate::accuracy::Score;
use crate::plan::params;
use crate::range::Method;
use crate::search::folds::Folds;
use crate::search::progress::Candidates;
use crate::search::static_trials::StaticSearch;
use crate::search::trial::Trial;
use onnxd_diagnostics::Diagnostics;
use std::collections::BTreeSet;
use std::slice::SliceIndex;

/// What is tried with the best of the others: AdaRound, corrected biases.
const WITH_ADAROUND: [(bool, bool); 3] = [(false, true), (true, false), (true, true)];

/// A trial and what it gives on each fold.
#[derive(Clone)]
struct MeasuredTrial {
    trial: Trial,
    scores: Vec<Score>,
}

/// The best of those that clearly lose less than what would be done without being asked for the
/// best. Among these, the mean decides.
struct Best {
    plain: MeasuredTrial,
    found: MeasuredTrial,
}

impl MeasuredTrial {
    /// What some of the folds say together.
    fn score(&self, folds: impl SliceIndex<[Score], Output = [Score]>) -> Score {
        let mut all = Score::default();
        self.scores[folds].iter().for_each(|score| all.append(score.clone()));
        all
    }
}

impl StaticSearch<'_> {
    /// Everything that may help: first the base with its ranges, then what can be added to the best
    /// of them.
    pub(crate) fn all(&mut self) -> Result<Trial, Diagnostics> {
        let mut folds = Folds::split(&self.data, self.calibrating, self.fold_max());
        let parts = self.parts(Method::Mse);
        let share = self.data.session.calibration_params().percentile();
        let mut methods =
            vec![Method::MinMax, Method::Mse, Method::Percentile(share), Method::MovingAverage];
        // What would be done without being asked for the best is among what is tried.
        let own = params::method(self.data.session);
        methods.retain(|method| *method != own);
        methods.insert(0, own);
        self.smooth_all()?;
        let mut candidates = Candidates::announce(
            self.data.session,
            methods.len() * self.bases.len() + 1 + WITH_ADAROUND.len(),
        );
        candidates.next();
        self.see(0, &parts, &mut folds)?;
        let mut plain = MeasuredTrial { trial: Trial::new(0, own), scores: Vec::new() };
        let none = BTreeSet::new();
        for at in 0..folds.all.len() {
            plain.scores.push(self.score_fold((&plain.trial, &none), at, &mut folds)?);
        }
        let db = plain.score(..).db();
        self.tell(&mut plain.trial, db);
        let mut best = Best { found: plain.clone(), plain };
        for base in 0..self.bases.len() {
            if base > 0 {
                if self.clock.late() {
                    candidates.skip(methods.len());
                    continue;
                }
                candidates.next();
                self.see(base, &parts, &mut folds)?;
            }
            for (at, method) in methods.iter().enumerate().skip(usize::from(base == 0)) {
                if at > 0 {
                    candidates.next();
                }
                best = self.better(best, Trial::new(base, *method), &mut folds)?;
            }
            let taken = best.found.trial.base;
            folds.seen.retain(|base, _| *base == taken);
        }
        candidates.next();
        let clipped = Trial { clip_weights: true, ..best.found.trial };
        best = self.better(best, clipped, &mut folds)?;
        let trial = self.with_adaround(&best.found, &mut folds, &mut candidates)?;
        self.bases[trial.base].seen = folds.ranges(trial.base, None);
        self.folds = Some(folds).filter(|folds| folds.are_apart() && !self.judged.held_out);
        Ok(trial)
    }

    /// The better one, as long as there is time. What is clearly worse on some folds is not measured
    /// on more.
    fn better(&mut self, best: Best, trial: Trial, folds: &mut Folds) -> Result<Best, Diagnostics> {
        if self.clock.late() {
            return Ok(best);
        }
        let Best { plain, found: before } = best;
        let mut found = MeasuredTrial { trial, scores: Vec::new() };
        for at in 0..folds.all.len() {
            found.scores.push(self.score_fold((&trial, &BTreeSet::new()), at, folds)?);
            if found.score(..).is_beaten_by(&before.score(..=at)) {
                break;
            }
        }
        let (same, score) = (before.score(..found.scores.len()), found.score(..));
        let gain = score.db() - same.db();
        self.tell(&mut found.trial, before.trial.db + gain);
        let whole = found.scores.len() == folds.all.len();
        let better = whole && gain > 0.0 && plain.score(..).is_beaten_by(&score);
        Ok(Best { plain, found: if better { found } else { before } })
    }

    /// Keeps for the report what a trial gives.
    fn tell(&mut self, trial: &mut Trial, db: f64) {
        trial.db = db;
        self.tried.push((trial.name(self.changes[trial.base]), db));
    }

    /// The best one with corrected biases, AdaRound or both, where that is better: learned
    /// from the samples before the last fold, and measured on that.
    fn with_adaround(
        &mut self,
        best: &MeasuredTrial,
        folds: &mut Folds,
        candidates: &mut Candidates,
    ) -> Result<Trial, Diagnostics> {
        let last = folds.all.len() - 1;
        if last > 0 {
            (self.calibrating, self.held) = (folds.all[last].from, folds.all[last].clone());
        }
        let (plain, before) = (best.score(last..), best.trial);
        let mut best = before;
        for (round, correct) in WITH_ADAROUND {
            candidates.next();
            if self.clock.late() {
                continue;
            }
            self.bases[before.base].seen = folds.ranges(before.base, Some(last));
            let mut trial = Trial { correct, ..before };
            if round {
                trial.rounding = Some(self.learn(&trial)?);
            }
            let score = self.score_fold((&trial, &BTreeSet::new()), last, folds)?;
            self.tell(&mut trial, before.db + score.db() - plain.db());
            if plain.is_beaten_by(&score) && trial.db > best.db {
                best = trial;
            }
        }
        Ok(best)
    }
}
