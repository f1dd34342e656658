//! What a plugin in Rust is written with: traits, one macro, and the graph. All `unsafe` of the
//! plugin interface is here.
//!
//! A front-end implements [`Frontend`], a pass `rewrite::Pass` (or is a `rewrite::rule`), a quantizer
//! `Quantizer`, and [`export_plugin!`] makes a library of them that onnxd loads. `plugins/example` is a complete one.
//!
//! | feature | adds |
//! | --- | --- |
//! | none | what front-ends need: the graph, its builder, `lower`, protobuf |
//! | `pass` | passes and rewrite rules |
//! | `quantizer` | quantizers, calibration data, and the executor |
//! | `archive` | zip and tar archives whose members are read where they lie |
//! | `pickle` | objects and tensors of what `torch.save` writes |
//! | `formulas` | functions that several frameworks have and ONNX has not, as graphs |
//! | `options` | what params and arrays say of the inputs of a network that is lowered |
//! | `arrays` | what the headers of dropped `.npz` files say |
//! | `eval` | the built-in executor alone |
//! | `opset` | conversion between versions of the standard's operators |
//! | `preprocess` | what happens to pictures before a network sees them, as data |
//! | `testing` | what tests of plugins need, for `[dev-dependencies]` |

#![warn(missing_docs)]

#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "arrays")]
mod arrays;
#[cfg(feature = "quantizer")]
mod calibration;
mod component;
#[cfg(feature = "options")]
mod constants;
mod contract;
mod entry;
mod export;
#[cfg(feature = "options")]
mod export_options;
mod external;
#[cfg(feature = "quantizer")]
mod fingerprint;
mod frontend;
mod host;
pub mod json;
pub mod lower;
mod params;
#[cfg(feature = "pass")]
mod passes;
#[cfg(feature = "quantizer")]
mod progress;
#[cfg(feature = "quantizer")]
mod quantize;
#[cfg(feature = "quantizer")]
mod quantizer;
mod reader;
mod room;
#[cfg(feature = "quantizer")]
mod session;
pub mod states;
mod submission;
mod tensors;
#[cfg(feature = "testing")]
pub mod testing;

#[cfg(feature = "archive")]
pub use archive::{Archive, ArchiveKind};
#[cfg(feature = "arrays")]
pub use arrays::ArrayHeader;
#[cfg(feature = "quantizer")]
pub use calibration::{Batches, Calibration, Feeds, Labelled};
pub use component::Component;
#[cfg(feature = "options")]
pub use constants::Constants;
#[cfg(feature = "options")]
pub use export_options::ExportOptions;
pub use external::External;
#[cfg(feature = "quantizer")]
pub use fingerprint::fingerprint;
pub use frontend::{Claim, Frontend, Imported, LEARNED_RANGES, NamedModel, Need, Probe, QUANTIZED};
#[cfg(feature = "pickle")]
pub use onnxd_pickle as pickle;
#[cfg(feature = "quantizer")]
pub use onnxd_proto::onnxd::{
    Accumulator, Attempt, Counts, Quality, QuantizedLayer, QuantizedTensor,
};
#[cfg(feature = "quantizer")]
pub use onnxd_quantize::report::{Nearness, Origin};
pub use params::Params;
#[cfg(feature = "quantizer")]
pub use progress::WorkPart;
#[cfg(feature = "quantizer")]
pub use quantizer::{QuantizeContext, Quantizer};
pub use reader::InputReader;
pub use room::Room;
pub use states::State;
pub use submission::{LogLevel, Submission};

pub use bytes;
pub use onnxd_build as build;
pub use onnxd_diagnostics as diagnostics;
#[cfg(feature = "eval")]
pub use onnxd_eval as eval;
#[cfg(feature = "formulas")]
pub use onnxd_formulas as formulas;
pub use onnxd_ir as ir;
pub use onnxd_lowering::{arguments, rows};
pub use onnxd_onnx as onnx;
#[cfg(feature = "opset")]
pub use onnxd_opset as opset;
pub use onnxd_params::{Section, host as host_params, params, serde, words};
#[cfg(feature = "preprocess")]
pub use onnxd_preprocess as preprocess;
#[cfg(feature = "quantizer")]
pub use onnxd_quantize as quantization;
#[cfg(feature = "pass")]
pub use onnxd_rewrite as rewrite;
pub use serde_json;

/// What [`export_plugin!`] expands to; not for direct use.
#[doc(hidden)]
pub mod private {
    pub use crate::entry::{Definition, create, destroy, entry, extension, run};
    pub use crate::export::{is_plain, join, len};
    pub use crate::host::log;
    pub use onnxd_plugin_abi as abi;
}

/// Writes a line to the log, from the thread that the host called: `log!(Warning, "{n} weights are zero")`. The level
/// is one of [`LogLevel`]; the part is the module. The report keeps the line. Threads of the plugin's own use
/// [`Submission::log`].
#[macro_export]
macro_rules! log {
    ($level:ident, $($text:tt)+) => {
        $crate::private::log($crate::LogLevel::$level, module_path!(), &format!($($text)+))
    };
}
