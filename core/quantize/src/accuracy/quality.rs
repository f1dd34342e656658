//! How near the outputs of a result are to those of the float network, on samples that had no say
//! in it where there are enough, and how much of the network was quantized.

use crate::accuracy::prompts::{Prompts, is_decoder};
use crate::accuracy::samples::{SampleSet, default_samples};
use crate::accuracy::{ReferenceOutputs, Score, float_outputs, output_names, score};
use crate::observe::Limits;
use crate::report::{Nearness, Origin, Report};
use crate::session::{Calibration, Session};
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Graph, Model, Node, Tensor};

/// Fewer held-out samples say too little: then each is held out in turn instead.
const HELD_OUT_MIN: u64 = 8;

/// The share of the samples that is held out.
const HELD_OUT: u64 = 8;

/// Samples that results are measured on.
#[derive(Clone, Debug)]
pub struct Held {
    pub(crate) from: u64,
    pub(crate) to: u64,
    /// Whether they had no say in the result.
    pub(crate) held_out: bool,
    /// What the float network gives on the first of them, if it is known.
    pub(crate) float: Vec<ReferenceOutputs>,
    /// What the result gives on all samples but those that its ranges were made of (cross-validation).
    pub(crate) folds: Option<Score>,
}

impl Held {
    /// The last samples, which nothing is made of; few samples are used twice. A model that runs long is measured on
    /// few in any case.
    #[must_use]
    pub fn last(data: &SampleSet, model: &Model) -> Held {
        let samples = data.calibration.samples();
        let most = default_samples(model);
        let count = data.whole((samples / HELD_OUT).min(most).max(1));
        let enough = samples / HELD_OUT >= HELD_OUT_MIN.min(most * 2) && count * 4 <= samples;
        match enough && !data.calibration.is_random() {
            true => Held { held_out: true, ..Held::between(samples - count, samples) },
            false => Held::first(data, model, false),
        }
    }

    /// As [`Held::last`], and the last quarter of few samples: what is made of the others hardly loses by it.
    #[must_use]
    pub fn last_of_few(data: &SampleSet, model: &Model) -> Held {
        let held = Held::last(data, model);
        let samples = data.calibration.samples();
        let count = data.whole((samples / 4).min(default_samples(model)).max(1));
        if held.held_out || count >= samples || data.calibration.is_random() {
            return held;
        }
        Held { held_out: true, ..Held::between(samples - count, samples) }
    }

    /// The first samples. They may have had a say.
    #[must_use]
    pub fn first(data: &SampleSet, model: &Model, held_out: bool) -> Held {
        let to = data.calibration.samples().min(data.whole(default_samples(model)));
        Held { held_out, ..Held::between(0, to) }
    }

    /// These samples, which may have had a say.
    pub(crate) fn between(from: u64, to: u64) -> Held {
        Held { from, to, held_out: false, float: Vec::new(), folds: None }
    }

    /// How near the outputs of `found` are to those of the float model, which runs once.
    pub(crate) fn score(
        &mut self,
        (float, found): (&Model, &Model),
        data: &SampleSet,
    ) -> Result<Score, Diagnostics> {
        let samples = || data.batches(self.from, self.to);
        if self.float.is_empty() {
            let _part = data.session.part("float outputs".into());
            self.float = float_outputs(float, &mut samples(), Limits::of_floats())?;
        }
        let _part = data.session.part("comparison".into());
        score((float, found), &mut samples(), &self.float, Limits::of_floats())
    }

    /// The worst output of `found` against the float model in dB, see [`Score::db`].
    ///
    /// # Errors
    /// Why samples cannot be had, or a model does not run on them.
    pub fn db(&mut self, models: (&Model, &Model), data: &SampleSet) -> Result<f64, Diagnostics> {
        Ok(self.score(models, data)?.db())
    }

    /// Samples that a result may be made of: those before.
    #[must_use]
    pub fn calibrating(&self, data: &SampleSet) -> u64 {
        if self.held_out { self.from } else { data.calibration.samples() }
    }
}

/// Tells how near the outputs of `found` are to those of the float network, and how much of that
/// was quantized.
///
/// # Errors
/// When the conversion was cancelled.
pub fn measure(
    float: &Model,
    found: &Model,
    held: Option<&Held>,
    cx: &dyn Session,
    report: &mut Report,
) -> Result<(), Diagnostics> {
    match measured(float, found, held, cx) {
        Ok(Ok(nearness)) => nearness.tell(&mut report.quality),
        Ok(Err(why)) => report.quality.unmeasured = why,
        Err(found) if cx.is_stopped() => return Err(found),
        Err(found) => {
            let first = found.0.into_iter().next();
            let why = first.map(|d| d.into_finding().message);
            report.quality.unmeasured = why.unwrap_or_default();
        }
    }
    Ok(())
}

/// Sizes of the axes that a model leaves open: some networks pool so much that small inputs are gone before the end,
/// others have axes that take one entry alone.
const OPEN_SIZES: [usize; 5] = [32, 64, 224, 1, 512];

/// Prompts for a decoder with a cache; else random numbers that the model takes: the first of several sizes on which
/// it runs.
///
/// # Errors
/// Why none can be drawn, or why the model runs on none.
pub(crate) fn random_samples(
    model: &Model,
    cx: &dyn Session,
) -> Result<Box<dyn Calibration>, Diagnostics> {
    if let Some(prompts) = Prompts::drawn(model, cx)? {
        return Ok(Box::new(prompts));
    }
    let mut first = None;
    for size in OPEN_SIZES {
        let tried = cx.random_samples(model, default_samples(model), size).and_then(|drawn| {
            let set = SampleSet { calibration: drawn.as_ref(), ..SampleSet::of(cx) };
            float_outputs(model, &mut set.batches(0, 1), Limits::of_floats())?;
            Ok(drawn)
        });
        match tried {
            Ok(drawn) => return Ok(drawn),
            Err(found) if cx.is_stopped() => return Err(found),
            Err(found) => first = first.or(Some(found)),
        }
    }
    Err(first.unwrap_or_default())
}

/// Tells how much of the float network was quantized.
pub fn cover(float: &Model, found: &Model, report: &mut Report) {
    let ((weighted, weights), (left, floats)) = (weighted(float), weighted(found));
    let quantized = weighted.saturating_sub(left);
    let share = if weights > 0.0 { (1.0 - floats / weights).clamp(0.0, 1.0) } else { 0.0 };
    report.quality.products = Some(weighted);
    (report.quality.quantized, report.quality.weights) = (quantized, share);
}

/// On random numbers where there are no samples.
fn measured(
    float: &Model,
    found: &Model,
    held: Option<&Held>,
    cx: &dyn Session,
) -> Result<Result<Nearness, String>, Diagnostics> {
    let names = output_names(float);
    if names.is_empty() {
        return Ok(Err("no output of the network holds real numbers".into()));
    }
    let drawn = match cx.calibration().samples() == 0 {
        true => Some(random_samples(float, cx)?),
        false => None,
    };
    let data = match &drawn {
        Some(drawn) => SampleSet { calibration: drawn.as_ref(), ..SampleSet::of(cx) },
        None => SampleSet::of(cx),
    };
    let first;
    let held = match held.filter(|_| drawn.is_none()) {
        Some(held) => held,
        None => {
            let all = data.calibration.samples();
            first = match drawn.is_some() {
                true => Held { held_out: true, ..Held::between(0, all) },
                false => Held::first(&data, float, true),
            };
            &first
        }
    };
    let data =
        SampleSet { measured_from: if held.held_out { held.from } else { u64::MAX }, ..data };
    let _part = cx.part("quality".into());
    let mut samples = data.batches(held.from, held.to);
    let score = score((float, found), &mut samples, &held.float, Limits::of_floats())?;
    // The result itself, and what is made as it was, of other samples: the less counts.
    let folds = held.folds.as_ref().filter(|_| drawn.is_none());
    let of_folds = folds.map(Score::each_db).unwrap_or_default();
    let of_folds = of_folds.into_iter().map(|db| db.unwrap_or(f64::INFINITY));
    let dbs = score.each_db().into_iter().zip(of_folds.chain(std::iter::repeat(f64::INFINITY)));
    let each = names.into_iter().zip(dbs).enumerate();
    let each = each.filter_map(|(at, (name, (db, of_folds)))| Some((at, name, db?, of_folds)));
    let least = |(_, _, own, of_folds): &(usize, String, f64, f64)| own.min(*of_folds);
    let each: Vec<_> = each.collect();
    let worst = each.iter().min_by(|a, b| least(a).total_cmp(&least(b)));
    let error_db = worst.map_or(0.0, |(at, _, own, of_folds)| {
        let by = folds.filter(|_| of_folds < own).unwrap_or(&score);
        by.error_db(*at)
    });
    let outputs: Vec<(String, f64)> = each.iter().map(|of| (of.1.clone(), least(of))).collect();
    if outputs.is_empty() {
        return Ok(Err(
            "all outputs of the float network are zero or not finite on the samples".into()
        ));
    }
    let origin = match held.held_out {
        _ if drawn.is_some() && is_decoder(float) => Origin::Prompts,
        _ if drawn.is_some() => Origin::Random,
        true => Origin::Apart,
        false if folds.is_some() => Origin::Folds,
        false => Origin::Calibration,
    };
    let batch = data.batch();
    let samples = folds.map_or(held.to - held.from, |folds| folds.runs.len() as u64 * batch);
    let samples = samples.min(data.calibration.samples());
    Ok(Ok(Nearness { outputs, error_db, samples, origin }))
}

/// Operators with constant weights in floating point, and how many these are.
fn weighted(model: &Model) -> (u64, f64) {
    let (mut count, mut elements) = (0, 0.0);
    model.for_each_graph(|graph| {
        for (_, node) in graph.nodes() {
            let found = weights(graph, node);
            count += u64::from(found > 0);
            elements += found as f64;
        }
    });
    (count, elements)
}

/// Elements of the constant weights in floating point that a node multiplies with.
fn weights(graph: &Graph, node: &Node) -> usize {
    let slots: &[usize] = match node.op.as_str() {
        "Attention" | "Conv" | "ConvTranspose" => &[1],
        "Gemm" | "MatMul" => &[0, 1],
        "GRU" | "LSTM" | "RNN" => &[1, 2],
        _ => return 0,
    };
    let constants = slots.iter().filter_map(|slot| graph.constant(node.input(*slot)?));
    constants.filter(|w| w.dtype().is_float() && w.rank() > 1).map(Tensor::len).sum()
}
