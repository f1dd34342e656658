//! SavedModels with their checkpoints.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_tensorflow::fuzzing::graph;

fuzz_target!(|bytes: &[u8]| {
    let _ = graph::saved(bytes);
});
