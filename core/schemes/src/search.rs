//! Static quantization: what is tried, what is measured, and what is taken.
//!
//! By default, weights are equalized where that is measured to help on a few samples; for
//! `accuracy = "auto"` see `auto`. Where something is demanded of the outputs, the fewest products
//! that keep it stay in floating point, see `bound`.

use crate::bound::{Bound, Left, Way, fewest, rescued, told};
use crate::clock::Clock;
use crate::params;
use crate::parts::{Candidates, layers};
use crate::quality::Held;
use crate::reload;
use crate::trial::Trial;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_plugin_sdk::ir::{Model, NodeId, Tensor};
use onnxd_plugin_sdk::{Calibration, QuantizeContext};
use onnxd_quantize::accuracy::Kept;
use onnxd_quantize::accuracy::{Base, First, Score, float_outputs, layers_db, score};
use onnxd_quantize::graph::Weighted;
use onnxd_quantize::observe::{Feeds, Limits, Parts, Stats};
use onnxd_quantize::plan::Request;
use onnxd_quantize::range::Method;
use onnxd_quantize::report::{Attempt, Done};
use onnxd_quantize::search::{
    Learning, Rounding, Site, correct_biases, equalized, learn_rounding, magnitudes, settle_biases,
    sites, smoothed,
};
use std::collections::{BTreeMap, BTreeSet};

/// Samples on which a choice is measured that everybody makes, and layers for the report: fewer of
/// models with many weights, whose runs take long.
pub(crate) fn few(model: &Model) -> u64 {
    let graph = &model.graph;
    let sizes = graph.value_ids().filter_map(|v| graph[v].initializer().map(Tensor::len));
    ((1 << 25) / sizes.sum::<usize>().max(1) as u64).clamp(1, 16)
}

/// Samples with which biases are corrected at most.
const CORRECTED_MAX: u64 = 64;

/// Samples from which rounding is learned at most.
pub(crate) const ROUNDED_MAX: u64 = 128;

/// How many times the median a channel of an activation must be for smoothing to be tried by
/// default: one scale then leaves the others few integers.
pub(crate) const OUTLIER: f64 = 16.0;

pub(crate) type Outcome<T> = Result<T, Diagnostics>;
pub(crate) type Batches<'c> = Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 'c>;

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

/// The largest of some magnitudes, in medians.
pub(crate) fn uneven(channels: &[f64]) -> f64 {
    let mut sorted = channels.to_vec();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or(1.0);
    sorted.last().copied().unwrap_or(1.0) / median.max(f64::MIN_POSITIVE)
}

/// Samples and params.
#[derive(Clone, Copy)]
pub struct Data<'c>(
    pub(crate) &'c QuantizeContext,
    pub(crate) &'c Calibration,
    /// Where samples begin that only look at results.
    pub(crate) u64,
);

/// What was done to a float model so that it loses less.
pub(crate) const EQUALIZED: &str = "equalized weights";
/// The same, with the shares that weights take of their activations' ranges.
pub(crate) const SMOOTHED: [(f64, &str); 2] =
    [(0.5, "smoothed activations"), (0.75, "activations smoothed by 0.75")];

pub(crate) struct Search<'c> {
    pub(crate) data: Data<'c>,
    pub(crate) request: &'c Request,
    /// The float model, and others that compute the same and may lose less.
    pub(crate) bases: Vec<Base>,
    /// What was done to the bases.
    pub(crate) changes: Vec<&'static str>,
    /// Of the channels of activations that were smoothed.
    pub(crate) magnitudes: BTreeMap<String, Vec<f64>>,
    /// Integers of weights that trials have learned.
    pub(crate) roundings: Vec<Rounding>,
    /// The samples that ranges are made of come first, those that choices are measured on last.
    pub(crate) learned: u64,
    pub(crate) held: (u64, u64),
    /// Those that the result is measured on.
    pub(crate) judged: Held,
    /// What the float model gives on the samples that choices are measured on.
    pub(crate) float: Vec<Kept>,
    pub(crate) clock: Clock,
    pub(crate) tried: Vec<(String, f64)>,
}

/// Quantizes with ranges of activations from calibration data, or from the statistics of an earlier
/// calibration.
///
/// # Errors
/// That there are no samples, why they cannot be had, or why the model does not run on them; what
/// is wrong with the statistics.
pub fn quantize(
    model: &mut Model,
    request: &Request,
    cx: &mut QuantizeContext,
) -> Outcome<(Done, Held)> {
    if cx.flag(reload::ASKED) {
        return reload::quantize(model, request, cx);
    }
    if cx.calibration().is_empty() {
        let text = "quantization takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs, or take \
                    `quantization.mode` = \"dynamic\".";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let (found, done, kept, held) = {
        let mut search = Search::new(model, request, cx)?;
        let auto = cx.text("quantization.accuracy") == Some("auto");
        let mut trial = if auto { search.all()? } else { search.usual()? };
        let chosen = trial.name(search.changes[trial.base]);
        if trial.rounding.is_none() && params::learns(cx) {
            trial.rounding = Some(search.learn(&trial)?);
        }
        let (found, mut done, kept) = search.kept(&trial, cx)?;
        let saved = reload::saved(model, &search, &trial, &kept.floats)?;
        cx.file(reload::STATISTICS, &saved.to_json())?;
        let attempt = |(what, sqnr_db): (String, f64)| {
            let chosen = what == chosen;
            Attempt { what, sqnr_db, chosen }
        };
        done.tried = search.tried.into_iter().map(attempt).collect();
        (found, done, kept, Held { float: search.float, ..search.judged })
    };
    *model = found;
    told(kept, cx);
    Ok((done, held))
}

impl<'c> Data<'c> {
    /// Those of the submission.
    #[must_use]
    pub fn of(cx: &'c QuantizeContext) -> Data<'c> {
        Data(cx, cx.calibration(), u64::MAX)
    }

    /// Samples that run at once.
    fn batch(&self) -> u64 {
        self.1.batch_size().max(1) as u64
    }

    /// As many samples in whole batches, or a few more: a model may take no others.
    pub(crate) fn whole(&self, samples: u64) -> u64 {
        samples.next_multiple_of(self.batch())
    }

    /// Samples number `from` to `to`, both in whole batches.
    pub(crate) fn batches(&self, from: u64, to: u64) -> Batches<'_> {
        let size = self.batch();
        let to = self.whole(to);
        let all = self.1.batches(size as usize, to);
        let all = if from >= self.2 { all.apart() } else { all };
        let part = all.skip(usize::try_from(from.div_ceil(size)).unwrap_or(usize::MAX));
        let total = to - from.min(to);
        Box::new(part.zip(0u64..).map(move |(batch, done)| {
            self.0.count("sample", done * size, total)?;
            batch
        }))
    }
}

impl<'c> Search<'c> {
    fn new(model: &Model, request: &'c Request, cx: &'c QuantizeContext) -> Outcome<Search<'c>> {
        let none = BTreeSet::new();
        let mut bases = vec![Base::new(model.clone(), request, &none)];
        let mut changes = vec![""];
        if let Some(even) = equalized(model, request.settings.per_channel)? {
            bases.push(Base::new(even, request, &none));
            changes.push(EQUALIZED);
        }
        let data = Data::of(cx);
        let judged = Held::last(&data, model);
        let learned = judged.learned(&data);
        let data = Data(cx, data.1, if judged.apart { judged.from } else { u64::MAX });
        let held = (0, learned.min(few(model)));
        Ok(Search {
            data,
            judged,
            request,
            bases,
            changes,
            magnitudes: BTreeMap::new(),
            roundings: Vec::new(),
            learned,
            held,
            float: Vec::new(),
            clock: Clock::of(cx),
            tried: Vec::new(),
        })
    }

    /// Ranges from samples, for one base.
    pub(crate) fn observe(
        &mut self,
        base: usize,
        method: Method,
        from: u64,
        to: u64,
    ) -> Outcome<()> {
        if from >= to {
            return Ok(());
        }
        let _part = self.data.0.part("calibration");
        let mut samples = self.data.batches(from, to);
        let parts = self.parts(method);
        self.bases[base].observe(&mut samples, &parts, Limits::of_floats())
    }

    /// What the first samples tell of one base.
    fn first(&mut self, base: usize, method: Method, sites: &[Site]) -> Outcome<First> {
        let _part = self.data.0.part("first calibration");
        let parts = self.parts(method);
        let mut few = self.data.batches(0, self.held.1);
        let base = &mut self.bases[base];
        let sites = sites.iter().map(|site| site.name(&base.model.graph)).collect();
        base.observe_first(&mut few, &parts, &sites, Limits::of_floats())
    }

    /// What statistics are made of.
    fn parts(&self, method: Method) -> Parts {
        let mut parts = method.parts(self.data.batch());
        if self.data.0.flag("calibration.histograms") {
            parts.bins = Method::Mse.parts(1).bins;
        }
        parts
    }

    pub(crate) fn made(
        &self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Outcome<(Base, Model, Done)> {
        let (base, mut model, mut done) = self.nearest(trial, floats);
        if let Some(rounding) = trial.rounding.and_then(|at| self.roundings.get(at)) {
            rounding.apply(&mut model.graph, &mut done);
            done.notes.extend(rounding.notes.iter().cloned());
        } else {
            settle_biases(&base, &mut model);
        }
        if trial.correct {
            let _part = self.data.0.part("correction of biases");
            let products: Vec<Weighted> =
                base.plan.products.iter().map(|(product, _)| product.clone()).collect();
            let samples = || self.data.batches(0, self.learned.min(CORRECTED_MAX));
            correct_biases((&base.model, &mut model), &products, &samples, Limits::of_floats())?;
        }
        Ok((base, model, done))
    }

    /// With the nearest integers, and biases as they are.
    fn nearest(&self, trial: &Trial, floats: &BTreeSet<NodeId>) -> (Base, Model, Done) {
        let mut request = self.request.clone();
        request.settings.clip_weights = trial.clip_weights;
        let base = self.bases[trial.base].without(&request, floats);
        let (model, done) = base.quantize(trial.method);
        (base, model, done)
    }

    /// Learns the rounding of weights for a trial; its number among the roundings.
    pub(crate) fn learn(&mut self, trial: &Trial) -> Outcome<usize> {
        let (base, model, _) = self.nearest(trial, &BTreeSet::new());
        let _part = self.data.0.part("rounding");
        let layer = self.data.0.part("");
        let learning = Learning {
            samples: &|| self.data.batches(0, self.learned.min(ROUNDED_MAX)),
            limits: Limits::of_floats(),
            corrected: trial.correct,
            together: false,
            go_on: &|now, total| {
                layer.now(layers(&now, total));
                !self.clock.is_over()
            },
        };
        let rounding = learn_rounding((&base.model, &model), &base.plan.products, &learning)?;
        self.roundings.push(rounding);
        Ok(self.roundings.len() - 1)
    }

    /// Measures a trial against the float model.
    fn measure(&mut self, trial: &Trial, floats: &BTreeSet<NodeId>) -> Outcome<Score> {
        let (_, model, _) = self.made(trial, floats)?;
        self.score_of(&model)
    }

    fn score_of(&mut self, model: &Model) -> Outcome<Score> {
        let float = &self.bases[0].model;
        let held = || self.data.batches(self.held.0, self.held.1);
        if self.float.is_empty() {
            let _part = self.data.0.part("float outputs");
            self.float = float_outputs(float, &mut held(), Limits::of_floats())?;
        }
        let _part = self.data.0.part("comparison");
        score((float, model), &mut held(), &self.float, Limits::of_floats())
    }

    fn attempt(&mut self, mut trial: Trial) -> Outcome<(Trial, Score)> {
        let score = self.measure(&trial, &BTreeSet::new())?;
        trial.db = score.db();
        self.tried.push((trial.name(self.changes[trial.base]), trial.db));
        Ok((trial, score))
    }

    /// Whether one way is taken rather than another, both measured on a few samples. Where weights
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
        sites: &[Site],
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
    fn usual(&mut self) -> Outcome<Trial> {
        let method = params::method(self.data.0);
        let sites = sites(&self.bases[0]);
        let first = self.first(0, method, &sites)?;
        self.float = first.outputs;
        self.smooth(&sites, first.magnitudes, OUTLIER, &SMOOTHED[..1]);
        let mut best = (Trial::new(0, method), Score::default());
        let mut candidates = Candidates::of(self.data.0, self.bases.len());
        if self.bases.len() > 1 {
            candidates.next();
            best = self.attempt(best.0)?;
            for base in 1..self.bases.len() {
                candidates.next();
                if self.clock.late() {
                    continue;
                }
                self.first(base, method, &[])?;
                let found = self.attempt(Trial::new(base, method))?;
                best = if self.is_taken(&found, &best) { found } else { best };
            }
        }
        drop(candidates);
        // Weights of bases behind the chosen one are not needed any more.
        let (best, _) = best;
        self.bases.truncate(best.base + 1);
        self.observe(best.base, method, self.held.1, self.learned)?;
        Ok(best)
    }

    /// As [`Search::smooth`], of all channels that are uneven at all on a few samples.
    pub(crate) fn smooth_all(&mut self) -> Outcome<()> {
        let sites = sites(&self.bases[0]);
        if sites.is_empty() {
            return Ok(());
        }
        let model = &self.bases[0].model;
        let _part = self.data.0.part("uneven channels");
        let mut few = self.data.batches(0, few(model).min(self.learned));
        let found = magnitudes(model, &sites, &mut few, Limits::of_floats())?;
        drop(few);
        self.smooth(&sites, found, 1.0, &SMOOTHED);
        Ok(())
    }

    /// Samples of each part that ways are measured on at most: where many ways are tried, fewer of
    /// models whose runs take long.
    pub(crate) fn fold_max(&self) -> u64 {
        4 * few(&self.bases[0].model)
    }

    /// The graph that is kept, and what stays in floating point in it: what is demanded of the
    /// outputs is measured on the samples that the result is, and else what ruins them is kept out.
    fn kept(&mut self, trial: &Trial, cx: &QuantizeContext) -> Outcome<(Model, Done, Left)> {
        let samples = (self.judged.from, self.judged.to);
        if self.held != samples {
            self.held = samples;
            self.float.clear();
        }
        let left = match Bound::of(cx) {
            Some(bound) => {
                let _part = cx.part("what is demanded");
                fewest(bound, &mut Fallback { search: self, trial })?
            }
            None => {
                let (found, done) = self.finish(trial, &BTreeSet::new())?;
                let db = self.score_of(&found)?.db();
                let _part = cx.part("what ruins outputs");
                let left = rescued(db, &mut Fallback { search: self, trial })?;
                if left.floats.is_empty() {
                    return Ok((found, done, left));
                }
                left
            }
        };
        let _part = cx.part("result");
        let (found, mut done) = self.finish(trial, &left.floats)?;
        done.notes.extend(left.note.clone());
        Ok((found, done, left))
    }

    /// The graph that is kept, with the ratio of every layer.
    pub(crate) fn finish(
        &self,
        trial: &Trial,
        floats: &BTreeSet<NodeId>,
    ) -> Outcome<(Model, Done)> {
        let (base, model, mut done) = self.made(trial, floats)?;
        done.notes.extend(unusable(&base));
        done.notes.extend(self.clock.unfinished());
        let samples = self.data.0.calibration().samples();
        if samples == 0 {
            return Ok((model, done));
        }
        let _part = self.data.0.part("comparison of layers");
        let mut few = self.data.batches(0, samples.min(few(&base.model)));
        let found = layers_db(&base, &model, &mut few, Limits::of_floats())?;
        for layer in &mut done.layers {
            layer.sqnr_db = found.get(&layer.name).copied().flatten();
        }
        Ok((model, done))
    }
}

/// A trial of which products can be left out.
struct Fallback<'s, 'c> {
    search: &'s mut Search<'c>,
    trial: &'s Trial,
}

impl Way for Fallback<'_, '_> {
    fn choices(&self) -> Outcome<Vec<NodeId>> {
        Ok(self.search.bases[self.trial.base].choices().into_iter().collect())
    }

    fn ratio(&mut self, floats: &BTreeSet<NodeId>) -> Outcome<f64> {
        Ok(self.search.measure(self.trial, floats)?.db())
    }

    fn model(&self, floats: &BTreeSet<NodeId>) -> Outcome<Model> {
        Ok(self.search.made(self.trial, floats)?.1)
    }

    fn float(&self) -> &Model {
        &self.search.bases[0].model
    }

    fn data(&self) -> &Data<'_> {
        &self.search.data
    }

    fn hurry(&mut self) {
        self.search.clock.hurry();
    }

    fn late(&mut self) -> bool {
        self.search.clock.late()
    }
}
