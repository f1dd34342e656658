//! The JSON descriptor in a plugin's header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_plugin_host::descriptor::Descriptor;

fuzz_target!(|json: &str| {
    if let Ok(descriptor) = Descriptor::parse(json) {
        drop(descriptor.components());
    }
});
