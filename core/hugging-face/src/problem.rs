//! What can be wrong with a checkpoint, as diagnostics with stable codes.

use crate::diag::{Code, Diagnostic};

const AGAIN: &str = "The file is damaged or was changed; save or copy it again.";

/// A file contradicts its format.
pub(crate) fn damaged(what: impl Into<String>) -> Diagnostic {
    Diagnostic::new(Code::SourceSyntax, what).help(AGAIN)
}

/// What a file of a repository is whose content was not fetched.
const POINTER: &[u8] = b"version https://git-lfs";

/// That a file is such a pointer, and not what it names.
pub(crate) fn pointer(file: &str, bytes: &[u8]) -> Option<Diagnostic> {
    let why = format!("`{file}` is a pointer of Git LFS, and not the file that it names");
    bytes.starts_with(POINTER).then(|| damaged(why).help("Run `git lfs pull` in the repository."))
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
