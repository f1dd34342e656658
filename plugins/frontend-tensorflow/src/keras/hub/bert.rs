//! BERT and its kin: embeddings, a norm, and encoders.

use super::{GELU, Graph, Settings, named};
use crate::keras::config::{Argument, Call, Network};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::{Value as Json, json};

/// What all of them are made with.
pub(super) const SETTINGS: [&str; 7] = [
    "vocabulary_size",
    "num_layers",
    "num_heads",
    "hidden_dim",
    "intermediate_dim",
    "dropout",
    "max_sequence_length",
];

/// An input with one number for each token.
pub(super) fn tokens(graph: &mut Graph, name: &str) -> Argument {
    graph.input(name, "int32", &[Json::Null])
}

/// A norm, and encoders behind it.
fn encoded(
    graph: &mut Graph,
    s: &Settings<'_>,
    (activation, epsilon): (&str, f64),
    embedded: Argument,
) -> Result<(Argument, Argument), Diagnostic> {
    let dropout = s.number("dropout", 0.1)?;
    let norm = json!({ "axis": -1, "epsilon": epsilon });
    let x = graph.add("LayerNormalization", "embeddings_layer_norm", norm, embedded)?;
    let mut x = graph.add("Dropout", "embeddings_dropout", json!({ "rate": dropout }), x)?;
    let mask = tokens(graph, "padding_mask");
    let config = json!({
        "num_heads": s.size("num_heads")?, "intermediate_dim": s.size("intermediate_dim")?,
        "activation": activation, "dropout": dropout, "layer_norm_epsilon": epsilon,
    });
    for i in 0..s.count("num_layers")? {
        let named = vec![("padding_mask".to_owned(), mask.clone())];
        let call = Call { positional: vec![x], named };
        let name = format!("transformer_layer_{i}");
        x = graph.call("TransformerEncoder", &name, config.clone(), call)?;
    }
    Ok((x, mask))
}

pub(super) fn bert(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    s.only(&[&SETTINGS[..], &["num_segments"]].concat())?;
    let hidden = s.size("hidden_dim")?;
    let mut graph = Graph::new(s);
    let table = |rows: i64| json!({ "input_dim": rows, "output_dim": hidden });
    let ids = tokens(&mut graph, "token_ids");
    let words = table(s.size("vocabulary_size")?);
    let words = graph.add("ReversibleEmbedding", "token_embedding", words, ids.clone())?;
    let segments = tokens(&mut graph, "segment_ids");
    let length = json!({ "sequence_length": s.size("max_sequence_length")? });
    let positions = graph.add("PositionEmbedding", "position_embedding", length, words.clone())?;
    let kinds = table(s.size("num_segments")?);
    let kinds = graph.add("Embedding", "segment_embedding", kinds, segments.clone())?;
    let terms = Argument::List(vec![words, positions, kinds]);
    let sum = graph.add("Add", "embeddings_add", json!({}), terms)?;
    let (x, mask) = encoded(&mut graph, s, (GELU, 1e-12), sum)?;
    // The first token stands for all.
    let whole = || {
        let word = Argument::Plain(Json::from(crate::keras::config::SLICE));
        Argument::List(vec![word, Argument::Nothing, Argument::Nothing, Argument::Nothing])
    };
    let key = Argument::List(vec![whole(), Argument::Plain(json!(0)), whole()]);
    let call = Call { positional: vec![x.clone(), key], named: vec![] };
    let first = graph.call("ops.GetItem", "get_item", json!({}), call)?;
    let pooled = json!({ "units": hidden, "activation": "tanh" });
    let pooled = graph.add("Dense", "pooled_dense", pooled, first)?;
    let inputs = named(&[("token_ids", &ids), ("segment_ids", &segments), ("padding_mask", &mask)]);
    let outputs = named(&[("sequence_output", &x), ("pooled_output", &pooled)]);
    Ok(graph.network(inputs, outputs))
}

pub(super) fn distil_bert(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    without_segments(s, "token_and_position_embedding", 1e-12)
}

/// RoBERTa and XLM-RoBERTa.
pub(super) fn roberta(s: &Settings<'_>) -> Result<Network, Diagnostic> {
    without_segments(s, "embeddings", 1e-5)
}

fn without_segments(s: &Settings<'_>, name: &str, epsilon: f64) -> Result<Network, Diagnostic> {
    s.only(&SETTINGS)?;
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let config = json!({
        "vocabulary_size": s.size("vocabulary_size")?, "sequence_length": s.size("max_sequence_length")?,
        "embedding_dim": s.size("hidden_dim")?,
    });
    let x = graph.add("TokenAndPositionEmbedding", name, config, ids.clone())?;
    let (x, mask) = encoded(&mut graph, s, ("gelu", epsilon), x)?;
    Ok(graph.network(named(&[("token_ids", &ids), ("padding_mask", &mask)]), x))
}
