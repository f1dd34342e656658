//! `onnxd check`: structure, types and shapes, all findings at once.

use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{infer, verify};
use std::path::Path;

/// Everything that is wrong with the model at `path`.
///
/// # Errors
/// Findings that keep it from being read at all.
pub fn check(path: &Path) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut model = onnxd_onnx::load(path)?.model;
    let mut found = verify::verify(&model, verify::Level::Full).0;
    // A wrong type of a value may be found both ways.
    let named: Vec<_> = found.iter().map(|d| d.layer.clone()).collect();
    let inferred = infer::infer(&mut model).0.into_iter();
    let types = Code::OnnxInvalid.as_str();
    found.extend(inferred.filter(|d| d.code != types || !named.contains(&d.layer)));
    Ok(found)
}
