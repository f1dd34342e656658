//! Quantizers: a float graph becomes one with few bits, guided by calibration data.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::Model;
use crate::progress::{Part, Reporter};
use crate::quality::Whole;
use crate::{Calibration, Submission};
use onnxd_proto::onnxd as message;
use serde_json::Value;
use std::collections::BTreeSet;

/// Turns a float graph into a quantized one. Its id in lower case is the `quantization.format` that asks for it: the
/// format `N2D2` is made by the quantizer `n2d2`.
pub trait Quantizer: Send {
    /// Rewrites `model`, which has been through the passes, is valid, and has all types inferred where they can be.
    /// What it leaves must be valid ONNX again.
    ///
    /// # Errors
    /// Everything that keeps it from quantizing, each finding with the node's layer; what
    /// [`QuantizeContext::progress`] answers.
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics>;
}

/// A tensor of the quantized graph, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizedTensor {
    /// Name of the value.
    pub name: String,
    /// Element type: `int8`. Or what the bits say, if they are fewer than the type has: `4 bits in int8`.
    pub element_type: String,
    /// Real value of one step; one, or one for each channel.
    pub scales: Vec<f64>,
    /// Integers that mean zero, as many as scales; none if all are zero.
    pub zero_points: Vec<i64>,
    /// Smallest and largest real value that is kept.
    pub range: Option<(f64, f64)>,
    /// How the range was found: `max`, `MSE`.
    pub method: String,
    /// Smallest and largest value on calibration data.
    pub seen: Option<(f64, f64)>,
    /// Share of the values on calibration data that lie beyond the range, if it was measured.
    pub clipped: Option<f64>,
    /// How often which values were seen, if they were counted.
    pub counts: Option<Counts>,
}

/// Counts of values in intervals of equal width; a report draws them, so some dozens do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Where the first interval begins.
    pub low: f64,
    /// Where the last one ends.
    pub high: f64,
    /// Values in each.
    pub counts: Vec<u64>,
}

/// A way to quantize that was tried, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attempt {
    /// What is special about it.
    pub what: String,
    /// Signal-to-noise ratio of the outputs against float on calibration data.
    pub sqnr_db: f64,
    /// Whether the result was made so.
    pub chosen: bool,
}

/// Sums of a quantized layer, before they are brought back to few bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accumulator {
    /// Largest magnitude that any inputs can lead to.
    pub max: u64,
    /// Bits that the sums have, the sign included.
    pub bits_held: u32,
}

impl Accumulator {
    /// Bits that the largest sum takes, the sign included.
    #[must_use]
    pub fn bits(&self) -> u32 {
        u64::BITS - self.max.leading_zeros() + 1
    }
}

/// A quantized layer, for the report.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct QuantizedLayer {
    /// Name of the node or layer.
    pub name: String,
    /// Operator of the float graph.
    pub op: String,
    /// How its results are brought back to few bits: `Single-shift by 9`.
    pub rescaling: String,
    /// Signal-to-noise ratio of its output against float on calibration data, if it was measured.
    pub sqnr_db: Option<f64>,
    /// Name of the tensor that it makes.
    pub output: String,
    /// How large its sums can become, if it has any.
    pub accumulator: Option<Accumulator>,
}

/// What a quantizer has to say besides the graph.
#[derive(Debug, Default)]
pub(crate) struct Said {
    pub(crate) notes: Vec<Diagnostic>,
    pub(crate) metadata: Vec<(String, String)>,
    pub(crate) tensors: Vec<QuantizedTensor>,
    pub(crate) layers: Vec<QuantizedLayer>,
    pub(crate) left_in_float: Vec<(String, String)>,
    pub(crate) compared: u64,
    pub(crate) statistics: String,
    pub(crate) tried: Vec<Attempt>,
    pub(crate) whole: Whole,
}

/// What a quantizer works with: params, calibration data, and the report it adds to.
pub struct QuantizeContext {
    submission: Submission,
    calibration: Calibration,
    pub(crate) said: Said,
    reporter: Reporter,
    /// Keys of params that say what the samples are: they count where samples were used.
    of_samples: BTreeSet<String>,
}

impl QuantizeContext {
    pub(crate) fn new(submission: Submission, model: &Model) -> Result<Self, Diagnostics> {
        let (calibration, of_samples) = submission.apart(|| Calibration::of(&submission, model));
        Ok(QuantizeContext {
            calibration: calibration?,
            of_samples,
            submission,
            said: Said::default(),
            reporter: Reporter::default(),
        })
    }

    /// The params that had a say.
    pub(crate) fn params_read(&self) -> message::ParamsRead {
        let none = BTreeSet::new();
        let used = self.calibration.used() > 0;
        self.submission.params_read(if used { &self.of_samples } else { &none })
    }

    /// See [`Submission::without_effect`].
    pub fn without_effect(&self, key: &str, why: impl Into<String>) {
        self.submission.without_effect(key, why);
    }

    /// A resolved param by its dotted key: `param("quantization.n2d2.nbbits")`. Null if it is unset. As with
    /// [`Submission::param`], looking at it says that its value counts.
    pub fn param(&self, key: &str) -> &Value {
        self.submission.param_at(key)
    }

    /// A param that is a whole number.
    pub fn int(&self, key: &str) -> Option<i64> {
        self.param(key).as_i64()
    }

    /// A param that is a number.
    pub fn real(&self, key: &str) -> Option<f64> {
        self.param(key).as_f64()
    }

    /// A param that is a text.
    pub fn text(&self, key: &str) -> Option<&str> {
        self.param(key).as_str()
    }

    /// A param that is true or false; unset is false.
    pub fn flag(&self, key: &str) -> bool {
        self.param(key).as_bool().unwrap_or(false)
    }

    /// The calibration data of the submission; empty if there is none.
    pub fn calibration(&self) -> &Calibration {
        &self.calibration
    }

    /// Samples of the inputs of `model` in a dropped file or folder, in the same form as calibration data; empty if
    /// there is nothing at `path`.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn samples(&self, path: &str, model: &Model) -> Result<Calibration, Diagnostics> {
        Calibration::at(&self.submission, model, path)
    }

    /// So many samples of random numbers for the inputs of `model`, for a quantizer that has no data to measure on.
    ///
    /// # Errors
    /// Why none can be drawn.
    pub fn random_samples(&self, model: &Model, samples: u64) -> Result<Calibration, Diagnostics> {
        Calibration::random(&self.submission, model, samples)
    }

    /// The dropped files and all params.
    pub fn submission(&self) -> &Submission {
        &self.submission
    }

    /// Reports progress (`total` 0 = unknown). To be called at least once per second of work; the host hears of it
    /// a few times per second. Prefer [`QuantizeContext::count`], which says what is counted.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    pub fn progress(&self, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.count("", done, total)
    }

    /// As [`QuantizeContext::progress`], and says in the singular what is counted: `count("sample", 11, 64)` is shown
    /// as `sample 12 of 64`, after the parts of the work that it belongs to.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    pub fn count(&self, noun: &str, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.reporter.count(self.submission.job(), noun, done, total)
    }

    /// Begins a part of the work, which ends when the result is dropped: what is counted meanwhile belongs to it, and
    /// so do parts that begin meanwhile. `candidate 3 of 7`, `calibration` and `count("sample", 11, 64)` are shown as
    /// `candidate 3 of 7, calibration, sample 12 of 64`. To users nothing must seem to run back: let parts that follow
    /// each other have different texts.
    pub fn part(&self, text: impl Into<String>) -> Part {
        self.reporter.part(text.into())
    }

    /// Whether the conversion was cancelled, for loops that cannot tell how far they are, such as
    /// [`crate::eval::RunOptions::stop`]. It may be asked often, from any thread.
    pub fn is_stopped(&self) -> bool {
        self.reporter.is_stopped(self.submission.job())
    }

    /// How many threads may be kept busy.
    pub fn threads(&self) -> usize {
        self.submission.threads()
    }

    /// What a user should know: a warning, with the layer it concerns.
    pub fn note(&mut self, note: Diagnostic) {
        self.said.notes.push(note);
    }

    /// A fact for the report, such as the scale of the inputs.
    pub fn metadata(&mut self, key: impl Into<String>, value: impl Into<String>) {
        self.said.metadata.push((key.into(), value.into()));
    }

    /// See [`Submission::file`].
    ///
    /// # Errors
    /// As [`Submission::file`].
    pub fn file(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic> {
        self.submission.file(name, data)
    }

    /// Puts a quantized tensor into the report.
    pub fn tensor(&mut self, row: QuantizedTensor) {
        self.said.tensors.push(row);
    }

    /// Puts a quantized layer into the report.
    pub fn layer(&mut self, row: QuantizedLayer) {
        self.said.layers.push(row);
    }

    /// Says on how many samples the float and the quantized graph ran side by side.
    pub fn compared(&mut self, samples: u64) {
        self.said.compared = samples;
    }

    /// Says where ranges come from, if not from samples.
    pub fn statistics(&mut self, origin: impl Into<String>) {
        self.said.statistics = origin.into();
    }

    /// Puts a way that was tried into the report.
    pub fn tried(&mut self, attempt: Attempt) {
        self.said.tried.push(attempt);
    }

    /// Puts a node that stays in floating point, and why, into the report.
    pub fn left_in_float(&mut self, node: impl Into<String>, reason: impl Into<String>) {
        self.said.left_in_float.push((node.into(), reason.into()));
    }
}
