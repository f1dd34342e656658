//! DistilBERT: without token types and pooler.

use super::base::{self, BERT, Base, NAMES, dense};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Head, Names, Tasks};
use crate::layers::Activation;

const DISTILBERT: Base = Base {
    names: Names {
        prefixes: &["distilbert."],
        q: "attention.q_lin",
        k: "attention.k_lin",
        v: "attention.v_lin",
        o: "attention.out_lin",
        attention_norm: "sa_layer_norm",
        up: "ffn.lin1",
        down: "ffn.lin2",
        mlp_norm: "output_layer_norm",
        ..NAMES
    },
    hidden: ("dim", 768),
    heads: ("n_heads", 12),
    layers: ("n_layers", 6),
    inner: ("hidden_dim", 3072),
    types: None,
    epsilon: ("", 1e-12),
    activation: ("activation", "gelu"),
    ..BERT
};

pub(super) fn distilbert(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, &DISTILBERT)?;
    for (number, layer) in e.layers.iter_mut().enumerate() {
        layer.prefix = format!("transformer.layer.{number}.");
    }
    let words = Head {
        dense: Some(("vocab_transform", e.mlp.activation)),
        norm: Some("vocab_layer_norm"),
        out: "vocab_projector",
    };
    let sequence = dense("pre_classifier", Activation::Relu, "classifier");
    let words = (words, "vocab_projector.bias");
    e.tasks = Tasks { pooler: None, words, sequence, ..e.tasks };
    Ok(e)
}
