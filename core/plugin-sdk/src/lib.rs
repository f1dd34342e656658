//! What a plugin in Rust is written with: traits, one macro, and the graph. All `unsafe` of the
//! plugin interface is here.
//!
//! A front-end implements [`Frontend`], a pass [`rewrite::Pass`] (or is a [`rewrite::rule`]), a quantizer
//! [`Quantizer`], and [`export_plugin!`] makes a library of them that onnxd loads. `plugins/example` is a complete one.

mod calibration;
mod component;
mod entry;
mod export;
mod external;
mod fingerprint;
mod frontend;
mod host;
pub mod lower;
mod messages;
mod progress;
mod quality;
mod quantizer;
mod reader;
mod room;
mod submission;
mod tensors;

pub use calibration::{Batches, Calibration, Feeds, Labelled};
pub use component::Component;
pub use external::External;
pub use fingerprint::fingerprint;
pub use frontend::{Claim, Frontend, Imported, Need, Probe};
pub use progress::Part;
pub use quality::{Coverage, Origin, Quality};
pub use quantizer::{
    Accumulator, Attempt, Counts, QuantizeContext, QuantizedLayer, QuantizedTensor, Quantizer,
};
pub use reader::InputReader;
pub use room::Room;
pub use submission::{LogLevel, Submission};

pub use bytes;
pub use onnxd_build as build;
pub use onnxd_diagnostics as diagnostics;
pub use onnxd_eval as eval;
pub use onnxd_ir as ir;
pub use onnxd_onnx as onnx;
pub use onnxd_opset as opset;
pub use onnxd_preprocess as preprocess;
pub use onnxd_rewrite as rewrite;
pub use serde_json;

/// What [`export_plugin!`] expands to; not for direct use.
#[doc(hidden)]
pub mod private {
    pub use crate::entry::{Definition, create, destroy, entry, extension, run};
    pub use crate::export::is_plain;
    pub use onnxd_plugin_abi as abi;
}
