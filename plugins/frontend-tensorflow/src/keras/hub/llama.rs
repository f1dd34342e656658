//! Llama and its kin: an embedding, decoders whose heads turn what they look at by its place, and a norm.

use super::bert::{of_tokens, tokens};
use super::{Graph, Settings, made};
use crate::keras::layer::{KerasNetwork, LayerCall, NamedLayers};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

/// What all of them are made with.
const SETTINGS: [&str; 9] = [
    "vocabulary_size", "num_layers", "num_query_heads", "num_key_value_heads", "hidden_dim",
    "intermediate_dim", "rope_max_wavelength", "layer_norm_epsilon", "dropout",
];

/// Windows that are this wide are none: no model has more steps. What smaller ones do depends on the backend of Keras.
const WINDOW: i64 = 32768;

/// What tells the models apart.
struct DecoderStyle<'n> {
    decoder: &'n str,
    norm: &'n str,
    /// Whether the table of tokens also gives results, unless it is said.
    is_tied: bool,
    /// What decoders are made with beside that of all: the size of heads, windows, how places are counted.
    more: Json,
}

fn model(s: &Settings<'_>, kind: &DecoderStyle<'_>) -> Result<KerasNetwork, Diagnostic> {
    let mut graph = Graph::new(s);
    let ids = tokens(&mut graph, "token_ids");
    let table = json!({
        "input_dim": s.size("vocabulary_size")?, "output_dim": s.size("hidden_dim")?,
        "tie_weights": s.flag("tie_word_embeddings", kind.is_tied)?,
    });
    let mut x = graph.add("ReversibleEmbedding", "token_embedding", table, ids.clone())?;
    let mask = tokens(&mut graph, "padding_mask");
    let epsilon = s.number("layer_norm_epsilon", 1e-6)?;
    let mut config = kind.more.clone();
    for key in ["num_query_heads", "num_key_value_heads", "hidden_dim", "intermediate_dim"] {
        config[key] = json!(s.size(key)?);
    }
    config["layer_norm_epsilon"] = json!(epsilon);
    config["rope_max_wavelength"] = json!(s.number("rope_max_wavelength", 10000.0)?);
    for i in 0..s.count("num_layers")? {
        let call = LayerCall::of(x).with("decoder_padding_mask", &mask);
        x = graph.call(kind.decoder, &format!("transformer_layer_{i}"), config.clone(), call)?;
    }
    let norm = json!({ "axis": -1, "epsilon": epsilon });
    let x = graph.add(kind.norm, "sequence_output_layernorm", norm, x)?;
    Ok(of_tokens(graph, &ids, &mask, x))
}

/// The size of heads, if it is said.
fn head(s: &Settings<'_>) -> Result<Json, Diagnostic> {
    match s.config.get("head_dim") {
        None | Some(Json::Null) => Ok(Json::Null),
        Some(_) => s.size("head_dim").map(Json::from),
    }
}

/// Llama, and Llama 3, which stretches slow turns.
pub(super) fn llama(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const STRETCHED: [&str; 4] = [
        "rope_frequency_adjustment_factor", "rope_low_freq_factor", "rope_high_freq_factor",
        "rope_pretraining_sequence_length",
    ];
    const MORE: [&str; 2] = ["tie_word_embeddings", "rope_position_scaling_factor"];
    s.only(&[&SETTINGS[..], &STRETCHED, &MORE].concat())?;
    // Some versions of keras_hub divide positions by it, and others read it nowhere.
    const SCALE: &str = "rope_position_scaling_factor";
    refuse!(s.number(SCALE, 1.0)? != 1.0 =>
        s.wrong(SCALE, "versions of keras_hub differ in what they do with other factors than 1"));
    let mut more = json!({});
    for key in STRETCHED {
        more[key] = json!(s.optional(key)?);
    }
    let count = STRETCHED.iter().filter(|key| more[**key].is_null()).count();
    refuse!(!matches!(count, 0 | 4) => s.wrong(STRETCHED[0], "either all of such factors are given or none"));
    let (decoder, norm) = ("LlamaTransformerDecoder", "LlamaLayerNorm");
    model(s, &DecoderStyle { decoder, norm, is_tied: false, more })
}

pub(super) fn mistral(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const MORE: [&str; 3] = ["rope_scaling_factor", "sliding_window", "head_dim"];
    s.only(&[&SETTINGS[..], &MORE].concat())?;
    let window = match s.config.get("sliding_window") {
        Some(Json::Null) => Json::Null,
        _ => json!(s.size("sliding_window")?),
    };
    let more = json!({
        "rope_scaling_factor": s.number("rope_scaling_factor", 1.0)?, "sliding_window": window, "head_dim": head(s)?,
    });
    let (decoder, norm) = ("MistralTransformerDecoder", "MistralLayerNormalization");
    model(s, &DecoderStyle { decoder, norm, is_tied: false, more })
}

/// Qwen 2, whose heads have biases.
pub(super) fn qwen(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const MORE: [&str; 4] = [
        "rope_scaling_factor", "tie_word_embeddings", "use_sliding_window_attention",
        "sliding_window_size",
    ];
    s.only(&[&SETTINGS[..], &MORE].concat())?;
    if s.flag("use_sliding_window_attention", false)? {
        windows(s)?;
    }
    let more =
        json!({ "rope_scaling_factor": s.number("rope_scaling_factor", 1.0)?, "use_bias": true });
    let (decoder, norm) = ("QwenTransformerDecoder", "QwenLayerNorm");
    model(s, &DecoderStyle { decoder, norm, is_tied: true, more })
}

/// Qwen 3, whose heads have norms.
pub(super) fn qwen3(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const MORE: [&str; 4] =
        ["rope_scaling_factor", "tie_word_embeddings", "head_dim", "sliding_window_size"];
    s.only(&[&SETTINGS[..], &MORE].concat())?;
    windows(s)?;
    let more = json!({
        "rope_scaling_factor": s.number("rope_scaling_factor", 1.0)?, "head_dim": head(s)?, "has_norms": true,
    });
    let (decoder, norm) = ("Qwen3TransformerDecoder", "Qwen3LayerNorm");
    model(s, &DecoderStyle { decoder, norm, is_tied: true, more })
}

/// Phi 3, whose turns are slower or faster by factors of their own ("su"), other ones for long sequences.
pub(super) fn phi3(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const FACTORS: [&str; 2] = ["rope_scaling_short_factor", "rope_scaling_long_factor"];
    const MORE: [&str; 3] =
        ["max_sequence_length", "pretraining_sequence_length", "rope_scaling_type"];
    s.only(&[&SETTINGS[..], &FACTORS, &MORE].concat())?;
    let mut more = json!({});
    match s.config.get("rope_scaling_type") {
        None | Some(Json::Null) => {}
        Some(word) if word == "su" => {
            let half = s.size("hidden_dim")? / s.size("num_query_heads")? / 2;
            for key in FACTORS {
                more[key] = json!(factors(s, key, half)?);
            }
            let [most, usual] =
                [s.size("max_sequence_length")?, s.size("pretraining_sequence_length")?];
            refuse!(usual < 2 => s.wrong("pretraining_sequence_length", "it must be 2 or more"));
            let ratio = most as f64 / usual as f64;
            let gain =
                if ratio > 1.0 { (1.0 + ratio.ln() / (usual as f64).ln()).sqrt() } else { 1.0 };
            more["rope_usual_length"] = json!(usual);
            more["rope_gain"] = json!(gain);
        }
        Some(_) => return Err(s.wrong("rope_scaling_type", "it is no type that is known")),
    }
    let (decoder, norm) = ("Phi3Decoder", "Phi3LayerNorm");
    model(s, &DecoderStyle { decoder, norm, is_tied: false, more })
}

/// Factors for pairs of elements.
fn factors(s: &Settings<'_>, key: &str, count: i64) -> Result<Vec<f64>, Diagnostic> {
    let list = s.config.get(key).and_then(Json::as_array);
    let found: Option<Vec<f64>> =
        list.and_then(|list| list.iter().map(|x| x.as_f64().filter(|x| *x > 0.0)).collect());
    found
        .filter(|found| found.len() as i64 == count)
        .ok_or_else(|| s.wrong(key, &format!("it must be {count} numbers above zero")))
}

/// Checks that the window of attention is none.
fn windows(s: &Settings<'_>) -> Result<(), Diagnostic> {
    const KEY: &str = "sliding_window_size";
    match s.optional(KEY)? {
        Some(size) if size < WINDOW as f64 => {
            let must = format!(
                "what a window below {WINDOW} does depends on the backend of Keras, so none is converted"
            );
            Err(s.wrong(KEY, &must))
        }
        _ => Ok(()),
    }
}

/// The names of what Phi 3 holds, which are those in files.
fn of_phi(name: &str) -> (String, String) {
    (name.to_owned(), name.to_owned())
}

/// What a decoder holds.
pub(super) fn decoder(s: &Settings<'_>, norm: &str) -> Result<NamedLayers, Diagnostic> {
    let (heads, shared) = (s.size("num_query_heads")?, s.size("num_key_value_heads")?);
    let hidden = s.size("hidden_dim")?;
    refuse!(heads % shared != 0 => s.wrong("num_key_value_heads", "it must divide `num_query_heads`"));
    refuse!(hidden < heads => s.wrong("num_query_heads", "it must be `hidden_dim` at most"));
    let (has_bias, has_norms) = (s.flag("use_bias", false)?, s.flag("has_norms", false)?);
    let dtype = s.dtype();
    let norms = json!({ "axis": -1, "epsilon": s.number("layer_norm_epsilon", 1e-6)? });
    let dense = |units: i64, activation: &str| json!({ "units": units, "use_bias": false, "activation": activation });
    let product = |equation: &str, bias: &str| {
        let axes = if has_bias && !bias.is_empty() { json!(bias) } else { Json::Null };
        json!({ "equation": equation, "output_shape": [], "bias_axes": axes })
    };
    let inner = s.size("intermediate_dim")?;
    let mut parts = vec![
        ("_self_attention_layernorm", norm, "self_attention_layernorm", norms.clone()),
        ("_query_dense", "EinsumDense", "query", product("bqm,muh->bquh", "uh")),
        ("_key_dense", "EinsumDense", "key", product("bkm,mvh->bkvh", "vh")),
        ("_value_dense", "EinsumDense", "value", product("bkm,mvh->bkvh", "vh")),
        ("_output_dense", "EinsumDense", "attention_output", product("bquh,uhm->bqm", "")),
        ("_feedforward_layernorm", norm, "feedforward_layernorm", norms),
        (
            "_feedforward_intermediate_dense",
            "Dense",
            "feedforward_intermediate_dense",
            dense(inner, "linear"),
        ),
        ("_feedforward_gate_dense", "Dense", "feedforward_gate_dense", dense(inner, "silu")),
        ("_feedforward_output_dense", "Dense", "feedforward_output_dense", dense(hidden, "linear")),
    ];
    if has_norms {
        // Keras does not hand the setting of the model on to these.
        let norms = json!({ "axis": -1, "epsilon": 1e-5 });
        parts.push(("_query_dense_layer_norm", norm, "query_dense_layernorm", norms.clone()));
        parts.push(("_key_dense_layer_norm", norm, "key_dense_layernorm", norms));
    }
    let is_phi = norm == "Phi3LayerNorm";
    let part = |(key, class, name, config): (&str, &str, &str, Json)| {
        // What belongs to heads lies in the layer of attention.
        let is_outside = key.starts_with("_feedforward") || key.starts_with("_self");
        let (key, name) = match (is_phi, is_outside) {
            (false, true) => (key.to_owned(), name.to_owned()),
            (false, false) => {
                (format!("_self_attention_layer/{key}"), format!("self_attention/{name}"))
            }
            (true, true) if key == "_self_attention_layernorm" => of_phi("pre_attention_layernorm"),
            (true, true) if key == "_feedforward_layernorm" => of_phi("post_attention_layernorm"),
            (true, true) => of_phi(name),
            (true, false) => (format!("attention/{}", &key[1..]), format!("attention/{name}")),
        };
        Ok((key, made(class, &name, config, &dtype)?))
    };
    parts.into_iter().map(part).collect()
}
