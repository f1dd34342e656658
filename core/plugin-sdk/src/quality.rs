//! What a quantizer measures of a whole network; the host makes the verdict of it.

use crate::QuantizeContext;
pub use onnxd_quantize::report::{Coverage, Origin, Quality};

/// What was said of the whole network.
#[derive(Debug, Default)]
pub(crate) struct Whole {
    pub(crate) quality: Option<Result<Quality, String>>,
    pub(crate) coverage: Option<Coverage>,
    pub(crate) top1_loss: Option<f64>,
}

impl QuantizeContext {
    /// Says how near the outputs are to those of the float network.
    pub fn quality(&mut self, quality: Quality) {
        self.said.whole.quality = Some(Ok(quality));
    }

    /// Says why the outputs were not compared with those of the float network.
    pub fn unmeasured(&mut self, why: impl Into<String>) {
        self.said.whole.quality = Some(Err(why.into()));
    }

    /// Says how much of the network was quantized.
    pub fn coverage(&mut self, coverage: Coverage) {
        self.said.whole.coverage = Some(coverage);
    }

    /// Says what percent of the samples lose their class.
    pub fn top1_loss(&mut self, percent: f64) {
        self.said.whole.top1_loss = Some(percent);
    }
}
