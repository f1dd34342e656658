//! The trials of a static quantization: the float models and samples that they are made of, and how one is made and
//! measured.

use crate::accuracy::{Base, Held, SampleSet, Score, default_samples, layers_db};
use crate::graph::WeightedNode;
use crate::observe::{Limits, StatisticParts, Stats};
use crate::plan::QuantizeRequest;
use crate::range::Method;
use crate::report::Report;
use crate::search::folds::Folds;
use crate::search::progress::{Clock, layers};
use crate::search::trial::Trial;
use crate::search::{
    AdaRoundOptions, Rounding, adaround, correct_biases, correct_biases_from_means,
};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Model, NodeId};
use std::collections::{BTreeMap, BTreeSet};

/// Samples with which biases are corrected at most.
const CORRECTED_MAX: u64 = 64;

/// Samples from which rounding is learned at most.
pub(crate) const ROUNDED_MAX: u64 = 128;

/// What was done to a float model so that it loses less.
pub(crate) const EQUALIZED: &str = "equalized weights";
/// The same, with the shares that weights take of their activations' ranges.
pub(crate) const SMOOTHED: [(f64, &str); 2] =
    [(0.5, "smoothed activations"), (0.75, "activations smoothed by 0.75")];

pub(crate) struct StaticSearch<'c> {
    pub(crate) data: SampleSet<'c>,
    pub(crate) request: &'c QuantizeRequest,
    /// The float model, and others that compute the same and may lose less.
    pub(crate) bases: Vec<Base>,
    /// What was done to the bases.
    pub(crate) changes: Vec<&'static str>,
    /// Of the channels of activations that were smoothed.
    pub(crate) magnitudes: BTreeMap<String, Vec<f64>>,
    /// Integers of weights that trials have learned.
    pub(crate) roundings: Vec<Rounding>,
    /// The samples that ranges are made of come first, those that choices are measured on last.
    pub(crate) calibrating: u64,
    pub(crate) held: Held,
    /// Those that the result is measured on.
    pub(crate) judged: Held,
    /// Few samples, split for the same purpose.
    pub(crate) folds: Option<Folds>,
    pub(crate) clock: Clock<'c>,
    pub(crate) tried: Vec<(String, f64)>,
}

impl StaticSearch<'_> {
    /// Ranges from samples, for one base.
    pub(crate) fn observe(
        &mut self,
        base: usize,
        parts: &StatisticParts,
        from: u64,
        to: u64,
    ) -> Result<(), Diagnostics> {
        if from >= to {
            return Ok(());
        }
        let _part = self.data.session.part("calibration".into());
        let mut samples = self.data.batches(from, to);
        self.bases[base].observe(&mut samples, parts, Limits::of_floats())
    }

    /// What statistics are made of.
    pub(crate) fn parts(&self, method: Method) -> StatisticParts {
        let mut parts = method.parts(self.data.batch());
        if self.data.session.calibration_params().histograms() {
            parts.bins = Method::Mse.parts(1).bins;
        }
        parts
    }

    pub(crate) fn made(
        &self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<(Base, Model, Report), Diagnostics> {
        let (base, mut model, mut done) = self.nearest(trial, floats);
        if let Some(rounding) = trial.rounding.and_then(|at| self.roundings.get(at)) {
            rounding.apply(&mut model.graph, &mut done);
            done.notes.extend(rounding.notes.iter().cloned());
        } else {
            correct_biases_from_means(&base, &mut model);
        }
        if trial.correct {
            let _part = self.data.session.part("correction of biases".into());
            let weighted: Vec<WeightedNode> =
                base.plan.weighted.iter().map(|(operator, _)| operator.clone()).collect();
            let samples = || self.data.batches(0, self.calibrating.min(CORRECTED_MAX));
            correct_biases((&base.model, &mut model), &weighted, &samples, Limits::of_floats())?;
        }
        Ok((base, model, done))
    }

    /// With the nearest integers, and biases as they are.
    fn nearest(&self, trial: &Trial, floats: &BTreeSet<NodeId>) -> (Base, Model, Report) {
        let mut request = self.request.clone();
        request.settings.clip_weights = trial.clip_weights;
        let base = self.bases[trial.base].without(&request, floats);
        let (model, done) = base.quantize(trial.method);
        (base, model, done)
    }

    /// Learns the rounding of weights for a trial; its number among the roundings.
    pub(crate) fn learn(&mut self, trial: &Trial) -> Result<usize, Diagnostics> {
        let (base, model, _) = self.nearest(trial, &BTreeSet::new());
        let _part = self.data.session.part("rounding".into());
        let layer = self.data.session.part("".into());
        let learning = AdaRoundOptions {
            samples: &|| self.data.batches(0, self.calibrating.min(ROUNDED_MAX)),
            limits: Limits::of_floats(),
            corrected: trial.correct,
            together: false,
            go_on: &|now, total| {
                layer.now(layers(&now, total));
                !self.clock.is_over()
            },
        };
        let rounding = adaround((&base.model, &model), &base.plan.weighted, &learning)?;
        self.roundings.push(rounding);
        Ok(self.roundings.len() - 1)
    }

    /// Measures a trial against the float model.
    pub(crate) fn measure(
        &mut self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<Score, Diagnostics> {
        let (_, model, _) = self.made(trial, floats)?;
        self.score_of(&model)
    }

    pub(crate) fn score_of(&mut self, model: &Model) -> Result<Score, Diagnostics> {
        self.held.score((&self.bases[0].model, model), &self.data)
    }

    /// The graph that is kept, with the SQNR of every layer.
    pub(crate) fn finish(
        &self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Result<(Model, Report), Diagnostics> {
        let (base, model, mut done) = self.made(trial, floats)?;
        done.notes.extend(unusable(&base));
        done.notes.extend(self.clock.unfinished());
        let samples = self.data.session.calibration().samples();
        if samples == 0 {
            return Ok((model, done));
        }
        let _part = self.data.session.part("comparison of layers".into());
        let mut few = self.data.batches(0, samples.min(default_samples(&base.model)));
        let found = layers_db(&base, &model, &mut few, Limits::of_floats())?;
        for layer in &mut done.layers {
            layer.sqnr_db = found.get(&layer.name).copied().flatten();
        }
        Ok((model, done))
    }
}

/// That values on the samples are not finite, so that no range holds them.
fn unusable(base: &Base) -> Option<Diagnostic> {
    let beyond = |stats: &&Stats| stats.nans + stats.infinities > 0;
    let count = base.seen.values().filter(beyond).count();
    let (name, _) = base.seen.iter().find(|(_, stats)| beyond(stats))?;
    let text = format!(
        "{count} values, `{name}` among them, are not finite on calibration data; their ranges \
         leave that out"
    );
    Some(Diagnostic::new(Code::QuantizationLoss, text).help("Look for wrong samples."))
}
