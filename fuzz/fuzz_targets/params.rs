//! Params of a conversion: TOML, INI and overrides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_config::{Declared, Params};

fuzz_target!(|text: &str| {
    let declared = Declared::default();
    for name in ["params.toml", "params.ini"] {
        if let Ok(params) = Params::resolve(&declared, &[(name, text)], &[]) {
            drop(params.resolved().text().to_owned());
            params.entries().iter().for_each(|entry| drop(entry.toml()));
        }
    }
    let overrides: Vec<String> = text.lines().map(str::to_owned).collect();
    drop(Params::resolve(&declared, &[], &overrides));
});
