//! Mutations of the seeds of the fuzz target, without its tool.

use super::{folder, gguf, pickled, tensors};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};
use std::path::{Path, PathBuf};

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 19] = [
    b"null", b"-1", b"0", b"1e308", b"[]",
    b"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2},",
    b"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},", b"\"sliding_window\":2,",
    b"\"model_type\":\"gpt_neox\",", b"\"dtype\":\"BF16\"", b"\"data_offsets\":[0,0]",
    b"18446744073709551615", b"\"image_size\":65536,", b"\"patch_size\":1,",
    b"\"window_size\":32,", b"[2147483648]", b"\"group_size\":-1", b"\"bits\":8",
    b"\"symmetric\":true",
];

fn seeds() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds/hf_checkpoint")
}

/// Seeds of quantized weights get as far as their graph, so that mutations of them reach the readers.
#[test]
fn seeds_of_quantized_weights_are_read() {
    let word = b"quantization_config";
    let mut count = 0;
    for seed in std::fs::read_dir(seeds()).unwrap() {
        let path = seed.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if bytes.windows(word.len()).any(|part| part == word) {
            assert!(folder(&bytes).is_some(), "{}", path.display());
            count += 1;
        }
    }
    assert_eq!(count, 5);
}

#[test]
fn checkpoints() {
    Mutations::of_folder(&seeds(), &WORDS).run(|bytes| {
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

/// Operations of pickles, and names that have a meaning in them.
const OPERATIONS: [&[u8]; 12] = [
    b"(", b"t", b"R", b"Q", b"b", b"u", b"h\0", b"q\0", b"}", b"]",
    b"ctorch._utils\n_rebuild_tensor_v3\n", b"ccollections\nOrderedDict\n)R",
];

#[test]
fn files_of_pickles() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds/hf_pickle");
    Mutations::of_folder(&seeds, &OPERATIONS).run(pickled);
}
