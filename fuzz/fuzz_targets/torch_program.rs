//! Exported programs of PyTorch: the description as JSON, run by the front-end.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_frontend_torch::fuzzing;
use onnxd_ir::{VerifyLevel, verify};

fuzz_target!(|bytes: &[u8]| {
    fuzzing::json(bytes);
    if let Some(model) = fuzzing::exported(bytes) {
        let findings = verify(&model, VerifyLevel::Full);
        assert!(findings.0.is_empty(), "what is imported is valid: {findings}");
    }
});
