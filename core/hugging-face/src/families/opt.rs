//! OPT: a table of positions that begins in its third row, LayerNorm, an MLP without a gate.

use super::base::{self, Base, Keys, LLAMA, NAMES};
use crate::config::Config;
use crate::decoder::{Decoder, MlpKind, Names, NormKind};
use crate::diag::Diagnostic;

/// Rows of the table before that of the first position.
const FIRST: usize = 2;

const OPT: Base = Base {
    keys: Keys { inner: "ffn_dim", kv_heads: "", ..LLAMA.keys },
    names: Names {
        prefixes: &["model.decoder.", "decoder."],
        positions: "embed_positions",
        norm: "self_attn_layer_norm",
        mlp_norm: "final_layer_norm",
        o: "self_attn.out_proj",
        up: "fc1",
        down: "fc2",
        final_norm: "final_layer_norm",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("", 1e-5),
    activation: (&["activation_function"], "relu"),
    mlp: MlpKind::Plain,
    rope: None,
    is_tied: true,
    ..LLAMA
};

pub(super) fn opt(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("do_layer_norm_before", true)?;
    c.only("layer_norm_elementwise_affine", true)?;
    let mut d = base::decoder(c, &OPT)?;
    if c.optional_size("word_embed_proj_dim")?.is_some_and(|size| size != d.hidden) {
        return Err(c.unknown(
            "word_embed_proj_dim", "which is not supported beside another `hidden_size`",
        ));
    }
    let rows = c.optional_size("max_position_embeddings")?.unwrap_or(2048) + FIRST;
    d.embedding.positions = Some((rows, FIRST));
    d.head_of_words.without_norm = c.flag("_remove_final_layer_norm", false)?;
    Ok(d)
}
