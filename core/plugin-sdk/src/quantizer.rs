//! Quantizers: a float graph becomes a quantized one, guided by calibration data.

use crate::Params;
use crate::calibration::{OPEN_SIZE, SampleSource};
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::Model;
use crate::progress::{Reporter, WorkPart};
use crate::{Calibration, Submission};
use onnxd_params::host;
use onnxd_proto::onnxd::{self as message, Attempt, QuantizedLayer, QuantizedTensor};
use onnxd_quantize::report::{Nearness, Report};
use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Instant;

/// Turns a float graph into a quantized one. Its id in lower case is the `quantization.format` that asks for it: the
/// format `QDQ` is made by the quantizer `qdq`.
pub trait Quantizer: Send {
    /// Rewrites `model`, which has been through the passes, is valid, and has all types inferred where they can be.
    /// What it leaves must be valid ONNX again.
    ///
    /// # Errors
    /// Everything that keeps it from quantizing, each finding with the node's layer; what
    /// [`QuantizeContext::progress`] answers.
    fn quantize(&mut self, model: &mut Model, cx: &mut QuantizeContext) -> Result<(), Diagnostics>;
}

/// What a quantizer works with: params, calibration data, and the report it adds to.
pub struct QuantizeContext {
    submission: Submission,
    quantization: host::Quantization,
    calibration_params: host::Calibration,
    calibration: Calibration,
    pub(crate) said: Report,
    pub(crate) began: Instant,
    reporter: Reporter,
    /// Why a constant had no room in the host's memory.
    pub(crate) no_room: Mutex<Option<Diagnostic>>,
    /// Keys of params that say what the samples are: they count where samples were used.
    of_samples: BTreeSet<String>,
}

impl QuantizeContext {
    pub(crate) fn new(submission: Submission, model: &Model) -> Result<Self, Diagnostics> {
        let params = submission.params();
        let (quantization, calibration_params) = (params.section(), params.section());
        let source = SampleSource { submission: &submission, model, params: &calibration_params };
        let (calibration, of_samples) = params.recording(|| source.calibration());
        Ok(QuantizeContext {
            calibration: calibration?,
            quantization,
            calibration_params,
            of_samples,
            submission,
            said: Report::default(),
            began: Instant::now(),
            reporter: Reporter::default(),
            no_room: Mutex::default(),
        })
    }

    /// The params that had a say.
    pub(crate) fn params_read(&self) -> message::ParamsRead {
        let none = BTreeSet::new();
        let used = self.calibration.used() > 0;
        self.submission.params().read(if used { &self.of_samples } else { &none })
    }

    /// The params of the conversion.
    pub fn params(&self) -> &Params {
        self.submission.params()
    }

    /// See [`Params::without_effect`].
    pub fn without_effect(&self, key: &str, why: impl Into<String>) {
        self.params().without_effect(key, why);
    }

    /// The params of the section `quantization`.
    pub fn quantization(&self) -> &host::Quantization {
        &self.quantization
    }

    /// The params of the section `calibration`; [`QuantizeContext::calibration`] has followed them already.
    pub fn calibration_params(&self) -> &host::Calibration {
        &self.calibration_params
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
        self.source(model).at(path)
    }

    /// So many samples of random numbers for the inputs of `model`, for a quantizer that has no data to measure on.
    ///
    /// # Errors
    /// Why none can be drawn.
    pub fn random_samples(&self, model: &Model, samples: u64) -> Result<Calibration, Diagnostics> {
        self.source(model).random(samples, OPEN_SIZE)
    }

    /// As [`QuantizeContext::random_samples`], with axes that the model leaves open of another size, as a network takes
    /// that pools much.
    ///
    /// # Errors
    /// As [`QuantizeContext::random_samples`].
    pub fn random_samples_of(
        &self,
        model: &Model,
        samples: u64,
        size: usize,
    ) -> Result<Calibration, Diagnostics> {
        self.source(model).random(samples, size)
    }

    fn source<'a>(&'a self, model: &'a Model) -> SampleSource<'a> {
        SampleSource { submission: &self.submission, model, params: &self.calibration_params }
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
    pub fn part(&self, text: impl Into<String>) -> WorkPart {
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

    /// Adds what the library for quantization reports.
    pub fn report(&mut self, report: Report) {
        self.said.append(report);
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
        self.said.leave(&node.into(), reason);
    }

    /// Says how near the outputs are to those of the float network.
    pub fn quality(&mut self, nearness: &Nearness) {
        nearness.tell(&mut self.said.quality);
    }

    /// Says why the outputs were not compared with those of the float network.
    pub fn unmeasured(&mut self, why: impl Into<String>) {
        onnxd_quantize::report::unmeasured(&mut self.said.quality, why.into());
    }

    /// Says how many operators with constant weights the float network has, how many of these have integers as weights,
    /// and the share of all weights that are integers.
    pub fn coverage(&mut self, products: u64, quantized: u64, weights: f64) {
        let quality = &mut self.said.quality;
        (quality.products, quality.quantized, quality.weights) =
            (Some(products), quantized, weights);
    }

    /// Says what percent of the samples lose their class.
    pub fn top1_loss(&mut self, percent: f64) {
        self.said.quality.top1_loss = Some(percent);
    }
}
