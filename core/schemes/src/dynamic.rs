//! Ranges at run time. They need no samples, and what evens out activations none either, where it is
//! plain that it helps. Samples decide where they take next to no time to run, and with
//! `accuracy = "auto"`.

use crate::bound::{self, Bound, Left, Way as _, fewest, rescued, told};
use crate::clock::Clock;
use crate::params;
use crate::parts::{Candidates, layers};
use crate::quality::Held;
use crate::search::{Data, EQUALIZED, OUTLIER, Outcome, ROUNDED_MAX, SMOOTHED, few, uneven};
use onnxd_plugin_sdk::QuantizeContext;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::ir::{Model, NodeId};
use onnxd_quantize::accuracy::Kept;
use onnxd_quantize::accuracy::{Base, Score, float_outputs, score};
use onnxd_quantize::emit::quantize_dynamic_but;
use onnxd_quantize::observe::Limits;
use onnxd_quantize::plan::Request;
use onnxd_quantize::report::{Attempt, Done, Form, name_of};
use onnxd_quantize::search::LearnedWeights;
use onnxd_quantize::search::{Learning, equalized, expected, magnitudes, sites, smoothed};
use std::collections::BTreeSet;

/// Samples that a model runs on in next to no time, see [`few`].
const QUICK: u64 = 8;

/// Samples that ways are measured on at most with `accuracy = "auto"`.
const HELD_MAX: u64 = 64;

/// Multiplications that learning may take without being asked for.
const EFFORT_MAX: f64 = (1u64 << 32) as f64;

/// Quantizes with ranges of activations that are found at run time.
///
/// # Errors
/// For what no operator on integers takes; why samples cannot be had, or a model does not run on
/// them.
pub fn quantize_dynamic(
    model: &mut Model,
    request: &Request,
    form: Form,
    cx: &mut QuantizeContext,
) -> Outcome<(Done, Option<Held>)> {
    let samples = cx.calibration().samples();
    let auto = cx.text("quantization.accuracy") == Some("auto");
    let learns = params::learns(cx);
    if learns && samples == 0 {
        let text =
            "`quantization.rounding` = \"adaround\" takes calibration data, and there is none";
        let help = "Drop a `calib.npz` or a folder `calib` with samples of the inputs.";
        return Err(Diagnostic::new(Code::FileMissing, text).help(help).into());
    }
    let bound = Bound::of(cx).filter(|_| samples > 0);
    let measured = samples > 0 && (auto || few(model) >= QUICK);
    let drawn = if samples == 0 { cx.random_samples(model, few(model)).ok() } else { None };
    let (found, done, change, kept, held) = {
        let data = Data(cx, drawn.as_ref().unwrap_or(cx.calibration()), u64::MAX);
        let mut search = Search::new(model, request, form, data, auto);
        let mut base = match measured {
            true => search.best(auto, learns)?,
            false => evident(model, request).unwrap_or_else(|| Way::of(model.clone(), "")),
        };
        if learns {
            base.weights = search.learn(&base.model, false)?;
        }
        let mut way = Fallback { base: &base, search: &mut search };
        let left = match bound {
            Some(bound) => fewest(bound, &mut way)?,
            None if data.1.is_empty() => Left::default(),
            None => match way.ratio(&BTreeSet::new()).and_then(|db| rescued(db, &mut way)) {
                Ok(left) => left,
                Err(found) if cx.is_stopped() => return Err(found),
                // No range depends on samples: why they are no good is told where all is measured.
                Err(_) => Left::default(),
            },
        };
        let (found, mut done) = search.made(&base, &left.floats)?;
        done.notes.extend(left.note.clone());
        done.tried = std::mem::take(&mut search.tried);
        done.notes.extend(search.clock.unfinished());
        let apart = search.learned <= search.held.0 || !(measured || learns);
        let (from, to) = search.held;
        let held = Held { from, to, apart, float: search.outputs };
        (found, done, base.change, left, (samples > 0).then_some(held))
    };
    if !change.is_empty() && !measured {
        cx.metadata("quantization.changed", change);
    }
    told(kept, cx);
    *model = found;
    Ok((done, held))
}

/// A float model that computes the same as the one that was given and may lose less.
struct Way {
    model: Model,
    /// What was done to it.
    change: &'static str,
    weights: LearnedWeights,
}

impl Way {
    fn of(model: Model, change: &'static str) -> Way {
        Way { model, change, weights: LearnedWeights::default() }
    }

    /// What the report calls it.
    fn name(&self) -> String {
        let mut parts =
            vec![if self.change.is_empty() { "nothing changed before" } else { self.change }];
        parts.extend((!self.weights.is_empty()).then_some("learned rounding"));
        parts.join(", ")
    }
}

/// A way that was measured, and its place among what was tried.
struct Found {
    at: usize,
    way: Way,
    score: Score,
}

struct Search<'c> {
    data: Data<'c>,
    float: &'c Model,
    request: &'c Request,
    form: Form,
    /// Samples up to here say what to do, those between these say what it gives.
    learned: u64,
    held: (u64, u64),
    /// What the float model gives on the samples that ways are measured on.
    outputs: Vec<Kept>,
    clock: Clock,
    tried: Vec<Attempt>,
}

impl<'c> Search<'c> {
    fn new(
        float: &'c Model,
        request: &'c Request,
        form: Form,
        data: Data<'c>,
        auto: bool,
    ) -> Search<'c> {
        let samples = data.1.samples();
        let most = if auto { HELD_MAX } else { few(float) };
        let apart = data.whole((samples / 4).min(most));
        // Too few samples to keep some apart are used twice.
        let (learned, held) = match samples >= 8 && apart < samples {
            true => (samples - apart, (samples - apart, samples)),
            false => (samples, (0, samples.min(most))),
        };
        let (outputs, tried, clock) = (Vec::new(), Vec::new(), Clock::of(data.0));
        Search { data, float, request, form, learned, held, outputs, clock, tried }
    }

    fn made(&self, way: &Way, floats: &BTreeSet<NodeId>) -> Outcome<(Model, Done)> {
        let mut model = way.model.clone();
        way.weights.apply(&mut model, floats);
        let mut done = quantize_dynamic_but(&mut model, self.request, self.form, floats)?;
        way.weights.tell(&way.model, &mut done);
        done.notes.extend(way.weights.notes.iter().cloned());
        Ok((model, done))
    }

    fn score(&mut self, way: &Way, floats: &BTreeSet<NodeId>) -> Outcome<Score> {
        let samples = || self.data.batches(self.held.0, self.held.1);
        if self.outputs.is_empty() {
            let _part = self.data.0.part("float outputs");
            self.outputs = float_outputs(self.float, &mut samples(), Limits::of_floats())?;
        }
        let (made, _) = self.made(way, floats)?;
        let _part = self.data.0.part("comparison");
        score((self.float, &made), &mut samples(), &self.outputs, Limits::of_floats())
    }

    /// Learns the rounding of weights, of few layers `together` or one after the other.
    fn learn(&self, model: &Model, together: bool) -> Outcome<LearnedWeights> {
        let samples = self.learned.min(ROUNDED_MAX);
        let _part = self.data.0.part("rounding");
        let layer = self.data.0.part("");
        let learning = Learning {
            samples: &|| self.data.batches(0, samples),
            limits: Limits::of_floats(),
            corrected: false,
            together,
            go_on: &|now, total| {
                layer.now(layers(&now, total));
                !self.clock.is_over()
            },
        };
        LearnedWeights::of(model, self.request, &learning)
    }

    /// What clearly loses least, as long as there is time. Rounding that is `asked` for is left to
    /// who asked.
    fn best(&mut self, auto: bool, asked: bool) -> Outcome<Way> {
        let ways = ways(self.float, self.request, &self.data, self.learned.min(HELD_MAX))?;
        // The last one learns its rounding.
        let mut candidates = Candidates::of(self.data.0, ways.len() + 2);
        candidates.next();
        let mut best = self.tell(Way::of(self.float.clone(), ""))?;
        for way in ways {
            candidates.next();
            best = self.better(best, way)?;
        }
        let samples = self.learned.min(ROUNDED_MAX);
        let little = LearnedWeights::effort(&best.way.model, self.request, samples) <= EFFORT_MAX;
        let apart = self.learned <= self.held.0;
        if apart && (auto || little) && !asked && !self.clock.late() {
            candidates.next();
            let mut weights = self.learn(&best.way.model, !auto)?;
            if !auto {
                // Nobody asked for it.
                weights.notes.clear();
            }
            let way = Way { model: best.way.model.clone(), change: best.way.change, weights };
            best = self.better(best, way)?;
        }
        self.tried[best.at].chosen = true;
        Ok(best.way)
    }

    /// The clearly better one.
    fn better(&mut self, best: Found, way: Way) -> Outcome<Found> {
        if self.clock.late() {
            return Ok(best);
        }
        let found = self.tell(way)?;
        Ok(if best.score.is_beaten_by(&found.score) { found } else { best })
    }

    /// Measures a way and keeps for the report what it gives.
    fn tell(&mut self, way: Way) -> Outcome<Found> {
        let score = self.score(&way, &BTreeSet::new())?;
        let (what, sqnr_db) = (way.name(), score.db());
        self.tried.push(Attempt { what, sqnr_db, chosen: false });
        Ok(Found { at: self.tried.len() - 1, way, score })
    }
}

/// A base of which nodes can be left out.
struct Fallback<'s, 'c> {
    base: &'s Way,
    search: &'s mut Search<'c>,
}

impl bound::Way for Fallback<'_, '_> {
    fn choices(&self) -> Outcome<Vec<NodeId>> {
        let (_, done) = self.search.made(self.base, &BTreeSet::new())?;
        let names: BTreeSet<&str> = done.layers.iter().map(|l| l.name.as_str()).collect();
        let graph = &self.base.model.graph;
        let is = |id: &NodeId| {
            let inner = graph[*id].subgraphs().next().is_some();
            inner || names.contains(name_of(graph, &graph[*id]).as_str())
        };
        Ok(graph.node_ids().into_iter().filter(is).collect())
    }

    fn ratio(&mut self, floats: &BTreeSet<NodeId>) -> Outcome<f64> {
        Ok(self.search.score(self.base, floats)?.db())
    }

    fn model(&self, floats: &BTreeSet<NodeId>) -> Outcome<Model> {
        Ok(self.search.made(self.base, floats)?.0)
    }

    fn float(&self) -> &Model {
        self.search.float
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

/// What evidently helps: activations whose channels are known to be uneven without samples.
fn evident(model: &Model, request: &Request) -> Option<Way> {
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    let mut channels = expected(model, &sites);
    channels.retain(|_, channels| uneven(channels) >= OUTLIER);
    let (share, name) = SMOOTHED[0];
    smoothed(model, &sites, &channels, share).map(|even| Way::of(even, name))
}

/// What may help.
fn ways(model: &Model, request: &Request, data: &Data, samples: u64) -> Outcome<Vec<Way>> {
    let even = equalized(model, request.settings.per_channel)?;
    let mut ways: Vec<Way> = even.into_iter().map(|even| Way::of(even, EQUALIZED)).collect();
    let base = Base::new(model.clone(), request, &BTreeSet::new());
    let sites = sites(&base);
    if !sites.is_empty() {
        let _part = data.0.part("uneven channels");
        let mut samples = data.batches(0, samples);
        let found = magnitudes(model, &sites, &mut samples, Limits::of_floats())?;
        let smooth = |(share, name)| Some(Way::of(smoothed(model, &sites, &found, share)?, name));
        ways.extend(SMOOTHED.into_iter().filter_map(smooth));
    }
    Ok(ways)
}
