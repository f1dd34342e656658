//! Zip and tar archives: their members' names and contents.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_plugin_sdk::Archive;

fuzz_target!(|bytes: &[u8]| {
    let bytes = bytes.to_vec();
    for archive in [Archive::open(bytes.clone().into()), Archive::open_any(bytes.into())] {
        let Ok(archive) = archive else { continue };
        for name in archive.names() {
            assert!(archive.has(name), "a member that is named is there");
            let _ = archive.read(name);
        }
    }
});
