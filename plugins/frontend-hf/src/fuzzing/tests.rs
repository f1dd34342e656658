//! Mutations of the seeds of the fuzz target, without its tool.

use super::{folder, tensors};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};
use std::path::{Path, PathBuf};

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 15] = [
    b"null", b"-1", b"0", b"1e308", b"[]",
    b"\"rope_scaling\":{\"rope_type\":\"yarn\",\"factor\":2},",
    b"\"rope_scaling\":{\"type\":\"dynamic\",\"factor\":2},", b"\"sliding_window\":2,",
    b"\"model_type\":\"gpt_neox\",", b"\"dtype\":\"BF16\"", b"\"data_offsets\":[0,0]",
    b"18446744073709551615", b"\"group_size\":-1", b"\"bits\":8", b"\"symmetric\":true",
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
