//! Mutations of the seeds of the fuzz targets, without their tool.

use super::{bundle, graph, saved};
use crate::fuzz_input::mutations;
use onnxd_plugin_sdk::testing::mutations::valid;

/// Words that are put in between, beside parts of other seeds.
const WORDS: [&[u8]; 16] = [
    b"node { name: 'x' op: 'Identity' input: 'x' }", b"-1", b"9223372036854775807",
    b"size: 4611686018427387904 ", b"dim { size: -1 }", b"unknown_rank: true", b"DT_STRING",
    b"DT_FLOAT", b"input: \"x\" ", b"Identity", b"PartitionedCall", b":1", b"^", b"}",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\x7f", b"\x00",
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

#[test]
fn an_output_that_no_turn_of_a_loop_computes_is_refused() {
    let seed =
        include_str!("../../../../../fuzz/corpus-seeds/tensorflow_graph/enter__counter.pbtxt");
    assert_eq!(valid(graph(seed.as_bytes()).as_ref()), 1);
    // The first half of a switch is the value that leaves the loop.
    let dead = seed.replace("while/Switch_1:1", "while/Switch_1");
    assert!(dead != seed && graph(dead.as_bytes()).is_none());
}
