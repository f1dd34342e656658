//! ViT: patches of a picture as steps, and encoders.

use super::{Graph, Settings, made, parts};
use crate::keras::layer::{KerasNetwork, NamedLayers};
use onnxd_plugin_sdk::diagnostics::{Diagnostic, refuse};
use serde_json::{Value as Json, json};

/// What both of its layers and the blocks inside have.
const INNER: [&str; 8] = [
    "num_heads", "hidden_dim", "mlp_dim", "dropout_rate", "attention_dropout",
    "layer_norm_epsilon", "use_mha_bias", "use_mlp_bias",
];

pub(super) fn vit(s: &Settings<'_>) -> Result<KerasNetwork, Diagnostic> {
    const MORE: [&str; 5] =
        ["image_shape", "patch_size", "num_layers", "use_class_token", "use_patch_bias"];
    s.only(&[&INNER[..], &MORE].concat())?;
    let shape = s.image_shape()?;
    let known: Vec<i64> = shape.iter().filter_map(Json::as_i64).collect();
    let [height, width, channels] = known[..] else {
        return Err(s.wrong("image_shape", "all of its sizes must be known"));
    };
    let mut graph = Graph::new(s);
    let input = graph.input("images", "float32", &shape);
    let hidden = s.size("hidden_dim")?;
    let patches = json!({
        "image_size": [height, width], "patch_size": s.pair("patch_size")?, "hidden_dim": hidden,
        "num_channels": channels, "use_class_token": s.flag("use_class_token", true)?,
        "use_patch_bias": s.flag("use_patch_bias", true)?,
    });
    let name = "vit_patching_and_embedding";
    let x = graph.add("ViTPatchingAndEmbedding", name, patches, input.clone())?;
    let mut config = inner(s)?;
    config["num_layers"] = json!(s.count("num_layers")?);
    let x = graph.add("ViTEncoder", "vit_encoder", config, x)?;
    Ok(graph.network(input, x))
}

/// The settings of blocks.
fn inner(s: &Settings<'_>) -> Result<Json, Diagnostic> {
    Ok(json!({
        "num_heads": s.size("num_heads")?, "hidden_dim": s.size("hidden_dim")?, "mlp_dim": s.size("mlp_dim")?,
        "dropout_rate": s.number("dropout_rate", 0.0)?, "attention_dropout": s.number("attention_dropout", 0.0)?,
        "layer_norm_epsilon": s.number("layer_norm_epsilon", 1e-6)?,
        "use_mha_bias": s.flag("use_mha_bias", true)?, "use_mlp_bias": s.flag("use_mlp_bias", true)?,
    }))
}

/// What the layer of patches holds, beside a weight for the class.
pub(super) fn patches(s: &Settings<'_>) -> Result<NamedLayers, Diagnostic> {
    const KNOWN: [&str; 9] = [
        "image_size", "patch_size", "hidden_dim", "num_channels", "num_patches", "num_positions",
        "use_class_token", "use_patch_bias", "data_format",
    ];
    s.only(&KNOWN)?;
    refuse!(s.config.get("data_format").is_some_and(|format| *format != json!("channels_last")) =>
        s.wrong("data_format", "only `channels_last` is converted"));
    let hidden = s.size("hidden_dim")?;
    let [height, width] = s.pair("image_size")?;
    let [rows, columns] = s.pair("patch_size")?;
    s.flag("use_class_token", true)?;
    let conv = json!({
        "filters": hidden, "kernel_size": [rows, columns], "strides": [rows, columns], "padding": "valid",
        "use_bias": s.flag("use_patch_bias", true)?,
    });
    let steps = (height / rows).saturating_mul(width / columns).saturating_add(1);
    let table = json!({ "input_dim": steps, "output_dim": hidden });
    let conv = ("patch_embedding", "Conv2D", "patch_embedding", conv);
    parts(vec![conv, ("position_embedding", "Embedding", "position_embedding", table)], &s.dtype())
}

/// What the encoder holds: blocks, and a norm.
pub(super) fn encoder(s: &Settings<'_>) -> Result<NamedLayers, Diagnostic> {
    s.only(&[&INNER[..], &["num_layers"]].concat())?;
    let (config, dtype) = (inner(s)?, s.dtype());
    let block = |i: i64| {
        let name = format!("transformer_block_{}", i + 1);
        let layer = made("ViTEncoderBlock", &name, config.clone(), &dtype)?;
        Ok((format!("encoder_layers.{i}"), layer))
    };
    let mut parts =
        (0..s.count("num_layers")?).map(block).collect::<Result<NamedLayers, Diagnostic>>()?;
    let norm = json!({ "axis": -1, "epsilon": config["layer_norm_epsilon"] });
    parts.push(("layer_norm".to_owned(), made("LayerNormalization", "ln", norm, &dtype)?));
    Ok(parts)
}

/// What a block holds.
pub(super) fn block(s: &Settings<'_>) -> Result<NamedLayers, Diagnostic> {
    s.only(&[&INNER[..], &["key_dim"]].concat())?;
    let config = inner(s)?;
    let (hidden, heads) = (s.size("hidden_dim")?, s.size("num_heads")?);
    refuse!(hidden < heads => s.wrong("num_heads", "it must be `hidden_dim` at most"));
    let norm = json!({ "axis": -1, "epsilon": config["layer_norm_epsilon"] });
    let attention = json!({
        "num_heads": heads, "key_dim": hidden / heads, "use_bias": config["use_mha_bias"],
        "dropout": config["attention_dropout"],
    });
    let first = json!({
        "units": config["mlp_dim"], "use_bias": config["use_mlp_bias"], "activation": "gelu",
    });
    let second = json!({ "units": hidden, "use_bias": config["use_mlp_bias"] });
    let held = vec![
        ("layer_norm_1", "LayerNormalization", "ln_1", norm.clone()),
        ("mha", "MultiHeadAttention", "mha", attention),
        ("layer_norm_2", "LayerNormalization", "ln_2", norm),
        ("mlp/dense_1", "Dense", "mlp/dense_1", first),
        ("mlp/dense_2", "Dense", "mlp/dense_2", second),
    ];
    parts(held, &s.dtype())
}
