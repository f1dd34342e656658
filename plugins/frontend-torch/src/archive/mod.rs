//! What a file is, its members, the objects and tensors in it.

#[cfg(test)]
pub(crate) mod fixture;
pub(crate) mod fuzzing;
pub(crate) mod kind;
pub(crate) mod objects;
pub(crate) mod pickle;
pub(crate) mod storage;
pub(crate) mod weights;
pub(crate) mod zip;

use crate::diag::{Code, Diagnostic};

const AGAIN: &str = "The file is damaged or was changed; save or copy it again.";

/// The file contradicts its format.
pub(crate) fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what).help(AGAIN)
}

/// The file ends before what it announces.
pub(crate) fn truncated(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceTruncated, what)
}

/// The file asks for more than the machine should give.
pub(crate) fn over_limit(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceLimit, what)
}

/// The file is sound and has something that no reader here understands.
pub(crate) fn unsupported(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::FeatureUnsupported, what)
}
