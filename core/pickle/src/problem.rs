//! What can be wrong with a file, as diagnostics with stable codes.

use onnxd_diagnostics::{Code, Diagnostic};

const AGAIN: &str = "The file is damaged or was changed; save or copy it again.";

/// The file contradicts its format.
pub fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what).help(AGAIN)
}

/// The file ends before what it announces.
pub fn truncated(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceTruncated, what)
}

/// The file asks for more than the machine should give.
pub fn over_limit(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, what)
}

/// The file is sound and has something that no reader here understands.
pub fn unsupported(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::FeatureUnsupported, what)
}
