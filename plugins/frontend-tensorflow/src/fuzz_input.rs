//! What fuzz targets of all readers have in common: files in one text of bytes, and what models are made with.

use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::{ExportOptions, Imported};

/// Marks where the next file begins.
const MARK: &[u8] = b"\n==>\n";

pub(crate) fn options() -> ExportOptions {
    ExportOptions::of_shapes(18, vec![])
}

pub(crate) fn model(imported: Result<Imported, Diagnostics>) -> Option<Model> {
    imported.ok().map(|imported| imported.model)
}

/// The parts of bytes between marks.
pub(crate) fn parts(bytes: &[u8]) -> Vec<Bytes> {
    let mut found = vec![];
    let mut rest = bytes;
    while let Some(at) = rest.windows(MARK.len()).position(|w| w == MARK) {
        found.push(Bytes::copy_from_slice(&rest[..at]));
        rest = &rest[at + MARK.len()..];
    }
    found.push(Bytes::copy_from_slice(rest));
    found
}

/// Mutations of the seeds of a fuzz target.
#[cfg(test)]
pub(crate) fn mutations<'w>(
    target: &str,
    words: &'w [&'w [u8]],
) -> onnxd_plugin_sdk::testing::mutations::Mutations<'w> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let folder = root.join("fuzz/corpus-seeds").join(target);
    onnxd_plugin_sdk::testing::mutations::Mutations::of_folder(&folder, words)
}
