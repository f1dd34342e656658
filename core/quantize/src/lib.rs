//! Quantization of ONNX graphs, below the plugin SDK: quantizers are policy on top of this.
//!
//! Modules depend in one direction: each room uses only rooms above it in this table, and
//! `integration-tests/tests/it/layers.rs` fails where one does not.
//!
//! | room | what it is |
//! | --- | --- |
//! | [`observe`] | statistics of values while a model runs on samples, in constant memory |
//! | [`report`] | what a quantization did, as rows for a report |
//! | [`session`] | what a quantization asks of the program that it runs in |
//! | [`range`] | from statistics to ranges; scales and zero points; constant tensors as integers |
//! | [`graph`] | what plans and emitters know of a graph: quantized values, weighted operators, sub-graphs |
//! | [`plan`] | what is asked for, and which values and operators are quantized |
//! | [`emit`] | the quantized graph: pairs of `QuantizeLinear` and `DequantizeLinear`, integer operators, and back |
//! | [`accuracy`] | how near a quantized model is to the float model |
//! | [`search`] | what makes it more accurate: equalization, SmoothQuant, AdaRound, GPTQ, AWQ, bias correction |

// A diagnostic is built at most once per failing call; boxing it would only hide it.
#![allow(clippy::result_large_err)]

pub mod accuracy;
pub mod emit;
pub mod graph;
pub mod observe;
pub mod plan;
pub mod range;
pub mod report;
pub mod search;
pub mod session;
#[cfg(test)]
mod tests;
