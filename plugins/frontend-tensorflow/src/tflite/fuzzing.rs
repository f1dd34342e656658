//! Entries for fuzz targets.

use super::network;
use crate::fuzz_input::{model, options};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;

/// Reads a TFLite model and converts it.
pub fn file(bytes: &[u8]) -> Option<Model> {
    let bytes = Bytes::copy_from_slice(bytes);
    model(network::import(&bytes, network::Asked::default(), &mut options()))
}

#[cfg(test)]
mod tests;
