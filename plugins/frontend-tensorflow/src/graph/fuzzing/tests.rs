//! Mutations of the seeds of the fuzz targets, without their tool.

use super::{bundle, graph, saved};
use crate::fuzzing::mutations;
use onnxd_plugin_sdk::testing::mutations::valid;

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"node { name: 'x' op: 'Identity' input: 'x' }",
    b"-1",
    b"9223372036854775807",
    b"size: 4611686018427387904 ",
    b"dim { size: -1 }",
    b"unknown_rank: true",
    b"DT_STRING",
    b"DT_FLOAT",
    b"input: \"x\" ",
    b"Identity",
    b"PartitionedCall",
    b":1",
    b"^",
    b"}",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f",
    b"\x00",
];

#[test]
fn graphs() {
    mutations("tensorflow_graph", &WORDS).run(|bytes| valid(graph(bytes).as_ref()));
}

#[test]
fn saved_models() {
    mutations("tensorflow_saved", &WORDS).run(|bytes| valid(saved(bytes).as_ref()));
}

#[test]
fn bundles() {
    mutations("tensorflow_bundle", &WORDS).run(bundle);
}
