//! Indices as operators of ONNX take them.

use super::Lower;
use super::sizes::rank;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::lower::Lowered;

/// Indices of the integer type that all operators take.
pub(crate) fn whole(b: &Lower, index: Var) -> Lowered<Var> {
    b.cast(index, Int64)
}

/// An index of rank 1.
pub(crate) fn vector(b: &Lower, index: Var) -> Lowered<Var> {
    let index = whole(b, index)?;
    if rank(b, index)? == 0 { b.unsqueeze(index, [0]) } else { Ok(index) }
}
