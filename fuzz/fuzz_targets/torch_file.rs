//! PyTorch files of every kind: zip archives, pickles, safetensors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_torch::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::file(bytes);
    fuzzing::pickle(bytes);
});
