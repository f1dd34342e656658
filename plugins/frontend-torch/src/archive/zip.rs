//! The zip container of torch.

use crate::diag::{Code, Diagnostic};
pub(crate) use onnxd_plugin_sdk::Archive;
use onnxd_plugin_sdk::ArchiveKind;
use onnxd_plugin_sdk::diagnostics::shown;

/// Members that a warning names.
const NAMED_MAX: usize = 5;

/// Whether a file begins as a zip archive with members.
pub(crate) fn is(bytes: &[u8]) -> bool {
    ArchiveKind::of(bytes) == Some(ArchiveKind::Zip)
}

/// A warning if members that were read do not have their checksums. torch does not look at them.
pub(crate) fn doubt(archive: &Archive) -> Option<Diagnostic> {
    let wrong = archive.wrong_checksums();
    let names: Vec<String> =
        wrong.iter().take(NAMED_MAX).map(|name| format!("`{}`", shown(name))).collect();
    let more = wrong.len() - names.len();
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let (members, have) = match wrong.len() {
        1 => ("member", "does not have its checksum"),
        _ => ("members", "do not have their checksums"),
    };
    (!wrong.is_empty()).then(|| {
        let message = format!(
            "the archive's {members} {}{more} {have}: the file was changed or is damaged",
            names.join(", ")
        );
        let help = "torch loads such a file without a word. Copy or save it again, unless it was changed on purpose.";
        Diagnostic::new(Code::SourceSyntax, message).help(help)
    })
}

#[cfg(test)]
mod tests;
