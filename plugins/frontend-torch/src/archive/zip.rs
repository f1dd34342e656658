//! The zip container of torch.

pub(crate) use onnxd_plugin_sdk::Archive;
use onnxd_plugin_sdk::ArchiveKind;

/// Whether a file begins as a zip archive with members.
pub(crate) fn is(bytes: &[u8]) -> bool {
    ArchiveKind::of(bytes) == Some(ArchiveKind::Zip)
}

#[cfg(test)]
mod tests;
