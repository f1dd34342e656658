//! GPT-2 and OPT: embeddings, decoders, and a norm.

use super::bert::{SETTINGS, embeddings, of_tokens, positions, tokens, words};
use super::{GELU, Graph, Settings};
use crate::keras::layer::{Argument, KerasNetwork, LayerCall};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::json;

/// What all norms add to the variance.
const EPSILON: f64 = 1e-5;

pub(super) fn gpt2(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&SETTINGS)?;
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let words = words(&mut graph, [s.size("vocabulary_size")?, s.size("hidden_dim")?], &ids)?;
    let positions = positions(&mut graph, s, "position_embedding", &words)?;
    let x = graph.sum("embeddings_add", vec![words, positions])?;
    let rate = json!({ "rate": s.number("dropout", 0.1)? });
    let x = graph.add("Dropout", "embeddings_dropout", rate, x)?;
    decoded(graph, s, GELU, &ids, x)
}

pub(super) fn opt(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&SETTINGS)?;
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let x = graph.add("TokenAndPositionEmbedding", "embeddings", embeddings(s)?, ids.clone())?;
    decoded(graph, s, "relu", &ids, x)
}

/// Decoders, and a norm.
fn decoded(
    mut graph: Graph,
    s: &Settings<'_>,
    activation: &str,
    ids: &Argument,
    mut x: Argument,
) -> Result<KerasNetwork, Diagnostic> {
    let mask = tokens(&mut graph, "padding_mask");
    let config = json!({
        "num_heads": s.size("num_heads")?, "intermediate_dim": s.size("intermediate_dim")?, "activation": activation,
        "dropout": s.number("dropout", 0.1)?, "layer_norm_epsilon": EPSILON, "normalize_first": true,
    });
    for i in 0..s.count("num_layers")? {
        let call = LayerCall::of(x).with("decoder_padding_mask", &mask);
        let name = format!("transformer_layer_{i}");
        x = graph.call("TransformerDecoder", &name, config.clone(), call)?;
    }
    let norm = json!({ "axis": -1, "epsilon": EPSILON });
    let x = graph.add("LayerNormalization", "layer_norm", norm, x)?;
    Ok(of_tokens(graph, ids, &mask, x))
}
