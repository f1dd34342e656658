//! The descriptor in a plugin's header.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_config::{Declared, Descriptor};

fuzz_target!(|text: &str| {
    if let Ok(descriptor) = Descriptor::parse(text) {
        drop(Declared::from_components(descriptor.components.iter().map(|c| ("org.example", c))));
    }
});
