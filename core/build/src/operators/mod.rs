//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: the operators by families.

mod activation;
mod attention;
mod conv;
mod einsum;
mod index;
mod linear;
mod logic;
mod loss;
mod math;
mod ml;
mod norm;
mod pool;
mod quant;
mod recurrent;
mod reduce;
mod resize;
mod sequence;
mod shape;
mod signal;
mod text;
mod vision;

/// The operators as types, by which [`crate::Call`] knows what may be set.
pub mod op {
    pub use super::activation::op::*;
    pub use super::attention::op::*;
    pub use super::conv::op::*;
    pub use super::einsum::op::*;
    pub use super::index::op::*;
    pub use super::linear::op::*;
    pub use super::logic::op::*;
    pub use super::loss::op::*;
    pub use super::math::op::*;
    pub use super::norm::op::*;
    pub use super::pool::op::*;
    pub use super::quant::op::*;
    pub use super::recurrent::op::*;
    pub use super::reduce::op::*;
    pub use super::resize::op::*;
    pub use super::sequence::op::*;
    pub use super::shape::op::*;
    pub use super::signal::op::*;
    pub use super::text::op::*;
    pub use super::vision::op::*;
}

/// Those of `ai.onnx.ml`.
pub mod ml_op {
    pub use super::ml::op::*;
}
