//! Mutations of the seeds of the fuzz target, without its tool.

use super::{folder, gguf, tensors};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};
use std::path::Path;

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 12] = [
    b"null", b"-1", b"0", b"1e308", b"[]",
    b"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2},",
    b"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},", b"\"sliding_window\":2,",
    b"\"model_type\":\"gpt_neox\",", b"\"dtype\":\"BF16\"", b"\"data_offsets\":[0,0]",
    b"18446744073709551615",
];

#[test]
fn checkpoints() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds/hf_checkpoint");
    Mutations::of_folder(&seeds, &WORDS).run(|bytes| {
        tensors(bytes);
        valid(folder(bytes).as_ref())
    });
}

/// Names of architectures, keys and tensors, and counts, that are put in between.
const PARTS: [&[u8]; 10] = [
    b"mpt", b"gpt2", b"gemma", b"qwen3", b"attn_norm", b"\0\0\0\0\0\0\0\x10",
    b"\x09\0\0\0\x09\0\0\0", b"\x0c\0\0\0", b"\xff\xff\xff\xff\xff\xff\xff\x7f", b"blk.1.",
];

#[test]
fn files_of_gguf() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds/hf_gguf");
    Mutations::of_folder(&seeds, &PARTS).run(|bytes| valid(gguf(bytes).as_ref()));
}
