//! BART: encoders for one sequence, and decoders for another one that look at it.

use super::bert::{SETTINGS, positions, tokens, words};
use super::{ArgumentResult, Graph, Settings, named};
use crate::keras::layer::{Argument, KerasNetwork, LayerCall};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::{Value as Json, json};

/// What all norms add to the variance.
const EPSILON: f64 = 1e-5;

pub(super) fn bart(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&SETTINGS)?;
    let mut graph = Graph::new(s);
    let mut config = json!({
        "num_heads": s.size("num_heads")?, "intermediate_dim": s.size("intermediate_dim")?, "activation": "gelu",
        "dropout": s.number("dropout", 0.1)?, "layer_norm_epsilon": EPSILON,
    });
    let count = s.count("num_layers")?;
    let ids = tokens(&mut graph, "encoder_token_ids");
    let mask = tokens(&mut graph, "encoder_padding_mask");
    let (table, hidden) = (s.size("vocabulary_size")?, s.size("hidden_dim")?);
    let words = words(&mut graph, [table, hidden], &ids)?;
    let mut x = embedded(&mut graph, s, "encoder", words)?;
    for i in 0..count {
        let call = LayerCall::default().with("inputs", &x).with("padding_mask", &mask);
        let name = format!("transformer_encoder_layer_{i}");
        x = graph.call("TransformerEncoder", &name, config.clone(), call)?;
    }
    let encoded = x;
    let decoder_ids = tokens(&mut graph, "decoder_token_ids");
    let decoder_mask = tokens(&mut graph, "decoder_padding_mask");
    let words = graph.again("token_embedding", LayerCall::of(decoder_ids.clone()))?;
    let mut x = embedded(&mut graph, s, "decoder", words)?;
    config["encoder_sequence_shape"] = json!([Json::Null, Json::Null, hidden]);
    for i in 0..count {
        let call =
            LayerCall::default().with("decoder_sequence", &x).with("encoder_sequence", &encoded);
        let call = call.with("decoder_padding_mask", &decoder_mask);
        let call = call.with("encoder_padding_mask", &mask);
        let name = format!("transformer_decoder_layer_{i}");
        x = graph.call("TransformerDecoder", &name, config.clone(), call)?;
    }
    let inputs = named(&[
        ("encoder_token_ids", &ids),
        ("encoder_padding_mask", &mask),
        ("decoder_token_ids", &decoder_ids),
        ("decoder_padding_mask", &decoder_mask),
    ]);
    let outputs = named(&[("encoder_sequence_output", &encoded), ("decoder_sequence_output", &x)]);
    Ok(graph.network(inputs, outputs))
}

/// What stands for tokens at their places, behind a norm.
fn embedded(graph: &mut Graph, s: &Settings<'_>, side: &str, words: Argument) -> ArgumentResult {
    let name = |rest: &str| format!("{side}_{rest}");
    let places = positions(graph, s, &name("position_embedding"), &words)?;
    let x = graph.sum(&name("embeddings_add"), vec![words, places])?;
    let norm = json!({ "axis": -1, "epsilon": EPSILON });
    let x = graph.add("LayerNormalization", &name("embeddings_layer_norm"), norm, x)?;
    let rate = json!({ "rate": s.number("dropout", 0.1)? });
    graph.add("Dropout", &name("embeddings_dropout"), rate, x)
}
