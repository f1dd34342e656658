//! Files that no front-end takes: whatever they hold, their format is told or not, and nothing else.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_intake::formats;
use std::fs;

fuzz_target!(|bytes: &[u8]| {
    let _ = formats::of_content(bytes, bytes.len() as u64);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    fs::write(&path, [b"PK\x03\x04", bytes].concat()).unwrap();
    let _ = formats::recognise(&path);
});
