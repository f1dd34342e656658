//! How near the outputs of a result are to those of the float network, on samples that had no say
//! in it where there are enough, and how much of the network was quantized.

use crate::accuracy::samples::{SampleSet, default_samples};
use crate::accuracy::{Kept, Score, float_outputs, output_names, score};
use crate::observe::Limits;
use crate::report::{Coverage, Origin, Quality, Report};
use crate::session::Session;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::{Graph, Model, Node, Tensor};

/// With fewer samples, all are needed for ranges.
const HELD_OUT_MIN: u64 = 16;

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
    pub(crate) float: Vec<Kept>,
}

impl Held {
    /// The last samples, which nothing is made of; few samples are used twice.
    #[must_use]
    pub fn last(data: &SampleSet, model: &Model) -> Held {
        let samples = data.calibration.samples();
        let count = data.whole((samples / HELD_OUT).min(default_samples(model)).max(1));
        let enough = samples >= HELD_OUT_MIN && count * 4 <= samples;
        match enough && !data.calibration.is_random() {
            true => Held { held_out: true, ..Held::between(samples - count, samples) },
            false => Held::first(data, model, false),
        }
    }

    /// The first samples. They may have had a say.
    #[must_use]
    pub fn first(data: &SampleSet, model: &Model, held_out: bool) -> Held {
        let to = data.calibration.samples().min(data.whole(default_samples(model)));
        Held { held_out, ..Held::between(0, to) }
    }

    /// These samples, which may have had a say.
    pub(crate) fn between(from: u64, to: u64) -> Held {
        Held { from, to, held_out: false, float: Vec::new() }
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
    report.quality = Some(match measured(float, found, held, cx) {
        Ok(quality) => quality,
        Err(found) if cx.is_stopped() => return Err(found),
        Err(found) => {
            let first = found.0.into_iter().next();
            Err(first.map(|d| d.into_finding().message).unwrap_or_default())
        }
    });
    Ok(())
}

/// Tells how much of the float network was quantized.
pub fn cover(float: &Model, found: &Model, report: &mut Report) {
    let ((weighted, weights), (left, floats)) = (weighted(float), weighted(found));
    let quantized = weighted.saturating_sub(left);
    let share = if weights > 0.0 { (1.0 - floats / weights).clamp(0.0, 1.0) } else { 0.0 };
    report.coverage = Some(Coverage { weighted, quantized, weights: share });
}

/// On random numbers where there are no samples.
fn measured(
    float: &Model,
    found: &Model,
    held: Option<&Held>,
    cx: &dyn Session,
) -> Result<Result<Quality, String>, Diagnostics> {
    let names = output_names(float);
    if names.is_empty() {
        return Ok(Err("no output of the network holds real numbers".into()));
    }
    let drawn = match cx.calibration().samples() == 0 {
        true => Some(cx.random_samples(float, default_samples(float))?),
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
            first = Held::first(&data, float, true);
            &first
        }
    };
    let data =
        SampleSet { measured_from: if held.held_out { held.from } else { u64::MAX }, ..data };
    let _part = cx.part("quality".into());
    let mut samples = data.batches(held.from, held.to);
    let score = score((float, found), &mut samples, &held.float, Limits::of_floats())?;
    let outputs: Vec<(String, f64)> =
        names.into_iter().zip(score.each_db()).filter_map(|(n, db)| Some((n, db?))).collect();
    if outputs.is_empty() {
        return Ok(Err(
            "all outputs of the float network are zero or not finite on the samples".into()
        ));
    }
    let origin = match held.held_out {
        _ if drawn.is_some() => Origin::Random,
        true => Origin::Apart,
        false => Origin::Calibration,
    };
    Ok(Ok(Quality { outputs, samples: held.to - held.from, origin }))
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
