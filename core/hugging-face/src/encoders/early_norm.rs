//! BERT and RoBERTa with norms before branches instead of behind them, and one behind the last layer.

use super::base::{BERT, Base, NAMES};
use super::{bert, roberta};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Names, Order};

const MEGATRON: Base = Base {
    names: Names {
        attention_norm: "attention.ln",
        mlp_norm: "ln",
        final_norm: "encoder.ln",
        ..NAMES
    },
    hidden: ("hidden_size", 1024),
    heads: ("num_attention_heads", 16),
    layers: ("num_hidden_layers", 24),
    inner: ("intermediate_size", 4096),
    vocabulary: 29056,
    ..BERT
};

const PRELAYERNORM: Base = Base {
    names: Names {
        prefixes: &["roberta_prelayernorm."],
        attention_norm: "attention.LayerNorm",
        mlp_norm: "intermediate.LayerNorm",
        final_norm: "LayerNorm",
        ..NAMES
    },
    vocabulary: 50265,
    ..BERT
};

const XL: Base = Base {
    names: Names {
        prefixes: &["roberta."],
        attention_norm: "attention.self_attn_layer_norm",
        mlp_norm: "LayerNorm",
        final_norm: "encoder.LayerNorm",
        ..NAMES
    },
    hidden: ("hidden_size", 2560),
    heads: ("num_attention_heads", 32),
    layers: ("num_hidden_layers", 36),
    inner: ("intermediate_size", 10240),
    vocabulary: 250_880,
    types: Some(1),
    epsilon: ("layer_norm_eps", 1e-5),
    ..BERT
};

pub(super) fn megatron(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = bert::described(c, &MEGATRON)?;
    e.order = Order::Before;
    e.embedding.has_norm = false;
    Ok(e)
}

pub(super) fn prelayernorm(c: &Config) -> Result<Encoder, Diagnostic> {
    let e = roberta::described(c, &PRELAYERNORM)?;
    Ok(Encoder { order: Order::Before, ..e })
}

pub(super) fn xlm_roberta_xl(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = roberta::described(c, &XL)?;
    e.order = Order::Before;
    e.embedding.has_norm = false;
    Ok(e)
}
