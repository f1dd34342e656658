//! The built-in executor: exact kernels for the standard's operators and for those of ONNX Runtime
//! that quantized networks use, one file per family, and what runs models on them. Constant folding,
//! the "both graphs compute the same" check, calibration and `onnxd eval` all need one.
//!
//! To add an operator: one function and one row in its family's table.

// Kernel bodies are instantiated for many element types, for some of which a conversion or clone is
// trivial.
#![allow(
    clippy::clone_on_copy, clippy::unnecessary_cast, clippy::unnecessary_fallible_conversions,
    clippy::useless_conversion
)]

mod activation;
mod attention;
mod call;
mod cells;
pub mod compare;
mod control;
mod conv;
mod detection;
mod dims;
mod domain;
mod elementwise;
pub mod engine;
mod exact;
mod executor;
mod fault;
mod fold;
mod frame;
mod gemm;
mod image;
mod inputs;
mod item;
mod linear;
mod logic;
mod loss;
mod math;
mod microsoft;
mod ml;
mod norm;
mod num;
mod parallel;
pub mod parts;
mod plan;
mod pool;
mod quant;
mod random;
mod reals;
mod recurrent;
mod reduce;
mod run;
mod sequence;
mod shape;
mod signal;
mod standard;
mod step_nodes;
mod steps;
mod support;
mod table;
#[cfg(test)]
mod testing;
mod text;
mod vector;
mod watch;

pub use compare::{Comparison, compare};
pub use engine::{Builtin, Engine, Prepared};
pub use executor::{BYTES_MAX, Executor, RunOptions};
pub use fold::{derive_node, eval_node, is_deterministic};
pub use gemm::{Columns, add_products};
pub use parallel::alone;
pub use random::RandomStream as RandomSource;
pub use table::operators;
pub use watch::{Observer, quoted};
