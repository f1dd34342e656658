//! BLOOM: no positions but how far keys are, fused heads, a norm of the embedding.

use super::base::{self, Base, Keys, LLAMA, NAMES};
use crate::config::Config;
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind};
use crate::diag::Diagnostic;

pub(super) fn bloom(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("apply_residual_connection_post_layernorm", false)?;
    let either = |new, old| if c.has(new) { new } else { old };
    let mut d = base::decoder(
        c,
        &Base {
            keys: Keys {
                hidden: either("hidden_size", "n_embed"),
                heads: either("num_attention_heads", "n_head"),
                kv_heads: "",
                layers: either("num_hidden_layers", "n_layer"),
                ..LLAMA.keys
            },
            names: Names {
                prefixes: &["transformer."],
                embedding: "word_embeddings",
                embedding_norm: "word_embeddings_layernorm",
                layers: "h",
                qkv: "self_attention.query_key_value",
                o: "self_attention.dense",
                up: "mlp.dense_h_to_4h",
                down: "mlp.dense_4h_to_h",
                final_norm: "ln_f",
                ..NAMES
            },
            norm: NormKind::Layer,
            epsilon: ("layer_norm_epsilon", 1e-5),
            activation: (&[], "gelu_pytorch_tanh"),
            mlp: MlpKind::Plain,
            rope: None,
            is_tied: true,
            is_inner_fourfold: true,
            ..LLAMA
        },
    )?;
    c.pass_over(&[
        "n_embed", "n_head", "n_layer", "num_attention_heads", "masked_softmax_fusion",
        "bias_dropout_fusion", "skip_bias_add", "skip_bias_add_qkv", "offset_alibi",
        "unk_token_id", "seq_length", "n_inner",
    ]);
    d.attention.fused = Fused::Grouped;
    d.attention.alibi = 1.0;
    d.embedding.has_norm = true;
    Ok(d)
}
