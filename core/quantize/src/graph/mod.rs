//! What plans and emitters know of a graph.

pub(crate) mod edit;
mod float32;
mod prepare;
pub(crate) mod quantized;
pub(crate) mod subgraphs;
pub(crate) mod weighted;

pub use float32::to_float32;
pub use prepare::{fix_weights, in_float32};
pub use weighted::{WeightedNode, WeightedOp};
