//! The params of a request, read once.

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_params::Resolved;
use std::sync::Arc;

/// The params, or why whoever asks has not resolved them.
pub(crate) fn read(json: &str) -> Result<Arc<Resolved>, Diagnostic> {
    let wrong = |why| Diagnostic::new(Code::Internal, format!("the params: {why}"));
    Resolved::parse(json).map(Arc::new).map_err(wrong)
}
