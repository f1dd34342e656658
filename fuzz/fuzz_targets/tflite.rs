//! TFLite models.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_tensorflow::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    let _ = fuzzing::tflite::file(bytes);
});
