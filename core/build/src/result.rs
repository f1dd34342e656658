//! What building gives.

use onnxd_diagnostics::Diagnostic;

/// What building gives, or what contradicts and the layer it was built for.
pub type Result<T> = std::result::Result<T, Diagnostic>;
