//! What can be wrong with a checkpoint, as diagnostics with stable codes.

use crate::diag::{Code, Diagnostic};

const AGAIN: &str = "The file is damaged or was changed; save or copy it again.";

/// A file contradicts its format.
pub(crate) fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what).help(AGAIN)
}

/// A file ends before what it announces.
pub(crate) fn truncated(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceTruncated, what)
}

/// A file asks for more than the machine should give.
pub(crate) fn over_limit(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, what)
}

/// The checkpoint is sound and asks for something that is not known here.
pub(crate) fn unsupported(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::FeatureUnsupported, what)
}
