//! BERT and its kin: embeddings, a norm, and encoders.

use super::{ArgumentResult, GELU, Graph, Settings, named};
use crate::keras::layer::{Argument, KerasNetwork, LayerCall};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

/// What all of them are made with.
pub(super) const SETTINGS: [&str; 7] = [
    "vocabulary_size", "num_layers", "num_heads", "hidden_dim", "intermediate_dim", "dropout",
    "max_sequence_length",
];

/// An input with one number for each token.
pub(super) fn tokens(graph: &mut Graph, name: &str) -> Argument {
    graph.input(name, "int32", &[Json::Null])
}

/// What stands for tokens, of which there are so many.
pub(super) fn words(graph: &mut Graph, [rows, size]: [i64; 2], ids: &Argument) -> ArgumentResult {
    let table = json!({ "input_dim": rows, "output_dim": size });
    graph.add("ReversibleEmbedding", "token_embedding", table, ids.clone())
}

/// What stands for the places of tokens.
pub(super) fn positions(
    graph: &mut Graph,
    s: &Settings<'_>,
    name: &str,
    words: &Argument,
) -> ArgumentResult {
    let length = json!({ "sequence_length": s.size("max_sequence_length")? });
    graph.add("PositionEmbedding", name, length, words.clone())
}

/// A model of tokens, some of which do not count.
pub(super) fn of_tokens(
    graph: Graph,
    ids: &Argument,
    mask: &Argument,
    y: Argument,
) -> KerasNetwork {
    graph.network(named(&[("token_ids", ids), ("padding_mask", mask)]), y)
}

/// A norm of what stands for tokens.
fn normed(graph: &mut Graph, s: &Settings<'_>, epsilon: f64, x: Argument) -> ArgumentResult {
    let norm = json!({ "axis": -1, "epsilon": epsilon });
    let x = graph.add("LayerNormalization", "embeddings_layer_norm", norm, x)?;
    let rate = json!({ "rate": s.number("dropout", 0.1)? });
    graph.add("Dropout", "embeddings_dropout", rate, x)
}

/// The settings of encoders.
fn encoder(s: &Settings<'_>, activation: &str, epsilon: f64) -> Result<Json, Diagnostic> {
    Ok(json!({
        "num_heads": s.size("num_heads")?, "intermediate_dim": s.size("intermediate_dim")?,
        "activation": activation, "dropout": s.number("dropout", 0.1)?, "layer_norm_epsilon": epsilon,
    }))
}

/// Encoders one after the other.
fn encoded(
    graph: &mut Graph,
    s: &Settings<'_>,
    config: &Json,
    mut x: Argument,
    mask: &Argument,
) -> ArgumentResult {
    for i in 0..s.count("num_layers")? {
        let name = format!("transformer_layer_{i}");
        let call = LayerCall::of(x).with("padding_mask", mask);
        x = graph.call("TransformerEncoder", &name, config.clone(), call)?;
    }
    Ok(x)
}

/// What tells models with segments apart.
struct Segmented<'n> {
    /// The settings of how many tokens there are, and how large what stands for them is.
    keys: [&'n str; 2],
    /// A layer that makes `hidden_dim` of that.
    projection: Option<&'n str>,
    encoded: fn(&mut Graph, &Settings<'_>, &Json, Argument, &Argument) -> ArgumentResult,
}

fn with_segments(s: &Settings<'_>, kind: &Segmented<'_>) -> Result<KerasNetwork, Diagnostic> {
    let hidden = json!({ "units": s.size("hidden_dim")? });
    let [vocabulary, size] = kind.keys;
    let (vocabulary, size) = (s.size(vocabulary)?, s.size(size)?);
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let words = words(&mut graph, [vocabulary, size], &ids)?;
    let segments = tokens(&mut graph, "segment_ids");
    let positions = positions(&mut graph, s, "position_embedding", &words)?;
    let kinds = json!({ "input_dim": s.size("num_segments")?, "output_dim": size });
    let kinds = graph.add("Embedding", "segment_embedding", kinds, segments.clone())?;
    let sum = graph.sum("embeddings_add", vec![words, positions, kinds])?;
    let mut x = normed(&mut graph, s, 1e-12, sum)?;
    if let Some(name) = kind.projection {
        x = graph.add("Dense", name, hidden.clone(), x)?;
    }
    let mask = tokens(&mut graph, "padding_mask");
    let x = (kind.encoded)(&mut graph, s, &encoder(s, GELU, 1e-12)?, x, &mask)?;
    let first = first(&mut graph, &x)?;
    let mut pooled = hidden;
    pooled["activation"] = json!("tanh");
    let pooled = graph.add("Dense", "pooled_dense", pooled, first)?;
    let inputs = named(&[("token_ids", &ids), ("segment_ids", &segments), ("padding_mask", &mask)]);
    let outputs = named(&[("sequence_output", &x), ("pooled_output", &pooled)]);
    Ok(graph.network(inputs, outputs))
}

/// The first token, which stands for all.
fn first(graph: &mut Graph, x: &Argument) -> ArgumentResult {
    let whole = || {
        let word = Argument::Plain(Json::from(crate::keras::layer::SLICE));
        Argument::List(vec![word, Argument::Nothing, Argument::Nothing, Argument::Nothing])
    };
    let key = Argument::List(vec![whole(), Argument::Plain(json!(0)), whole()]);
    let call = LayerCall { positional: vec![x.clone(), key], named: vec![] };
    graph.call("ops.GetItem", "get_item", json!({}), call)
}

pub(super) fn bert(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    s.only(&[&SETTINGS[..], &["num_segments"]].concat())?;
    let keys = ["vocabulary_size", "hidden_dim"];
    with_segments(s, &Segmented { keys, projection: None, encoded })
}

pub(super) fn electra(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    let known = ["vocab_size", "embedding_dim", "num_segments"];
    s.only(&[&SETTINGS[1..], &known].concat())?;
    let is_other = s.size("hidden_dim")? != s.size("embedding_dim")?;
    let projection = is_other.then_some("embeddings_projection");
    with_segments(s, &Segmented { keys: ["vocab_size", "embedding_dim"], projection, encoded })
}

pub(super) fn albert(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const MORE: [&str; 4] =
        ["embedding_dim", "num_segments", "num_groups", "num_inner_repetitions"];
    s.only(&[&SETTINGS[..], &MORE].concat())?;
    let keys = ["vocabulary_size", "embedding_dim"];
    let projection = Some("embedding_projection");
    with_segments(s, &Segmented { keys, projection, encoded: in_groups })
}

/// Groups of encoders one after the other, each called several times.
fn in_groups(
    graph: &mut Graph,
    s: &Settings<'_>,
    config: &Json,
    mut x: Argument,
    mask: &Argument,
) -> ArgumentResult {
    let [layers, groups, inner] =
        [s.count("num_layers")?, s.count("num_groups")?, s.count("num_inner_repetitions")?];
    refuse!(layers % groups != 0 || layers.saturating_mul(inner) > super::LAYERS_MAX =>
        s.wrong("num_groups", &format!("it must divide `num_layers`, for {} calls at most", super::LAYERS_MAX)));
    for group in 0..groups {
        for time in 0..layers / groups {
            for i in 0..inner {
                let name = format!("group_{group}_inner_layer_{i}");
                let call = LayerCall::of(x).with("padding_mask", mask);
                x = match time {
                    0 => graph.call("TransformerEncoder", &name, config.clone(), call)?,
                    _ => graph.again(&name, call)?,
                };
            }
        }
    }
    Ok(x)
}

pub(super) fn distil_bert(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    without_segments(s, "token_and_position_embedding", 1e-12)
}

/// RoBERTa and XLM-RoBERTa.
pub(super) fn roberta(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    without_segments(s, "embeddings", 1e-5)
}

/// The settings of a layer for tokens and their places.
pub(super) fn embeddings(s: &Settings<'_>) -> Result<Json, Diagnostic> {
    Ok(json!({
        "vocabulary_size": s.size("vocabulary_size")?, "sequence_length": s.size("max_sequence_length")?,
        "embedding_dim": s.size("hidden_dim")?,
    }))
}

fn without_segments(
    s: &Settings<'_>,
    name: &str,
    epsilon: f64,
) -> Result<KerasNetwork, Diagnostic> {
    s.only(&SETTINGS)?;
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let x = graph.add("TokenAndPositionEmbedding", name, embeddings(s)?, ids.clone())?;
    let x = normed(&mut graph, s, epsilon, x)?;
    let mask = tokens(&mut graph, "padding_mask");
    let x = encoded(&mut graph, s, &encoder(s, "gelu", epsilon)?, x, &mask)?;
    Ok(of_tokens(graph, &ids, &mask, x))
}
