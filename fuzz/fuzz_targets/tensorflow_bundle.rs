//! Checkpoints: the index and the files of data.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_tensorflow::fuzzing::graph;

fuzz_target!(|bytes: &[u8]| {
    graph::bundle(bytes);
});
