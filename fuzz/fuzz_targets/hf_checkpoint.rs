//! Checkpoints of Hugging Face: headers of safetensors, indexes, and `config.json` with the decoders that it describes.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_hugging_face::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::tensors(bytes);
    fuzzing::folder(bytes);
});
