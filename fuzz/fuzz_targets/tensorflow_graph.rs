//! Frozen graphs of TensorFlow, in binary form and as text.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_tensorflow::fuzzing::graph;

fuzz_target!(|bytes: &[u8]| {
    let _ = graph::graph(bytes);
});
