//! ONNX's protobuf messages and onnxd's own, as prost types.
//!
//! Every `bytes` field is a [`bytes::Bytes`], so a model decoded from a memory map shares the map instead of copying.
//! The generated files are committed; `tests/generated.rs` holds them equal to the `.proto` files.

mod diagnostic;
pub mod footprint;
#[cfg(feature = "serde")]
mod real;
#[cfg(feature = "serde")]
mod word;

/// ONNX's messages in their proto2 form: field presence survives a round trip.
#[allow(clippy::all, missing_docs, unreachable_pub)]
pub mod onnx {
    include!("generated/onnx.rs");
}

/// onnxd's own messages: job, worker, plugin, report.
#[allow(clippy::all, missing_docs, unreachable_pub)]
pub mod onnxd {
    include!("generated/onnxd.rs");
}
