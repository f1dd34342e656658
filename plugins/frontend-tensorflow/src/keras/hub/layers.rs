//! What layers of the package hold. Files have their settings, and weights under the names of what they hold.

use super::{Settings, gemma, llama, parts, vit};
use crate::keras::layer::{KerasLayer, NamedLayers};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use serde_json::json;

/// The activation that the package registers: GELU by its approximation.
pub(crate) const GELU: &str = "keras_hub>gelu_approximate";

/// Layers that files may have outside of backbones.
pub(super) const LAYERS: [&str; 7] = [
    "PositionEmbedding", "TokenAndPositionEmbedding", "TransformerEncoder", "TransformerDecoder",
    "ViTPatchingAndEmbedding", "ViTEncoder", "ViTEncoderBlock",
];

/// Whether a class is a layer of the package that is known.
pub(crate) fn is_layer(class: &str) -> bool {
    LAYERS.contains(&class)
}

/// A layer with the layers that it makes for itself, if it does.
///
/// # Errors
/// `N0204` for settings that are not known.
pub(crate) fn with_parts(mut layer: KerasLayer) -> Result<KerasLayer, Diagnostic> {
    let settings = Settings { class: &layer.class, name: &layer.name, config: &layer.config };
    let parts = match layer.class.as_str() {
        "TransformerEncoder" => transformer(&settings, "self_attention_layer", &[])?,
        "TransformerDecoder" => {
            let shapes = ["decoder_sequence_shape", "encoder_sequence_shape"];
            transformer(&settings, "self_attention", &shapes)?
        }
        "TokenAndPositionEmbedding" => embeddings(&settings)?,
        "GemmaDecoderBlock" => gemma::decoder(&settings)?,
        "LlamaTransformerDecoder" => llama::decoder(&settings, "LlamaLayerNorm")?,
        "MistralTransformerDecoder" => llama::decoder(&settings, "MistralLayerNormalization")?,
        "Phi3Decoder" => llama::decoder(&settings, "Phi3LayerNorm")?,
        "QwenTransformerDecoder" => llama::decoder(&settings, "QwenLayerNorm")?,
        "Qwen3TransformerDecoder" => llama::decoder(&settings, "Qwen3LayerNorm")?,
        "ViTPatchingAndEmbedding" => vit::patches(&settings)?,
        "ViTEncoder" => vit::encoder(&settings)?,
        "ViTEncoderBlock" => vit::block(&settings)?,
        _ => return Ok(layer),
    };
    layer.parts = parts;
    Ok(layer)
}

/// Parts of an encoder or decoder. What follows from the size of its input is added when it is called.
fn transformer(
    settings: &Settings<'_>,
    attention: &str,
    more: &[&str],
) -> Result<NamedLayers, Diagnostic> {
    const KNOWN: [&str; 6] = [
        "intermediate_dim", "num_heads", "dropout", "activation", "layer_norm_epsilon",
        "normalize_first",
    ];
    settings.only(&[&KNOWN, more].concat())?;
    settings.flag("normalize_first", false)?;
    let norm = json!({ "axis": -1, "epsilon": settings.number("layer_norm_epsilon", 1e-5)? });
    let attends = json!({ "num_heads": settings.size("num_heads")?, "dropout": settings.number("dropout", 0.0)? });
    let activation = settings.config.get("activation").cloned().unwrap_or_else(|| json!("relu"));
    let inner = json!({ "units": settings.size("intermediate_dim")?, "activation": activation });
    let mut held = vec![
        ("_self_attention_layer", "MultiHeadAttention", attention, attends.clone()),
        ("_self_attention_layer_norm", "LayerNormalization", "", norm.clone()),
        ("_feedforward_layer_norm", "LayerNormalization", "", norm.clone()),
        ("_feedforward_intermediate_dense", "Dense", "", inner),
        ("_feedforward_output_dense", "Dense", "", json!({})),
    ];
    if settings.config.get("encoder_sequence_shape").is_some_and(|shape| !shape.is_null()) {
        held.push(("_cross_attention_layer", "MultiHeadAttention", "cross_attention", attends));
        held.push(("_cross_attention_layer_norm", "LayerNormalization", "", norm));
    }
    // Most have the name of what holds them.
    for (key, _, name, _) in held.iter_mut().filter(|(_, _, name, _)| name.is_empty()) {
        *name = &key[1..];
    }
    parts(held, &settings.dtype())
}

fn embeddings(settings: &Settings<'_>) -> Result<NamedLayers, Diagnostic> {
    const KNOWN: [&str; 5] =
        ["vocabulary_size", "sequence_length", "embedding_dim", "tie_weights", "mask_zero"];
    settings.only(&KNOWN)?;
    let words = json!({
        "input_dim": settings.size("vocabulary_size")?, "output_dim": settings.size("embedding_dim")?,
        "tie_weights": settings.flag("tie_weights", true)?, "mask_zero": settings.flag("mask_zero", false)?,
    });
    let length = json!({ "sequence_length": settings.size("sequence_length")? });
    let words = ("token_embedding", "ReversibleEmbedding", "token_embedding", words);
    let places = ("position_embedding", "PositionEmbedding", "position_embedding", length);
    parts(vec![words, places], &settings.dtype())
}
