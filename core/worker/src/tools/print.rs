//! `onnxd print`: a model as ONNX text, or its figures.

use crate::stages::summary;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::text;
use onnxd_proto::onnxd::ModelSummary;
use std::collections::BTreeMap;
use std::path::Path;

/// Constants of more elements are abbreviated.
const ELEMENTS_MAX: usize = 16;

/// The model as ONNX text; large constants are abbreviated.
///
/// # Errors
/// Findings that keep it from being read.
pub fn print(path: &Path) -> Result<String, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    Ok(text::print_model_with(&model, &text::PrintOptions { elements_max: Some(ELEMENTS_MAX) }))
}

/// Figures of a model.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Versions, inputs, outputs, parameters, bytes.
    pub model: ModelSummary,
    /// How often each operator occurs.
    pub ops: BTreeMap<String, u64>,
}

/// The model's figures.
///
/// # Errors
/// Findings that keep it from being read.
pub fn summary(path: &Path) -> Result<Summary, Diagnostics> {
    let model = onnxd_onnx::load(path)?.model;
    let bytes = path.metadata().map_or(0, |m| m.len());
    Ok(Summary { model: summary::describe(&model, bytes), ops: summary::count_ops(&model) })
}
