//! NumPy's archives and arrays. What can be read can be written.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_worker::tools::arrays;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a.npz", "a.npy"] {
        let path = folder.path().join(name);
        fs::write(&path, bytes).unwrap();
        if let Ok(read) = arrays::read(&path) {
            let copy = folder.path().join("copy.npz");
            drop(arrays::write(&copy, &read));
        }
    }
});
