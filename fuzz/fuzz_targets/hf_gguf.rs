//! Files of GGUF: metadata and places of tensors, and the decoders that they describe.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_hugging_face::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::gguf(bytes);
});
