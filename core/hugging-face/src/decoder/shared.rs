//! What layers of a decoder share, and what a layer is told of itself.

use super::mask::Tokens;
use super::rotary::Turn;
use super::tables::{Lengths, Table};
use super::weights::Net;
use super::{Attention, DecoderLayer};
use onnxd_plugin_sdk::build::{Result, Var};

/// Names of sizes.
pub(super) const PAST: &str = "past_sequence_length";
pub(super) const BATCH: &str = "batch_size";
pub(super) const NEW: &str = "sequence_length";
pub(super) const TOTAL: &str = "total_sequence_length";

/// What layers share.
pub(super) struct Shared {
    pub(super) tokens: Tokens,
    pub(super) turns: Vec<Turn>,
    /// What is added to scores, by the windows of layers: [B, 1, S, T], or as many as heads.
    pub(super) biases: Vec<(Option<usize>, Var)>,
    /// How many tokens rows have, for ONNX Runtime GenAI.
    pub(super) lengths: Option<Lengths>,
    /// Tables of the rotations for it, where it turns heads itself.
    pub(super) tables: Vec<Option<Table>>,
}

impl Shared {
    pub(super) fn bias(&self, window: Option<usize>) -> Var {
        let found = self.biases.iter().find(|(known, _)| *known == window);
        found.expect("there is a bias for the window of each layer").1
    }
}

/// A layer, and what the cache has of it.
pub(super) struct CachedLayer<'p> {
    pub(super) number: usize,
    pub(super) layer: DecoderLayer,
    /// What names of its weights begin with.
    pub(super) prefix: &'p str,
    /// Keys and values of earlier calls: [B, heads, P, D].
    pub(super) past: Option<[Var; 2]>,
}

/// Keeps elements within the bound of the family.
pub(super) fn cut(net: &Net<'_>, x: Var) -> Result<Var> {
    match net.d.attention.clip {
        Some(bound) => net.b.clip(x).min(-bound).max(bound).one(),
        None => Ok(x),
    }
}

/// What scores of a layer are multiplied by.
pub(super) fn scale(net: &Net<'_>, layer: usize) -> f64 {
    let Attention { scale, by_layer, .. } = net.d.attention;
    if by_layer { scale / (layer + 1) as f64 } else { scale }
}
