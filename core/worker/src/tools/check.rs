//! `onnxd check`: structure, types and shapes, all findings at once.

use onnxd_diagnostics::{Diagnostic, Diagnostics};
use onnxd_ir::{VerifyLevel, examine};
use std::path::Path;

/// Everything that is wrong with the model at `path`.
///
/// # Errors
/// Findings that keep it from being read at all.
pub fn check(path: &Path) -> Result<Vec<Diagnostic>, Diagnostics> {
    let mut model = onnxd_onnx::load(path)?.model;
    Ok(examine(&mut model, VerifyLevel::Full).0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_model;
    use onnxd_onnx::WriteOptions;

    #[test]
    fn findings_of_both_kinds_are_reported_together() {
        let text = "<ir_version: 10, opset_import: [\"\" : 17]>
            g (float[2,3] x, float[4] b) => (float[2,3] y)
            { a = Relu<alpha = 1.0>(x) s = Add(x, b) y = Relu(a) }";
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("m.onnx");
        onnxd_onnx::write_model(&parse_model(text).unwrap(), &path, &WriteOptions::default())
            .unwrap();
        let found: Vec<String> =
            check(&path).unwrap().into_iter().map(|d| d.into_finding().message).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        assert!(found[0].contains("`alpha`") && found[1].starts_with("Add: "), "{found:?}");
    }
}
