//! What happens to a picture before a network sees it: steps that a front-end writes down as data, and their
//! arithmetic.
//!
//! The arithmetic is that of OpenCV, bit for bit where integers are concerned, because that is what networks were
//! trained with: a resized picture of bytes differs from the ideal one in one pixel of twenty.

#[cfg(feature = "apply")]
mod apply;
mod step;

#[cfg(feature = "apply")]
pub use apply::{Depth, Picture};
pub use step::{
    ArithmeticOperator, Border, ChannelOrder, Equalization, Norm, Sizing, Step, ThresholdOperation,
};

use std::fmt;

/// Most samples of a picture, as it comes and after each step: 22 million pixels in colour.
pub const SAMPLES_MAX: usize = 1 << 26;
/// Most steps.
const STEPS_MAX: usize = 1000;
/// Longest text that is read.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// Why a picture does not get through.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PictureFault(String);

impl fmt::Display for PictureFault {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for PictureFault {}

pub(crate) fn fault(why: impl Into<String>) -> PictureFault {
    PictureFault(why.into())
}

/// The steps in their order.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Steps(pub Vec<Step>);

impl Steps {
    /// Reads what [`Steps::to_json`] wrote.
    ///
    /// # Errors
    /// If the text is something else.
    pub fn from_json(text: &str) -> Result<Steps, PictureFault> {
        if text.len() > TEXT_BYTES_MAX {
            return Err(fault("the list of steps is too long"));
        }
        let steps: Vec<Step> = serde_json::from_str(text).map_err(|e| fault(e.to_string()))?;
        match steps.iter().map(Step::count).sum::<usize>() > STEPS_MAX {
            true => Err(fault(format!("more than {STEPS_MAX} steps"))),
            false => Ok(Steps(steps)),
        }
    }

    /// Whether [`Steps::from_json`] would take them.
    #[must_use]
    pub fn are_few(&self) -> bool {
        let count = self.0.iter().map(Step::count).sum::<usize>();
        count <= STEPS_MAX && self.to_json().len() <= TEXT_BYTES_MAX
    }

    /// One JSON list, an object with the key `step` for each.
    ///
    /// # Panics
    /// Never: the steps hold texts and numbers.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(&self.0).expect("texts and numbers can be written")
    }

    /// Why there is no way from a picture to the network, if a step says so.
    #[must_use]
    pub fn unavailable(&self) -> Option<&str> {
        self.0.iter().find_map(Step::unavailable)
    }
}
