//! What Keras calls the weights of a layer. `.h5` files say it; `.keras` files number them.

use crate::keras::layer::KerasLayer;
use serde_json::Value as Json;

/// The name of the weight `i` of a layer, which lies at `place` in the file: `kernel`, `lstm_cell/bias`.
pub(crate) fn role(layer: &KerasLayer, place: &str, i: usize, is_keras2: bool) -> String {
    let parts: Vec<&str> = place.split('/').collect();
    let bare = |part: &str| part.split(':').next().unwrap_or_default().to_owned();
    let last = bare(parts.last().copied().unwrap_or_default());
    let is_number = last.bytes().all(|c| c.is_ascii_digit());
    let is_path = parts.len() > 1 && parts[parts.len() - 2] == "vars";
    // A file of names has what the layer holds behind the name of the layer.
    if !is_number && !is_path {
        let own = parts[..parts.len() - 1].iter().rposition(|part| *part == layer.name);
        let held = own.map_or(&[][..], |at| &parts[at + 1..parts.len() - 1]);
        return held
            .iter()
            .map(|part| (*part).to_owned())
            .chain([last])
            .collect::<Vec<_>>()
            .join("/");
    }
    let (part, at) = part(layer, i, is_keras2);
    let name = match is_number {
        true => {
            names(layer, is_keras2).get(at).map_or(format!("weight_{i}"), |name| (*name).to_owned())
        }
        false => last,
    };
    super::join(part, &name)
}

/// The object in a layer that has its weight `i`, and which one of that object it is.
fn part(layer: &KerasLayer, i: usize, is_keras2: bool) -> (&'static str, usize) {
    match layer.class.as_str() {
        "LSTM" => ("lstm_cell", i),
        "GRU" => ("gru_cell", i),
        "SimpleRNN" => ("simple_rnn_cell", i),
        "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D" if !is_keras2 => ("conv_lstm_cell", i),
        "MultiHeadAttention" | "GroupQueryAttention" | "GroupedQueryAttention" => {
            let each = if layer.has("use_bias") { 2 } else { 1 };
            let part = match i / each {
                0 => "query",
                1 => "key",
                2 => "value",
                3 if layer.is("use_gate") => "gate",
                _ => "attention_output",
            };
            (part, i % each)
        }
        _ => ("", i),
    }
}

/// The names of the weights of an object, in the order in which Keras makes them.
fn names(layer: &KerasLayer, is_keras2: bool) -> Vec<&'static str> {
    let only = |name: &'static str, key: &str| if layer.has(key) { vec![name] } else { vec![] };
    let affine = || [only("gamma", "scale"), only("beta", "center")].concat();
    match layer.class.as_str() {
        "BatchNormalization" | "SyncBatchNormalization" => {
            [affine(), vec!["moving_mean", "moving_variance"]].concat()
        }
        "LayerNormalization" | "GroupNormalization" => affine(),
        "RMSNormalization"
        | "LlamaLayerNorm"
        | "MistralLayerNormalization"
        | "QwenLayerNorm"
        | "Qwen3LayerNorm"
        | "Phi3LayerNorm" => vec!["scale"],
        "LayerScale" => vec!["gamma"],
        "PReLU" => vec!["alpha"],
        "Normalization" => vec!["mean", "variance", "count"],
        "ReversibleEmbedding" if !layer.has("tie_weights") => {
            vec!["embeddings", "reverse_embeddings"]
        }
        "PositionEmbedding" => vec!["embeddings"],
        "ViTPatchingAndEmbedding" => vec!["class_token"],
        "Embedding" | "ReversibleEmbedding" => {
            vec!["embeddings", "embeddings_scale", "embeddings_zero", "g_idx"]
        }
        "LSTM" | "GRU" | "SimpleRNN" | "LSTMCell" | "GRUCell" | "SimpleRNNCell" | "ConvLSTM1D"
        | "ConvLSTM2D" | "ConvLSTM3D" => vec!["kernel", "recurrent_kernel", "bias"],
        "SeparableConv1D" | "SeparableConv2D" => {
            vec!["depthwise_kernel", "pointwise_kernel", "bias"]
        }
        "DepthwiseConv1D" | "DepthwiseConv2D" if is_keras2 => vec!["depthwise_kernel", "bias"],
        "AdditiveAttention" => vec!["scale"],
        "Attention" => [only("scale", "use_scale"), vec!["concat_score_weight"]].concat(),
        "STFTSpectrogram" => match layer.word("mode") {
            Some("imag") => vec!["imag_kernel"],
            _ => vec!["real_kernel", "imag_kernel"],
        },
        class => {
            let has_bias = match class {
                "EinsumDense" => layer.config.get("bias_axes").is_some_and(Json::is_string),
                _ => layer.has("use_bias"),
            };
            let bias = if has_bias { &["bias"][..] } else { &[] };
            [&["kernel"][..], bias, &["kernel_scale", "kernel_zero", "g_idx"]].concat()
        }
    }
}
