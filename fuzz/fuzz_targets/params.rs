//! Params of a conversion: TOML, INI and overrides.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_config::Params;

fuzz_target!(|text: &str| {
    for name in ["params.toml", "params.ini"] {
        if let Ok(params) = Params::resolve(&[(name, text)], &[]) {
            drop(params.json().to_string());
            params.entries().iter().for_each(|entry| drop(entry.toml()));
        }
    }
    let overrides: Vec<String> = text.lines().map(str::to_owned).collect();
    drop(Params::resolve(&[], &overrides));
});
