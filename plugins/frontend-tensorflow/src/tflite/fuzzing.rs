//! Entries for fuzz targets.

use super::network;
use bytes::Bytes;
use onnxd_plugin_sdk::ExportOptions;

/// Reads a TFLite model and converts it.
pub fn file(bytes: &[u8]) {
    let mut options = ExportOptions::of_shapes(18, vec![]);
    let _ = network::import(&Bytes::copy_from_slice(bytes), None, &mut options, false);
}
