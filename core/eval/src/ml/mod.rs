//! Operators of `ai.onnx.ml`: classical machine learning.
//!
//! Where the standard is silent, results are those of ONNX Runtime: the scores of two classes that
//! share one number, and what becomes of them at the end.

pub(crate) mod encode;
pub(crate) mod linear;
pub(crate) mod map;
pub(crate) mod scale;
mod scores;
pub(crate) mod svm;
#[cfg(test)]
mod tests;
pub(crate) mod tree;

const DOMAIN: &str = "ai.onnx.ml";
