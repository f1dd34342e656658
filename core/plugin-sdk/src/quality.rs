//! What a quantizer measures of a whole network; the host makes the verdict of it.

use crate::QuantizeContext;

/// What the samples that two networks are compared on were used for before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// For nothing: no range and no rounding was made of them.
    Apart,
    /// For ranges or rounding: the result knows them.
    #[default]
    Calibration,
    /// They are random numbers, because there are no data.
    Random,
}

/// How near the outputs of the quantized network are to those of the float network.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Quality {
    /// Outputs by name, with their signal-to-noise ratios in dB.
    pub outputs: Vec<(String, f64)>,
    /// Samples that both networks ran on.
    pub samples: u64,
    /// What these samples were used for before.
    pub origin: Origin,
}

/// How much of a network was quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Coverage {
    /// Operators with weights in the float network.
    pub products: u64,
    /// Of these, those whose weights became integers.
    pub quantized: u64,
    /// The share of all weights that became integers.
    pub weights: f64,
}

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
