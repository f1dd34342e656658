//! `accuracy = "auto"` of static quantization: everything that may help is tried, and what clearly
//! helps is taken.
//!
//! Ranges are made of some samples and measured on others: samples are split into folds, each of which
//! is measured with the ranges of all others, so that every sample counts once and none for itself
//! (cross-validation). In the end, ranges are those of all samples. What takes long to learn is
//! learned once, without the last fold, and measured on that.

use crate::accuracy::{Held, Score};
use crate::observe::{Statistic, Stats};
use crate::plan::params;
use crate::range::Method;
use crate::search::progress::Candidates;
use crate::search::static_search::Search;
use crate::search::trial::Trial;
use onnxd_diagnostics::Diagnostics;
use std::collections::{BTreeMap, BTreeSet};
use std::slice::SliceIndex;

/// Folds of the k-fold cross-validation.
const FOLDS: u64 = 4;

/// What is tried with the best of the others: AdaRound, corrected biases.
const WITH_ADAROUND: [(bool, bool); 3] = [(false, true), (true, false), (true, true)];

/// What was seen of the values of a base in some samples.
type Seen = BTreeMap<String, Stats>;

/// The folds of a k-fold cross-validation: those before the folds are in all ranges.
struct Folds {
    /// Each is measured with the ranges of all others.
    all: Vec<Held>,
    /// By base, what was seen before the folds, and in each.
    seen: BTreeMap<usize, Vec<Seen>>,
    candidates: Candidates,
}

/// A trial and what it gives on each fold.
#[derive(Clone)]
struct Found {
    trial: Trial,
    scores: Vec<Score>,
}

/// The best of those that clearly lose less than what would be done without being asked for the
/// best. Among these, the mean decides.
struct Best {
    plain: Found,
    found: Found,
}

impl Found {
    /// What some of the folds say together.
    fn score(&self, folds: impl SliceIndex<[Score], Output = [Score]>) -> Score {
        let mut all = Score::default();
        self.scores[folds].iter().for_each(|score| all.append(score.clone()));
        all
    }
}

impl Search<'_> {
    /// Everything that may help: first the base with its ranges, then what can be added to the best
    /// of them.
    pub(crate) fn all(&mut self) -> Result<Trial, Diagnostics> {
        let mut folds = self.folds();
        let share = self.data.session.calibration_params().percentile();
        let mut methods =
            vec![Method::MinMax, Method::Mse, Method::Percentile(share), Method::MovingAverage];
        // What would be done without being asked for the best is among what is tried.
        let own = params::method(self.data.session);
        methods.retain(|method| *method != own);
        methods.insert(0, own);
        self.smooth_all()?;
        folds.candidates = Candidates::of(
            self.data.session,
            methods.len() * self.bases.len() + 1 + WITH_ADAROUND.len(),
        );
        folds.candidates.next();
        self.see(0, &mut folds)?;
        let mut plain = Found { trial: Trial::new(0, own), scores: Vec::new() };
        for at in 0..folds.all.len() {
            plain.scores.push(self.score(&plain.trial, at, &mut folds)?);
        }
        let db = plain.score(..).db();
        self.tell(&mut plain.trial, db);
        let mut best = Best { found: plain.clone(), plain };
        for base in 0..self.bases.len() {
            if base > 0 {
                if self.clock.late() {
                    folds.candidates.skip(methods.len());
                    continue;
                }
                folds.candidates.next();
                self.see(base, &mut folds)?;
            }
            for (at, method) in methods.iter().enumerate().skip(usize::from(base == 0)) {
                if at > 0 {
                    folds.candidates.next();
                }
                best = self.better(best, Trial::new(base, *method), &mut folds)?;
            }
            let taken = best.found.trial.base;
            folds.seen.retain(|base, _| *base == taken);
        }
        folds.candidates.next();
        let clipped = Trial { clip_weights: true, ..best.found.trial };
        best = self.better(best, clipped, &mut folds)?;
        let trial = self.with_adaround(&best.found, &mut folds)?;
        self.bases[trial.base].seen = folds.ranges(trial.base, None);
        Ok(trial)
    }

    /// Samples in folds; too few of them are used twice.
    fn folds(&mut self) -> Folds {
        let samples = self.calibrating;
        let size = self.data.whole((samples / FOLDS).min(self.fold_max()).max(1));
        let count = (samples / size).min(FOLDS);
        let fold = |i: u64| {
            let from = samples - (count - i) * size;
            Held::between(from, from + size)
        };
        let whole = || vec![Held::between(0, samples)];
        let all = if samples < 8 || count < 2 { whole() } else { (0..count).map(fold).collect() };
        Folds { all, seen: BTreeMap::new(), candidates: Candidates::of(self.data.session, 0) }
    }

    /// Sees what values a base has.
    fn see(&mut self, base: usize, folds: &mut Folds) -> Result<(), Diagnostics> {
        let mut parts = Vec::new();
        let first = folds.all.first().map_or(0, |fold| fold.from);
        let ends = folds.all.iter().map(|fold| (fold.from, fold.to));
        let part = self.data.session.part("".into());
        for (at, (from, to)) in std::iter::once((0, first)).chain(ends).enumerate() {
            part.now(format!("part {} of {}", at + 1, folds.all.len() + 1));
            self.bases[base].seen = Seen::new();
            self.observe(base, Method::Mse, from, to)?;
            parts.push(std::mem::take(&mut self.bases[base].seen));
        }
        folds.seen.insert(base, parts);
        Ok(())
    }

    /// What a trial gives on fold number `at`, with the ranges of the others.
    fn score(&mut self, trial: &Trial, at: usize, folds: &mut Folds) -> Result<Score, Diagnostics> {
        self.bases[trial.base].seen = folds.ranges(trial.base, Some(at));
        let _fold = self.data.session.part(format!("fold {} of {}", at + 1, folds.all.len()));
        let (_, model, _) = self.made(trial, &BTreeSet::new())?;
        folds.all[at].score((&self.bases[0].model, &model), &self.data)
    }

    /// The better one, as long as there is time. What is clearly worse on some folds is not measured
    /// on more.
    fn better(&mut self, best: Best, trial: Trial, folds: &mut Folds) -> Result<Best, Diagnostics> {
        if self.clock.late() {
            return Ok(best);
        }
        let Best { plain, found: before } = best;
        let mut found = Found { trial, scores: Vec::new() };
        for at in 0..folds.all.len() {
            found.scores.push(self.score(&trial, at, folds)?);
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
    fn with_adaround(&mut self, best: &Found, folds: &mut Folds) -> Result<Trial, Diagnostics> {
        let last = folds.all.len() - 1;
        if last > 0 {
            (self.calibrating, self.held) = (folds.all[last].from, folds.all[last].clone());
        }
        let (plain, before) = (best.score(last..), best.trial);
        let mut best = before;
        for (round, correct) in WITH_ADAROUND {
            folds.candidates.next();
            if self.clock.late() {
                continue;
            }
            self.bases[before.base].seen = folds.ranges(before.base, Some(last));
            let mut trial = Trial { correct, ..before };
            if round {
                trial.rounding = Some(self.learn(&trial)?);
            }
            let score = self.score(&trial, last, folds)?;
            self.tell(&mut trial, before.db + score.db() - plain.db());
            if plain.is_beaten_by(&score) && trial.db > best.db {
                best = trial;
            }
        }
        Ok(best)
    }
}

impl Folds {
    /// What was seen of a base's values in all samples but those of one fold.
    fn ranges(&self, base: usize, without: Option<usize>) -> Seen {
        let mut all = Seen::new();
        let parts = self.seen.get(&base).into_iter().flatten().enumerate();
        let alone = self.all.len() == 1;
        for (_, part) in parts.filter(|(at, _)| alone || without.is_none_or(|fold| *at != fold + 1))
        {
            for (name, stats) in part {
                match all.get_mut(name) {
                    Some(before) => before.merge(stats),
                    None => {
                        all.insert(name.clone(), stats.clone());
                    }
                }
            }
        }
        all
    }
}
