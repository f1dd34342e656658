//! Mutations of the seeds of the fuzz targets, without their tool.

use super::{code, exported, file, json, pickle, scripted};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};
use std::path::Path;

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"(", b"[", b"None", b"-1", b"9223372036854775807", b"torch.", b"x", b"\n", b"  ",
    b"while True:\n", b"0.", b"True", b"annotate(List[int], [])", b"_", b"}", b"\x80\x02]",
];

/// Runs `f` on the seeds of a target and on mutations of them.
fn run(target: &str, f: impl Fn(&[u8]) -> usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds").join(target);
    Mutations::of_folder(&folder, &WORDS).run(f);
}

#[test]
fn files() {
    run("torch_file", |bytes| {
        file(bytes);
        pickle(bytes);
        0
    });
}

#[test]
fn codes() {
    run("torch_script", |bytes| {
        code(bytes);
        0
    });
}

#[test]
fn scripts() {
    run("torch_script", |bytes| valid(scripted(bytes).as_ref()));
}

#[test]
fn programs() {
    run("torch_program", |bytes| {
        json(bytes);
        valid(exported(bytes).as_ref())
    });
}
