//! Mutations of the seeds of the fuzz target, without its tool.

use super::file;
use crate::fuzz_input::mutations;
use onnxd_plugin_sdk::testing::mutations::valid;

#[test]
fn files() {
    mutations("tflite", &[b"TFL3", b"serving_default"]).run(|bytes| valid(file(bytes).as_ref()));
}
