//! What a quantization asks of the program that it runs in: params, samples, time, and where it says
//! how far it is. The plugin SDK implements it.

use crate::observe::Feeds;
use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_ir::{Model, Tensor};
use onnxd_params::host;
use std::time::Duration;

/// Samples, batch by batch.
pub type Batches<'s> = Box<dyn Iterator<Item = Result<Feeds, Diagnostics>> + 's>;

/// Calibration samples.
pub trait Calibration {
    /// How many there are.
    fn samples(&self) -> u64;

    /// Whether they are random numbers instead of data.
    fn is_random(&self) -> bool;

    /// Samples that run at once.
    fn batch_size(&self) -> usize;

    /// The first samples in batches. Where they only `measure` a result, they do not count as
    /// samples that calibrated.
    fn batches(&self, size: usize, samples_max: u64, measure: bool) -> Batches<'_>;

    /// The labels of the first samples; `None` without labels.
    ///
    /// # Errors
    /// Why they cannot be read.
    fn labels(&self, samples_max: u64) -> Result<Option<Vec<i64>>, Diagnostics>;
}

/// A part of the work, until it is dropped.
pub trait ProgressPart {
    /// Says what is worked on from now on instead.
    fn now(&self, text: String);
}

/// Writes the bytes of a constant over zeros.
pub type WriteBytes<'w> = &'w mut dyn FnMut(&mut [u8]) -> Result<(), String>;

/// Where the bytes of new constants lie.
pub trait ConstantMemory {
    /// `len` elements of `uint8` that `write` has written.
    ///
    /// # Errors
    /// Those of `write`; why there is no room.
    fn bytes(&self, len: usize, write: WriteBytes) -> Result<Tensor, String>;
}

/// Memory of the process.
pub struct OwnMemory;

impl ConstantMemory for OwnMemory {
    fn bytes(&self, len: usize, write: WriteBytes) -> Result<Tensor, String> {
        let mut bytes = vec![0; len];
        write(&mut bytes)?;
        Ok(Tensor::vector(bytes))
    }
}

/// What surrounds a quantization.
pub trait Session {
    /// The params of the quantization.
    fn quantization(&self) -> &host::Quantization;

    /// The params of the calibration.
    fn calibration_params(&self) -> &host::Calibration;

    /// Says that a param, or a part of it, changes nothing although it was looked at.
    fn without_effect(&self, key: &str, why: String);

    /// The samples of the submission.
    fn calibration(&self) -> &dyn Calibration;

    /// Random numbers for the inputs of `model`. Axes that it leaves open have `size` entries, unless params say
    /// another size.
    ///
    /// # Errors
    /// Why none can be drawn.
    fn random_samples(
        &self,
        model: &Model,
        samples: u64,
        size: usize,
    ) -> Result<Box<dyn Calibration>, Diagnostics>;

    /// A file of the submission.
    ///
    /// # Errors
    /// Why it cannot be read.
    fn read(&self, path: &str) -> Result<Vec<u8>, Diagnostic>;

    /// Puts a file beside the model.
    ///
    /// # Errors
    /// Why it cannot be written.
    fn write(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic>;

    /// A digest of what `model` computes and of its names.
    ///
    /// # Errors
    /// If the model cannot be encoded.
    fn fingerprint(&self, model: &Model) -> Result<String, Diagnostic>;

    /// Says how much is done, and in the singular what is counted.
    ///
    /// # Errors
    /// When the conversion was cancelled; return at once.
    fn count(&self, noun: &str, done: u64, total: u64) -> Result<(), Diagnostic>;

    /// Begins a part of the work.
    fn part(&self, text: String) -> Box<dyn ProgressPart>;

    /// Whether the conversion was cancelled.
    fn is_stopped(&self) -> bool;

    /// How long the quantization has been running.
    fn elapsed(&self) -> Duration;
}
