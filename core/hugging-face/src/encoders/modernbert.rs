//! ModernBERT: norms before branches, rotations, windows, gates.

use super::base::{self, BERT, Base, NAMES, ROWS_MAX};
use crate::config::Config;
use crate::config::rope::{Defaults, two_ropes};
use crate::diag::Diagnostic;
use crate::encoder::{Encoder, Fused, Head, Names, Order, Positions, Tasks};

const MODERNBERT: Base = Base {
    names: Names {
        prefixes: &["model."],
        words: "embeddings.tok_embeddings",
        embedding_norm: "embeddings.norm",
        qkv: "attn.Wqkv",
        o: "attn.Wo",
        attention_norm: "attn_norm",
        up: "mlp.Wi",
        down: "mlp.Wo",
        mlp_norm: "mlp_norm",
        final_norm: "final_norm",
        ..NAMES
    },
    layers: ("num_hidden_layers", 22),
    inner: ("intermediate_size", 1152),
    vocabulary: 50368,
    types: None,
    epsilon: ("norm_eps", 1e-5),
    activation: ("hidden_activation", "gelu"),
    ..BERT
};

pub(super) fn modernbert(c: &Config) -> Result<Encoder, Diagnostic> {
    let mut e = base::encoder(c, &MODERNBERT)?;
    // Biases are used if the weights have them.
    c.pass_over(&["attention_bias", "mlp_bias", "norm_bias", "classifier_bias", "decoder_bias"]);
    // Transformers reads `norm_eps`, and positions turn heads.
    c.pass_over(&["layer_norm_eps", "position_embedding_type"]);
    e.order = Order::Before;
    e.embedding.positions = Positions::None;
    e.attention.fused = Fused::InTurn;
    e.mlp.is_gated = true;
    let theta = c.above_zero("global_rope_theta", 160_000.0)?;
    if c.get("rope_scaling").is_some() {
        return Err(c.unknown("rope_scaling", "which versions of Transformers read in two ways"));
    }
    // Null there means the other one.
    let local = if c.has("local_rope_theta") { theta } else { 10_000.0 };
    let defaults = Defaults { theta, share: 1.0, interleaved: false };
    e.attention.ropes = two_ropes(c, e.head, defaults, ("local_rope_theta", local))?.into();
    let near = windows(c, e.layers.len())?;
    let reach = base::size(c, ("local_attention", 128))? / 2;
    for (number, (layer, is_near)) in e.layers.iter_mut().zip(near).enumerate() {
        layer.prefix = format!("layers.{number}.");
        layer.reach = Some(reach.min(ROWS_MAX)).filter(|_| is_near);
        layer.rope = Some(usize::from(is_near));
        layer.has_attention_norm = number > 0;
    }
    let activation = base::activation(c, ("classifier_activation", "gelu"))?;
    let head = |out| Head { dense: Some(("head.dense", activation)), norm: Some("head.norm"), out };
    let is_mean = match c.word("classifier_pooling")?.unwrap_or("cls") {
        "cls" => false,
        "mean" => true,
        _ => return Err(c.unknown("classifier_pooling", "which is no pooling that is known")),
    };
    let [sequence, tokens, spans] = [head("classifier"); 3];
    let words = (head("decoder"), "decoder.bias");
    e.tasks = Tasks { pooler: None, words, sequence, tokens, spans, is_mean, ..e.tasks };
    Ok(e)
}

/// Which layers see only what is near.
fn windows(c: &Config, layers: usize) -> Result<Vec<bool>, Diagnostic> {
    let step = base::size(c, ("global_attn_every_n_layers", 3))?;
    let Some(kinds) = c.words("layer_types")? else {
        return Ok((0..layers).map(|number| number % step != 0).collect());
    };
    if kinds.len() != layers {
        return Err(
            c.wrong("layer_types", &format!("a list of {layers} words, one for each layer"))
        );
    }
    let kind = |kind: &&str| match *kind {
        "sliding_attention" => Some(true),
        "full_attention" => Some(false),
        _ => None,
    };
    let kinds: Option<Vec<bool>> = kinds.iter().map(kind).collect();
    kinds.ok_or_else(|| c.unknown("layer_types", "and not all of these kinds are known"))
}
