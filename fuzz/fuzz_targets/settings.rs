//! The daemon's settings: file, environment, command line.
#![no_main]

use libfuzzer_sys::fuzz_target;
use onnxd_config::{Environment, load};

fuzz_target!(|text: &str| {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("onnxd.toml");
    std::fs::write(&file, text).unwrap();
    let mut environment = Environment { cores: 2, ..Environment::default() };
    environment.current_dir = folder.path().to_owned();
    if let Ok(loaded) = load(Some(&file), &environment, &[]) {
        let all: Vec<String> = loaded.entries.iter().map(|entry| entry.toml()).collect();
        drop(all);
    }
    let overrides: Vec<String> = text.lines().map(str::to_owned).collect();
    drop(load(None, &environment, &overrides));
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        environment.vars.insert(name.to_owned(), value.to_owned());
    }
    drop(load(None, &environment, &[]));
});
