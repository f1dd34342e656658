//! Mutations of the seeds of the fuzz target, without its tool.

use super::{folder, tensors};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};
use std::path::Path;

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"null", b"-1", b"0", b"1e308", b"[]",
    b"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2},",
    b"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},", b"\"sliding_window\":2,",
    b"\"model_type\":\"gpt_neox\",", b"\"dtype\":\"BF16\"", b"\"data_offsets\":[0,0]",
    b"18446744073709551615", b"\"image_size\":65536,", b"\"patch_size\":1,",
    b"\"window_size\":32,", b"[2147483648]",
];

#[test]
fn checkpoints() {
    let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seeds/hf_checkpoint");
    Mutations::of_folder(&seeds, &WORDS).run(|bytes| {
        tensors(bytes);
        valid(folder(bytes).as_ref())
    });
}
