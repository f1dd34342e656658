//! The arithmetic of the steps.

mod arithmetic;
mod colour;
mod equalize;
mod filter;
mod geometry;
mod levels;
mod picture;
mod resize;
#[cfg(test)]
mod tests;

pub use picture::{Depth, Picture};

use crate::{PictureFault, Step, Steps, fault};

impl Steps {
    /// Takes a picture through all steps.
    ///
    /// # Errors
    /// The step that does not fit the picture.
    pub fn apply(&self, picture: Picture) -> Result<Picture, PictureFault> {
        self.0.iter().try_fold(picture, |picture, step| step.apply(picture))
    }
}

impl Step {
    pub(crate) fn apply(&self, picture: Picture) -> Result<Picture, PictureFault> {
        match self {
            Step::Resize { width, height, sizing } => {
                resize::resize(&picture, [*width, *height], *sizing)
            }
            Step::PadCrop { width, height, additive, border } => {
                geometry::pad_crop(&picture, [*width, *height], *additive, border)
            }
            Step::Crop { x, y, width, height } => {
                geometry::crop(&picture, [*x, *y], [*width, *height])
            }
            Step::Flip { horizontal, vertical } => geometry::flip(&picture, *horizontal, *vertical),
            Step::ReverseChannels => Ok(colour::reverse(picture)),
            Step::Spread => colour::spread(picture),
            Step::Grey { order } => Ok(colour::grey(picture, *order)),
            Step::Channel { index } => colour::channel(&picture, *index),
            Step::Split { channels } => colour::split(&picture, channels),
            Step::Arithmetic { operator, values } => arithmetic::apply(picture, *operator, values),
            Step::Truncate => Ok(arithmetic::truncate(picture)),
            Step::ScaleIntegers { signed } => arithmetic::scale_integers(picture, *signed),
            Step::ClipRange { min, max } => Ok(levels::clip_range(picture, *min, *max)),
            Step::Threshold { threshold, otsu, operation, max } => {
                levels::threshold(picture, *threshold, *otsu, *operation, *max)
            }
            Step::Normalize { norm, value, range, per_channel } => {
                Ok(levels::normalize(picture, *norm, *value, *range, *per_channel))
            }
            Step::Filter { kernel, width, height } => {
                filter::filter(&picture, kernel, [*width, *height])
            }
            Step::Reshape { rows, columns, channels } => {
                geometry::reshape(picture, *rows, *columns, *channels)
            }
            Step::Trim { levels, order } => geometry::trim(&picture, *levels, *order),
            Step::Equalize { method, order } => equalize::equalize(picture, *method, *order),
            Step::Unavailable { why } => Err(fault(why.clone())),
        }
    }
}
