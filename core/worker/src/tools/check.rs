//! `onnxd check`: structure, types and shapes, all findings at once.

use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_ir::{infer, verify};
use std::path::Path;

/// Everything that is wrong with the model at `path`.
///
/// # Errors
/// Findings that keep it from being read at all.
pub fn check(path: &Path) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut model = onnxd_onnx::load(path)?.model;
    let mut found = verify::verify(&model, verify::Level::Full).0;
    if found.is_empty() {
        found.extend(infer::infer(&mut model).0);
    }
    Ok(found)
}
