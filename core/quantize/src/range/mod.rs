//! Ranges, and the scales and zero points that follow from them; constant tensors as integers.

pub(crate) mod method;
pub(crate) mod nearest;
mod scale;
pub(crate) mod vectors;
pub mod weights;

pub use method::Method;
pub use scale::{Levels, Scale, integers};
