//! Gemma: an embedding that is scaled, decoders whose heads turn what they look at by its place, and a norm.

use super::bert::{of_tokens, tokens, words};
use super::{GELU, Graph, Settings, parts};
use crate::keras::layer::{Argument, KerasNetwork, LayerCall, NamedLayers};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

/// What norms in decoders add to the variance, whatever the model has.
const EPSILON: f64 = 1e-6;

/// What decoders have from the model.
const INNER: [&str; 5] =
    ["num_query_heads", "num_key_value_heads", "hidden_dim", "intermediate_dim", "head_dim"];

pub(super) fn gemma(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    // Attention reads no `query_head_dim_normalize`, and a backbone gives nothing that `final_logit_soft_cap` caps.
    const MORE: [&str; 11] = [
        "vocabulary_size", "num_layers", "query_head_dim_normalize", "use_post_ffw_norm",
        "use_post_attention_norm", "attention_logit_soft_cap", "final_logit_soft_cap",
        "use_sliding_window_attention", "sliding_window_size", "layer_norm_epsilon", "dropout",
    ];
    s.only(&[&INNER[..], &MORE].concat())?;
    let mut graph = Graph::new(s);
    let hidden = s.size("hidden_dim")?;
    let ids = tokens(&mut graph, "token_ids");
    let x = words(&mut graph, [s.size("vocabulary_size")?, hidden], &ids)?;
    let root = Argument::Plain(json!((hidden as f64).sqrt()));
    let call = LayerCall { positional: vec![x, root], named: vec![] };
    let mut x = graph.call("ops.Multiply", "multiply", json!({}), call)?;
    let mask = tokens(&mut graph, "padding_mask");
    let mut config = json!({});
    for key in INNER {
        config[key] = json!(s.size(key)?);
    }
    config["soft_cap"] = json!(s.optional("attention_logit_soft_cap")?);
    for key in ["use_post_ffw_norm", "use_post_attention_norm"] {
        config[key] = json!(s.flag(key, false)?);
    }
    let has_windows = s.flag("use_sliding_window_attention", false)?;
    for i in 0..s.count("num_layers")? {
        let mut config = config.clone();
        if has_windows && i % 2 == 0 {
            config["sliding_window"] = json!(s.size("sliding_window_size")?);
        }
        let call = LayerCall::of(x).with("padding_mask", &mask);
        x = graph.call("GemmaDecoderBlock", &format!("decoder_block_{i}"), config, call)?;
    }
    let norm = norm(s.number("layer_norm_epsilon", EPSILON)?);
    let x = graph.add("RMSNormalization", "final_normalization", norm, x)?;
    Ok(of_tokens(graph, &ids, &mask, x))
}

/// The settings of a norm, whose weights count from one.
fn norm(epsilon: f64) -> Json {
    json!({ "axis": -1, "epsilon": epsilon, "counts_from_one": true })
}

/// What a decoder holds.
pub(super) fn decoder(s: &Settings<'_>) -> Result<NamedLayers, Diagnostic> {
    let (heads, shared) = (s.size("num_query_heads")?, s.size("num_key_value_heads")?);
    refuse!(heads % shared != 0 => s.wrong("num_key_value_heads", "it must divide `num_query_heads`"));
    let product =
        |equation: &str| json!({ "equation": equation, "output_shape": [], "bias_axes": null });
    let dense = |units: i64, activation: &str| json!({ "units": units, "use_bias": false, "activation": activation });
    let (hidden, inner) = (s.size("hidden_dim")?, s.size("intermediate_dim")? / 2);
    let mut held = vec![
        ("pre_attention_norm", "RMSNormalization", "pre_attention_norm", norm(EPSILON)),
        ("attention/query_dense", "EinsumDense", "attention/query", product("btd,ndh->btnh")),
        ("attention/key_dense", "EinsumDense", "attention/key", product("bsd,kdh->bskh")),
        ("attention/value_dense", "EinsumDense", "attention/value", product("bsd,kdh->bskh")),
        (
            "attention/output_dense",
            "EinsumDense",
            "attention/attention_output",
            product("btnh,nhd->btd"),
        ),
        ("pre_ffw_norm", "RMSNormalization", "pre_ffw_norm", norm(EPSILON)),
        ("gating_ffw", "Dense", "ffw_gating", dense(inner, GELU)),
        ("gating_ffw_2", "Dense", "ffw_gating_2", dense(inner, "linear")),
        ("ffw_linear", "Dense", "ffw_linear", dense(hidden, "linear")),
    ];
    for key in ["post_attention_norm", "post_ffw_norm"] {
        if s.flag(&format!("use_{key}"), false)? {
            held.push((key, "RMSNormalization", key, norm(EPSILON)));
        }
    }
    parts(held, &s.dtype())
}
