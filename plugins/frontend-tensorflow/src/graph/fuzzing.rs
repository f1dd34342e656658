//! Entries for fuzz targets: what reads foreign bytes of graphs, SavedModels and checkpoints.

use super::bundle::Bundle;
use super::saved::{self, CHECKPOINT, SavedModelChoice};
use super::{frozen, network};
use crate::files::{Files, NETWORK, TEXT};
use crate::fuzz_input::{model, options, parts};
use crate::wire::proto::GraphDef;
use crate::wire::text;
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;
use prost::Message;

/// Tensors of a checkpoint that are read.
const TENSORS_MAX: usize = 100;

/// A frozen graph, in binary form if `bytes` begin with a node.
pub fn graph(bytes: &[u8]) -> Option<Model> {
    let bytes = match bytes.first() {
        Some(0x0a) => Bytes::copy_from_slice(bytes),
        _ => text::encoded(bytes, "GraphDef").ok()?.into(),
    };
    let graph = GraphDef::decode(bytes).ok()?;
    let network = frozen::network(&graph, &[], &[]).ok()?;
    model(network::import(&network, &options()))
}

/// A SavedModel, then the index of its checkpoint, then a file of data.
pub fn saved(bytes: &[u8]) -> Option<Model> {
    let parts = parts(bytes);
    let name = if parts[0].first() == Some(&8) { NETWORK } else { TEXT };
    let names = [
        name.to_owned(),
        format!("{CHECKPOINT}.index"),
        format!("{CHECKPOINT}.data-00000-of-00001"),
    ];
    let files = Files::Fixed(names.into_iter().zip(parts).collect());
    model(saved::import(&files, &SavedModelChoice::default(), &options()))
}

/// The index of a checkpoint, then its files of data; how many tensors they hold.
pub fn bundle(bytes: &[u8]) -> usize {
    let mut parts = parts(bytes).into_iter();
    let index = (format!("{CHECKPOINT}.index"), parts.next().unwrap_or_default());
    let shards: Vec<Bytes> = parts.collect();
    let count = shards.len();
    let name = |i| format!("{CHECKPOINT}.data-{i:05}-of-{count:05}");
    let shards = shards.into_iter().enumerate().map(|(i, bytes)| (name(i), bytes));
    let files = Files::Fixed([index].into_iter().chain(shards).collect());
    let Ok(bundle) = Bundle::open(&files, CHECKPOINT) else { return 0 };
    bundle.keys().take(TENSORS_MAX).filter(|key| bundle.tensor(key, "").is_ok()).count()
}

#[cfg(test)]
mod tests;
