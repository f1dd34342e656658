//! A session without a host: samples that are given, and a clock that goes on with each look at it.

use super::Feeds;
use crate::session::{Batches, Calibration, ProgressPart, Session};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::Model;
use onnxd_params::{Resolved, host};
use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

pub(crate) struct Given {
    quantization: host::Quantization,
    calibration: host::Calibration,
    samples: Samples,
    now: Cell<Duration>,
    /// By how much each look at the clock moves it.
    pub(crate) tick: Duration,
}

struct Samples {
    feeds: Vec<Feeds>,
    /// Those from here on may not be read.
    sealed_from: usize,
}

struct Silent;

impl ProgressPart for Silent {
    fn now(&self, _: String) {}
}

impl Given {
    /// With params as JSON, and samples, of which those from number `sealed_from` on cannot be read.
    pub(crate) fn new(params: &str, feeds: Vec<Feeds>, sealed_from: usize) -> Given {
        let resolved = Arc::new(Resolved::parse(params).unwrap());
        Given {
            quantization: resolved.section(),
            calibration: resolved.section(),
            samples: Samples { feeds, sealed_from },
            now: Cell::default(),
            tick: Duration::ZERO,
        }
    }
}

fn refused(text: &str) -> Diagnostic {
    Diagnostic::new(Code::EvalInputs, text.to_owned())
}

impl Calibration for Samples {
    fn samples(&self) -> u64 {
        self.feeds.len() as u64
    }

    fn is_random(&self) -> bool {
        false
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn batches(&self, _: usize, samples_max: u64, _: bool) -> Batches<'_> {
        let each = self.feeds.iter().enumerate().take(samples_max as usize);
        Box::new(each.map(|(at, feeds)| match at < self.sealed_from {
            true => Ok(feeds.clone()),
            false => Err(refused("a sample that is held out was read").into()),
        }))
    }

    fn labels(&self, _: u64) -> Result<Option<Vec<i64>>, Diagnostics> {
        Ok(None)
    }
}

impl Session for Given {
    fn quantization(&self) -> &host::Quantization {
        &self.quantization
    }

    fn calibration_params(&self) -> &host::Calibration {
        &self.calibration
    }

    fn without_effect(&self, _: &str, _: String) {}

    fn calibration(&self) -> &dyn Calibration {
        &self.samples
    }

    fn random_samples(
        &self,
        model: &Model,
        samples: u64,
        _: usize,
    ) -> Result<Box<dyn Calibration>, Diagnostics> {
        let feeds = super::samples(model, samples as usize, 1);
        Ok(Box::new(Samples { feeds, sealed_from: usize::MAX }))
    }

    fn read(&self, _: &str) -> Result<Vec<u8>, Diagnostic> {
        Err(refused("there are no files"))
    }

    fn write(&self, _: &str, _: &[u8]) -> Result<(), Diagnostic> {
        Err(refused("there are no files"))
    }

    fn fingerprint(&self, _: &Model) -> Result<String, Diagnostic> {
        Err(refused("models have no digests"))
    }

    fn count(&self, _: &str, _: u64, _: u64) -> Result<(), Diagnostic> {
        Ok(())
    }

    fn part(&self, _: String) -> Box<dyn ProgressPart> {
        Box::new(Silent)
    }

    fn is_stopped(&self) -> bool {
        false
    }

    fn elapsed(&self) -> Duration {
        self.now.set(self.now.get() + self.tick);
        self.now.get()
    }
}
