//! Mutations of small files, without a tool for it.

use super::{description, file, hdf5};
use crate::fuzz_input::mutations;
use crate::keras::fixture::{self, MODELS};
use onnxd_plugin_sdk::testing::mutations::{Mutations, valid};

/// Numbers and words that are put in between.
const WORDS: [&[u8]; 12] = [
    b"null", b"-1", b"9223372036854775807", b"[]", b"0.5", b"\"Dense\"", b"{}", b"true",
    b"\xff\xff\xff\xff\xff\xff\xff\xff", b"\x00\x00\x00\x00\x00\x00\x00\x00", b"SNOD", b"TREE",
];

/// The bytes of a test's weights.
fn weights() -> Vec<u8> {
    fixture::weights(&[("layers/dense/vars", &[("0", &[4, 3]), ("1", &[3])])])
}

#[test]
fn hdf5_files() {
    Mutations::of("keras_hdf5", vec![weights()], &WORDS).run(hdf5);
}

#[test]
fn descriptions() {
    let weights = weights();
    let seeds = MODELS.iter().map(|model| model.as_bytes().to_vec()).collect();
    Mutations::of("keras_description", seeds, &WORDS).run(|text| {
        let of = |is_keras2| valid(description(text, &weights, is_keras2).as_ref());
        of(false) + of(true)
    });
}

#[test]
fn files() {
    mutations("keras_file", &WORDS).run(|bytes| valid(file(bytes).as_ref()));
}
