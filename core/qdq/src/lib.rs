//! Quantized graphs of the ONNX standard. A float graph gets `QuantizeLinear` and
//! `DequantizeLinear` pairs where values are to be integers (`QDQ`); operators between such pairs
//! become operators on integers (`QLinear`), and back.

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

pub mod accuracy;
mod apart;
mod asked;
mod bake;
mod bodies;
pub mod calibrate;
mod coded;
mod dynamic;
mod edit;
mod fold;
mod follower;
mod forms;
mod gram;
mod lanes;
mod place;
mod plan;
mod products;
pub mod recipes;
mod report;
mod request;
mod rounding;
mod scaling;
mod single;
#[cfg(test)]
mod tests;
mod unfold;
mod unmatched;
pub mod weight;
mod weight_only;
mod weighted;

pub use apart::keep_sums_apart;
pub use bake::bake;
pub use dynamic::{LearnedWeights, quantize_dynamic, quantize_dynamic_but};
pub use fold::{Folded, fold, fold_products};
pub use follower::Follower;
pub use place::{Ranges, place};
pub use plan::{Plan, Quantized, plan};
pub use report::{
    Attempt, Done, Form, LeftInFloat, QuantizedLayer, QuantizedTensor, Seen, name_of,
};
pub use request::{Overrides, Request, Settings};
pub use single::to_float32;
pub use unfold::{is_quantized, unfold};
pub use unmatched::Unmatched;
pub use weight_only::{Data, Ways, quantize_weights};
pub use weighted::{Product, Weighted};
