//! The samples that a search works with, and how many of them each question takes.

use crate::session::{Batches, Calibration, Session};
use onnxd_ir::{Model, Tensor};

/// Samples on which a choice is measured in every conversion, and layers for the report: fewer of
/// models with many weights, whose runs take long.
#[must_use]
pub fn default_samples(model: &Model) -> u64 {
    let graph = &model.graph;
    let sizes = graph.value_ids().filter_map(|v| graph[v].initializer().map(Tensor::len));
    ((1 << 25) / sizes.sum::<usize>().max(1) as u64).clamp(1, 16)
}

/// Samples, and the session that they belong to.
#[derive(Clone, Copy)]
pub struct SampleSet<'c> {
    /// Where progress is told.
    pub session: &'c dyn Session,
    /// The samples.
    pub calibration: &'c dyn Calibration,
    /// Where samples begin that only look at results.
    pub measured_from: u64,
}

impl<'c> SampleSet<'c> {
    /// Those of the submission.
    #[must_use]
    pub fn of(session: &'c dyn Session) -> SampleSet<'c> {
        let calibration = session.calibration();
        SampleSet { session, calibration, measured_from: u64::MAX }
    }

    /// Samples that run at once.
    pub(crate) fn batch(&self) -> u64 {
        self.calibration.batch_size().max(1) as u64
    }

    /// As many samples in whole batches, or a few more: a model may take no others.
    #[must_use]
    pub fn whole(&self, samples: u64) -> u64 {
        samples.next_multiple_of(self.batch())
    }

    /// Samples number `from` to `to`, both in whole batches.
    pub fn batches(&self, from: u64, to: u64) -> Batches<'_> {
        let size = self.batch();
        let to = self.whole(to);
        let all = self.calibration.batches(size as usize, to, from >= self.measured_from);
        let part = all.skip(usize::try_from(from.div_ceil(size)).unwrap_or(usize::MAX));
        let total = to - from.min(to);
        Box::new(part.zip(0u64..).map(move |(batch, done)| {
            self.session.count("sample", done * size, total)?;
            batch
        }))
    }
}
