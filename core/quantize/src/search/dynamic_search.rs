//! Ranges at run time. They need no samples, and what evens out activations none either, where it is
//! plain that it helps. Samples decide where they take next to no time to run, and with
//! `accuracy = "auto"`.

use crate::accuracy::{self, Base, Held, SampleSet, Score, default_samples};
use crate::emit::quantize_dynamic_but;
use crate::observe::Limits;
use crate::plan::QuantizeRequest;
use crate::plan::params;
use crate::report::{Form, Report, name_of};
use crate::search::float_fallback::{Demand, FloatFallback, InFloat, fewest, rescued};
use crate::search::progress::{Candidates, Clock, layers};
use crate::search::smooth_quant::uneven;
use crate::search::static_search::OUTLIER;
use crate::search::static_trials::{EQUALIZED, ROUNDED_MAX, SMOOTHED};
use crate::search::{
    AdaRoundOptions, AdaRoundWeights, equalized, expected, magnitudes, sites, smoothed,
};
use crate::session::Session;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Model, NodeId};
use onnxd_proto::onnxd::Attempt;
use std::collections::BTreeSet;

/// Samples that a model runs on in next to no time.
const QUICK: u64 = 8;

/// Samples that candidates are measured on at most with `accuracy = "auto"`.
const HELD_MAX: u64 = 64;

/// Multiplications that learning may take without being asked for.
const EFFORT_MAX: f64 = (1u64 << 32) as f64;

/// Quantizes with ranges of activations that are found at run time.
///
/// # Errors
/// For what no operator on integers takes; why samples cannot be had, or a model does not run on
/// them.
pub fn search_dynamic(
    model: &mut Model,
    request: &QuantizeRequest,
    form: Form,
    cx: &dyn Session,
) -> Result<(Report, Option<Held>), Diagnostics> {
    let samples = cx.calibration().samples();
    let auto = params::tries_all(cx);
    let learns = params::learns(cx);
    if learns && samples == 0 {
        let text =
            "`quantization.rounding` = \"adaround\" takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs.";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let demand = Demand::from_params(cx).filter(|_| samples > 0);
    // A single sample that chose a way could not tell what it is worth.
    let measured = samples > cx.calibration().batch_size().max(1) as u64
        && (auto || default_samples(model) >= QUICK);
    let drawn = if samples == 0 { accuracy::random_samples(model, cx).ok() } else { None };
    let (quantized, mut done, change, kept, held) = {
        let data = match &drawn {
            Some(drawn) => SampleSet { calibration: drawn.as_ref(), ..SampleSet::of(cx) },
            None => SampleSet::of(cx),
        };
        let mut search = DynamicSearch::new(model, request, form, data, auto);
        let mut base = match measured {
            true => search.best(auto, learns)?,
            false => evident(model, request).unwrap_or_else(|| Variant::new(model.clone(), "")),
        };
        if learns {
            base.weights = search.learn(&base.model, false)?;
        }
        let mut variant = Fallback { base: &base, search: &mut search };
        let left = match demand {
            Some(demand) => fewest(demand, &mut variant)?,
            None if data.calibration.samples() == 0 => InFloat::default(),
            None => {
                match variant.sqnr_db(&BTreeSet::new()).and_then(|db| rescued(db, &mut variant)) {
                    Ok(left) => left,
                    Err(quantized) if cx.is_stopped() => return Err(quantized),
                    // No range depends on samples: why they are no good is told where all is measured.
                    Err(_) => InFloat::default(),
                }
            }
        };
        let (quantized, mut done) = search.made(&base, &left.floats)?;
        done.notes.extend(left.note.clone());
        done.tried = std::mem::take(&mut search.tried);
        done.notes.extend(search.clock.unfinished());
        let held_out = search.calibrating <= search.held.from || !(measured || learns);
        let held = Held { held_out, ..search.held };
        (quantized, done, base.change, left, (samples > 0).then_some(held))
    };
    if !change.is_empty() && !measured {
        done.fact("quantization.changed", change);
    }
    kept.tell(&mut done);
    *model = quantized;
    Ok((done, held))
}

/// A float model that computes the same as the one that was given and may lose less.
struct Variant {
    model: Model,
    /// What was done to it.
    change: &'static str,
    weights: AdaRoundWeights,
}

impl Variant {
    fn new(model: Model, change: &'static str) -> Variant {
        Variant { model, change, weights: AdaRoundWeights::default() }
    }

    /// What the report calls it.
    fn name(&self) -> String {
        let mut parts =
            vec![if self.change.is_empty() { "nothing changed before" } else { self.change }];
        parts.extend((!self.weights.is_empty()).then_some("AdaRound"));
        parts.join(", ")
    }
}

/// A candidate that was measured, and its place among what was tried.
struct MeasuredCandidate {
    at: usize,
    variant: Variant,
    score: Score,
}

struct DynamicSearch<'c> {
    data: SampleSet<'c>,
    float: &'c Model,
    request: &'c QuantizeRequest,
    form: Form,
    /// Samples up to here say what to do, those between these say what it gives.
    calibrating: u64,
    held: Held,
    clock: Clock<'c>,
    tried: Vec<Attempt>,
}

impl<'c> DynamicSearch<'c> {
    fn new(
        float: &'c Model,
        request: &'c QuantizeRequest,
        form: Form,
        data: SampleSet<'c>,
        auto: bool,
    ) -> DynamicSearch<'c> {
        let samples = data.calibration.samples();
        let most = if auto { HELD_MAX } else { default_samples(float) };
        let held_out = data.whole((samples / 4).min(most));
        // A single batch is used twice.
        let held_out = held_out.max(data.whole(1));
        let (calibrating, held) = match held_out < samples {
            true => (samples - held_out, Held::between(samples - held_out, samples)),
            false => (samples, Held::between(0, samples.min(most))),
        };
        let (tried, clock) = (Vec::new(), Clock::start(data.session));
        DynamicSearch { data, float, request, form, calibrating, held, clock, tried }
    }

    fn made(
        &self,
        variant: &Variant,
        floats: &BTreeSet<NodeId>,
    ) -> Result<(Model, Report), Diagnostics> {
        let mut model = variant.model.clone();
        variant.weights.apply(&mut model, floats);
        let mut done = quantize_dynamic_but(&mut model, self.request, self.form, floats)?;
        variant.weights.tell(&variant.model, &mut done);
        done.notes.extend(variant.weights.notes.iter().cloned());
        Ok((model, done))
    }

    fn score(
        &mut self,
        variant: &Variant,
        floats: &BTreeSet<NodeId>,
    ) -> Result<Score, Diagnostics> {
        let (made, _) = self.made(variant, floats)?;
        self.held.score((self.float, &made), &self.data)
    }

    /// Learns the rounding of weights, of few layers `together` or one after the other.
    fn learn(&self, model: &Model, together: bool) -> Result<AdaRoundWeights, Diagnostics> {
        let samples = self.calibrating.min(ROUNDED_MAX);
        let _part = self.data.session.part("rounding".into());
        let layer = self.data.session.part("".into());
        let learning = AdaRoundOptions {
            samples: &|| self.data.batches(0, samples),
            limits: Limits::of_floats(),
            corrected: false,
            together,
            go_on: &|now, total| {
                layer.now(layers(&now, total));
                !self.clock.is_over()
            },
        };
        AdaRoundWeights::learn(model, self.request, &learning)
    }

    /// What clearly loses least, as long as there is time. Rounding that is `asked` for is left to
    /// who asked.
    fn best(&mut self, auto: bool, asked_for: bool) -> Result<Variant, Diagnostics> {
        let variants =
            variants(self.float, self.request, &self.data, self.calibrating.min(HELD_MAX))?;
        // The last one learns its rounding.
        let mut candidates = Candidates::announce(self.data.session, variants.len() + 2);
        candidates.next();
        let mut best = self.tell(Variant::new(self.float.clone(), ""))?;
        for variant in variants {
            candidates.next();
            best = self.better(best, variant)?;
        }
        let samples = self.calibrating.min(ROUNDED_MAX);
        let little =
            AdaRoundWeights::effort(&best.variant.model, self.request, samples) <= EFFORT_MAX;
        let held_out = self.calibrating <= self.held.from;
        if held_out && (auto || little) && !asked_for && !self.clock.late() {
            candidates.next();
            let mut weights = self.learn(&best.variant.model, !auto)?;
            if !auto {
                // It was not asked for.
                weights.notes.clear();
            }
            let variant =
                Variant { model: best.variant.model.clone(), change: best.variant.change, weights };
            best = self.better(best, variant)?;
        }
        self.tried[best.at].chosen = true;
        Ok(best.variant)
    }

    /// The clearly better one.
    fn better(
        &mut self,
        best: MeasuredCandidate,
        variant: Variant,
    ) -> Result<MeasuredCandidate, Diagnostics> {
        if self.clock.late() {
            return Ok(best);
        }
        let found = self.tell(variant)?;
        Ok(if best.score.is_beaten_by(&found.score) { found } else { best })
    }

    /// Measures a candidate and keeps for the report what it gives.
    fn tell(&mut self, variant: Variant) -> Result<MeasuredCandidate, Diagnostics> {
        let score = self.score(&variant, &BTreeSet::new())?;
        let (what, sqnr_db) = (variant.name(), score.db());
        self.tried.push(Attempt { what, sqnr_db, chosen: false });
        Ok(MeasuredCandidate { at: self.tried.len() - 1, variant, score })
    }
}

/// A base of which nodes can be left out.
struct Fallback<'s, 'c> {
    base: &'s Variant,
    search: &'s mut DynamicSearch<'c>,
}

impl FloatFallback for Fallback<'_, '_> {
    fn choices(&self) -> Result<Vec<NodeId>, Diagnostics> {
        let (_, done) = self.search.made(self.base, &BTreeSet::new())?;
        let names: BTreeSet<&str> = done.layers.iter().map(|l| l.name.as_str()).collect();
        let graph = &self.base.model.graph;
        let is = |id: &NodeId| {
            let inner = graph[*id].subgraphs().next().is_some();
            inner || names.contains(name_of(graph, &graph[*id]).as_str())
        };
        Ok(graph.node_ids().into_iter().filter(is).collect())
    }

    fn sqnr_db(&mut self, floats: &BTreeSet<NodeId>) -> Result<f64, Diagnostics> {
        Ok(self.search.score(self.base, floats)?.db())
    }

    fn model(&self, floats: &BTreeSet<NodeId>) -> Result<Model, Diagnostics> {
        Ok(self.search.made(self.base, floats)?.0)
    }

    fn float(&self) -> &Model {
        self.search.float
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

/// What evidently helps: activations whose channels are known to be uneven without samples.
fn evident(model: &Model, request: &QuantizeRequest) -> Option<Variant> {
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    let mut channels = expected(model, &sites);
    channels.retain(|_, channels| uneven(channels) >= OUTLIER);
    let (share, name) = SMOOTHED[0];
    smoothed(model, &sites, &channels, share).map(|even| Variant::new(even, name))
}

/// What may help.
fn variants(
    model: &Model,
    request: &QuantizeRequest,
    data: &SampleSet,
    samples: u64,
) -> Result<Vec<Variant>, Diagnostics> {
    let even = equalized(model, request.settings.per_channel)?;
    let mut variants: Vec<Variant> =
        even.into_iter().map(|even| Variant::new(even, EQUALIZED)).collect();
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    if !sites.is_empty() {
        let _part = data.session.part("uneven channels".into());
        let mut samples = data.batches(0, samples);
        let found = magnitudes(model, &sites, &mut samples, Limits::of_floats())?;
        let smooth =
            |(share, name)| Some(Variant::new(smoothed(model, &sites, &found, share)?, name));
        variants.extend(SMOOTHED.into_iter().filter_map(smooth));
    }
    Ok(variants)
}
