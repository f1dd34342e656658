//! What the quantization library asks of the host, answered by the context of a quantizer.

use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::ir::{DataType, Model, Tensor};
use crate::{Calibration, QuantizeContext, WorkPart, fingerprint};
use onnxd_params::host;
use onnxd_quantize::session::{self, Batches, ConstantMemory, Session, WriteBytes};
use std::sync::PoisonError;
use std::time::Duration;

impl Session for QuantizeContext {
    fn quantization(&self) -> &host::Quantization {
        self.quantization()
    }

    fn calibration_params(&self) -> &host::Calibration {
        self.calibration_params()
    }

    fn without_effect(&self, key: &str, why: String) {
        self.without_effect(key, why);
    }

    fn calibration(&self) -> &dyn session::Calibration {
        self.calibration()
    }

    fn random_samples(
        &self,
        model: &Model,
        samples: u64,
        size: usize,
    ) -> Result<Box<dyn session::Calibration>, Diagnostics> {
        Ok(Box::new(self.random_samples_of(model, samples, size)?))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Diagnostic> {
        Ok(self.submission().read(path)?.to_vec())
    }

    fn write(&self, name: &str, data: &[u8]) -> Result<(), Diagnostic> {
        self.file(name, data)
    }

    fn fingerprint(&self, model: &Model) -> Result<String, Diagnostic> {
        fingerprint(model)
    }

    fn count(&self, noun: &str, done: u64, total: u64) -> Result<(), Diagnostic> {
        self.count(noun, done, total)
    }

    fn part(&self, text: String) -> Box<dyn session::ProgressPart> {
        Box::new(self.part(text))
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped()
    }

    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Memory of the host, which need not hold all constants at once.
impl ConstantMemory for QuantizeContext {
    fn bytes(&self, len: usize, write: WriteBytes) -> Result<Tensor, String> {
        // A weight that there is no room for is no reason to leave it as it is.
        let failed = |found: Diagnostic| {
            let text = found.to_string();
            let mut first = self.no_room.lock().unwrap_or_else(PoisonError::into_inner);
            first.get_or_insert(found);
            text
        };
        let mut room = self.submission().room(DataType::Uint8, &[len]).map_err(failed)?;
        write(room.bytes_mut())?;
        room.seal().map_err(failed)
    }
}

impl session::ProgressPart for WorkPart {
    fn now(&self, text: String) {
        self.now(text);
    }
}

impl session::Calibration for Calibration {
    fn samples(&self) -> u64 {
        self.samples()
    }

    fn is_random(&self) -> bool {
        self.is_random()
    }

    fn batch_size(&self) -> usize {
        self.batch_size()
    }

    fn batches(&self, size: usize, samples_max: u64, measure: bool) -> Batches<'_> {
        let batches = self.batches(size, samples_max);
        Box::new(if measure { batches.measuring() } else { batches })
    }

    fn labels(&self, samples_max: u64) -> Result<Option<Vec<i64>>, Diagnostics> {
        let mut all = Vec::new();
        for batch in self.labelled(self.batch_size(), samples_max) {
            match batch?.labels.as_ref().and_then(Tensor::to_i64s) {
                Some(labels) => all.extend(labels),
                None => return Ok(None),
            }
        }
        Ok(Some(all))
    }
}
