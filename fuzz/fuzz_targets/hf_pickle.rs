//! Checkpoints of Hugging Face as `torch.save` writes them: archives, and pickles of dicts of tensors.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_hugging_face::fuzzing;

fuzz_target!(|bytes: &[u8]| {
    fuzzing::pickled(bytes);
});
