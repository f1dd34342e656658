//! Static quantization: what is tried, what is measured, and what is taken.
//!
//! By default, weights are equalized where that is measured to help on a few samples; for
//! `accuracy = "auto"` see `auto`. Where something is demanded of the outputs, the fewest weighted operators
//! that keep it stay in floating point, see `demand`.

use crate::accuracy::{Base, FirstPass, Held, SampleSet, Score, default_samples};
use crate::observe::Limits;
use crate::plan::{QuantizeRequest, params};
use crate::range::Method;
use crate::report::Report;
use crate::search::float_fallback::{Demand, InFloat, fewest, rescued};
use crate::search::folds::Judged;
use crate::search::progress::{Candidates, Clock};
use crate::search::smooth_quant::uneven;
use crate::search::static_scores::Fallback;
use crate::search::static_trials::{EQUALIZED, SMOOTHED, StaticSearch};
use crate::search::trial::Trial;
use crate::search::{
    SmoothableActivation, equalized, magnitudes, saved_calibration, sites, smoothed,
};
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::Model;
use onnxd_proto::onnxd::Attempt;
use std::collections::{BTreeMap, BTreeSet};

/// How many times the median a channel of an activation must be for smoothing to be tried by
/// default: one scale then leaves the others few integers.
pub(crate) const OUTLIER: f64 = 16.0;

/// Quantizes with ranges of activations from calibration data, or from the statistics of an earlier
/// calibration.
///
/// # Errors
/// That there are no samples, why they cannot be had, or why the model does not run on them; what
/// is wrong with the statistics.
pub fn search_static(
    model: &mut Model,
    request: &QuantizeRequest,
    cx: &dyn Session,
) -> Result<(Report, Held), Diagnostics> {
    if cx.calibration_params().reload() {
        return saved_calibration::quantize(model, request, cx);
    }
    if cx.calibration().samples() == 0 {
        let text = "quantization takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, or take \
                    `quantization.mode` = \"dynamic\".";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let (quantized, mut done, kept, held) = {
        let mut search = StaticSearch::new(model, request, cx)?;
        let auto = params::tries_all(cx);
        let mut trial = if auto { search.all()? } else { search.usual()? };
        let chosen = trial.name(search.changes[trial.base]);
        if search.folds.is_none() {
            search.split(&trial)?;
        }
        if trial.rounding.is_none() && params::learns(cx) {
            search.hold_back();
            trial.rounding = Some(search.learn(&trial)?);
        }
        let (quantized, mut done, kept, judged) = search.kept(&trial, cx)?;
        done.quality.remedies = search.remedies(&trial, (&quantized, &kept.floats), judged.db)?;
        let saved = saved_calibration::saved(model, &search, &trial, &kept.floats)?;
        cx.write(saved_calibration::STATISTICS, &saved.to_json())?;
        let attempt = |(what, sqnr_db): (String, f64)| {
            let chosen = what == chosen;
            Attempt { what, sqnr_db, chosen }
        };
        done.tried = search.tried.into_iter().map(attempt).collect();
        (
            quantized,
            done,
            kept,
            Held { float: search.held.float, folds: judged.folds, ..search.judged },
        )
    };
    *model = quantized;
    kept.tell(&mut done);
    Ok((done, held))
}

impl<'c> StaticSearch<'c> {
    fn new(
        model: &Model,
        request: &'c QuantizeRequest,
        cx: &'c dyn Session,
    ) -> Result<StaticSearch<'c>, Diagnostics> {
        let none = BTreeSet::new();
        let mut bases = vec![Base::new(model.clone(), request, &none)];
        let mut changes = vec![""];
        if let Some(even) = equalized(model, request.settings.per_channel)? {
            bases.push(Base::new(even, request, &none));
            changes.push(EQUALIZED);
        }
        let data = SampleSet::of(cx);
        let judged = Held::last(&data, model);
        let calibrating = judged.calibrating(&data);
        let data = SampleSet {
            measured_from: if judged.held_out { judged.from } else { u64::MAX },
            ..data
        };
        let held = Held::between(0, calibrating.min(default_samples(model)));
        Ok(StaticSearch {
            data,
            judged,
            request,
            bases,
            changes,
            magnitudes: BTreeMap::new(),
            roundings: Vec::new(),
            calibrating,
            held,
            folds: None,
            clock: Clock::start(cx),
            tried: Vec::new(),
        })
    }

    /// What the first samples tell of one base.
    fn first(
        &mut self,
        base: usize,
        method: Method,
        sites: &[SmoothableActivation],
    ) -> Result<FirstPass, Diagnostics> {
        let _part = self.data.session.part("first calibration".into());
        let parts = self.parts(method);
        let mut few = self.data.batches(0, self.held.to);
        let base = &mut self.bases[base];
        let sites = sites.iter().map(|site| site.name(&base.model.graph)).collect();
        base.first_pass(&mut few, &parts, &sites, Limits::of_floats())
    }

    fn attempt(&mut self, mut trial: Trial) -> Result<(Trial, Score), Diagnostics> {
        let score = self.measure(&trial, &BTreeSet::new())?;
        trial.db = score.db();
        self.tried.push((trial.name(self.changes[trial.base]), trial.db));
        Ok((trial, score))
    }

    /// Whether one candidate is taken rather than another, both measured on a few samples. Where weights
    /// share one scale, even ones lose less as a rule, and more only if samples clearly say so.
    fn is_taken(&self, one: &(Trial, Score), other: &(Trial, Score)) -> bool {
        let even = self.changes[one.0.base] == EQUALIZED;
        match even && !self.request.settings.per_channel {
            true => !one.1.is_beaten_by(&other.1),
            false => one.0.db > other.0.db,
        }
    }

    /// Adds bases whose activations are evened out, for each of the shares that the weights take;
    /// none if no channel is `outlier` times as large as the median.
    fn smooth(
        &mut self,
        sites: &[SmoothableActivation],
        found: BTreeMap<String, Vec<f64>>,
        outlier: f64,
        shares: &[(f64, &'static str)],
    ) {
        if !found.values().any(|channels| uneven(channels) >= outlier) {
            return;
        }
        let model = &self.bases[0].model;
        let made = shares
            .iter()
            .filter_map(|(share, name)| Some((smoothed(model, sites, &found, *share)?, *name)));
        for (model, name) in made.collect::<Vec<_>>() {
            self.bases.push(Base::new(model, self.request, &BTreeSet::new()));
            self.changes.push(name);
        }
        self.magnitudes = found;
    }

    /// What the params ask for, with equalized weights or smoothed activations where that helps on a
    /// few samples.
    fn usual(&mut self) -> Result<Trial, Diagnostics> {
        let method = params::method(self.data.session);
        let sites = sites(&self.bases[0]);
        let first = self.first(0, method, &sites)?;
        self.held.float = first.outputs;
        self.smooth(&sites, first.magnitudes, OUTLIER, &SMOOTHED[..1]);
        let mut best = (Trial::new(0, method), Score::default());
        let mut candidates = Candidates::announce(self.data.session, self.bases.len());
        if self.bases.len() > 1 {
            candidates.next();
            best = self.attempt(best.0)?;
            for base in 1..self.bases.len() {
                candidates.next();
                if self.clock.late() {
                    continue;
                }
                self.first(base, method, &[])?;
                let attempted = self.attempt(Trial::new(base, method))?;
                best = if self.is_taken(&attempted, &best) { attempted } else { best };
            }
        }
        drop(candidates);
        // Weights of bases behind the chosen one are not needed any more.
        let (best, _) = best;
        self.bases.truncate(best.base + 1);
        self.observe(best.base, &self.parts(method), self.held.to, self.calibrating)?;
        Ok(best)
    }

    /// As [`StaticSearch::smooth`], of all channels that are uneven at all on a few samples.
    pub(crate) fn smooth_all(&mut self) -> Result<(), Diagnostics> {
        let sites = sites(&self.bases[0]);
        if sites.is_empty() {
            return Ok(());
        }
        let model = &self.bases[0].model;
        let _part = self.data.session.part("uneven channels".into());
        let mut few = self.data.batches(0, default_samples(model).min(self.calibrating));
        let found = magnitudes(model, &sites, &mut few, Limits::of_floats())?;
        drop(few);
        self.smooth(&sites, found, 1.0, &SMOOTHED);
        Ok(())
    }

    /// Samples of each part that candidates are measured on at most: where many candidates are tried, fewer of
    /// models whose runs take long.
    pub(crate) fn fold_max(&self) -> u64 {
        4 * default_samples(&self.bases[0].model)
    }

    /// The graph that is kept, and what stays in floating point in it: what is demanded of the
    /// outputs is measured on the samples that the result is, and else what ruins them is kept out.
    fn kept(
        &mut self,
        trial: &Trial,
        cx: &dyn Session,
    ) -> Result<(Model, Report, InFloat, Judged), Diagnostics> {
        if (self.held.from, self.held.to) != (self.judged.from, self.judged.to) {
            self.held = self.judged.clone();
        }
        let left = match Demand::from_params(cx) {
            Some(demand) => {
                let _part = cx.part("what is demanded".into());
                fewest(demand, &mut Fallback { search: self, trial })?
            }
            None => {
                let (quantized, done) = self.finish(trial, &BTreeSet::new())?;
                let judged = self.judge(trial, (&quantized, &BTreeSet::new()))?;
                let _part = cx.part("what ruins outputs".into());
                let left = rescued(judged.db, &mut Fallback { search: self, trial })?;
                if left.floats.is_empty() {
                    return Ok((quantized, done, left, judged));
                }
                left
            }
        };
        let _part = cx.part("result".into());
        let (quantized, mut done) = self.finish(trial, &left.floats)?;
        done.notes.extend(left.note.clone());
        let judged = self.judge(trial, (&quantized, &left.floats))?;
        Ok((quantized, done, left, judged))
    }
}
