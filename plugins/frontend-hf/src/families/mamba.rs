//! Mamba: no attention, but a state in each layer.

use super::base::NAMES;
use crate::config::Config;
use crate::decoder::{
    Attention, Decoder, DecoderLayer, Embedding, Fused, HeadNorm, Logits, Mixer, Mlp, MlpKind,
    Names, Norm, NormKind, Order, StateKind, StateSpace,
};
use crate::diag::Diagnostic;
use crate::fields;
use crate::layers::Activation;

const MAMBA: Names = Names {
    prefixes: &["backbone."],
    embedding: "embeddings",
    norm: "norm",
    final_norm: "norm_f",
    ..NAMES
};

/// Fields of how weights begin, and of how Transformers computes.
const PASSED: [&str; 13] = [
    "n_layer", "d_model", "d_inner", "fused_add_norm", "rms_norm", "rescale_prenorm_residual",
    "residual_in_fp32", "time_step_floor", "time_step_init_scheme", "time_step_max",
    "time_step_min", "time_step_scale", "use_mambapy",
];

pub(super) fn mamba(c: &Config) -> Result<Decoder, Diagnostic> {
    described(c, None)
}

/// What follows from the input is normed.
pub(super) fn falcon_mamba(c: &Config) -> Result<Decoder, Diagnostic> {
    c.pass_over(&["use_falcon_mambapy"]);
    described(c, Some(c.number("mixer_rms_eps", 1e-6)?))
}

fn described(c: &Config, norm: Option<f64>) -> Result<Decoder, Diagnostic> {
    c.pass_over(&PASSED);
    // Biases are used wherever the checkpoint has them.
    c.pass_over(&["use_bias", "use_conv_bias"]);
    let hidden = fields::size(c, "hidden_size", 768)?;
    let taps = taps(c)?;
    let rank = match c.get("time_step_rank").and_then(serde_json::Value::as_str) {
        Some("auto") => hidden.div_ceil(16),
        _ => fields::size(c, "time_step_rank", hidden.div_ceil(16))?,
    };
    let state = StateSpace {
        kind: StateKind::Channels { rank, norm },
        inner: inner(c, hidden)?,
        size: fields::size(c, "state_size", 16)?,
        taps,
        activation: fields::activation(c, "hidden_act", Activation::Silu)?,
    };
    decoder(c, hidden, state)
}

/// Taps of the convolution, of which the cache keeps all but one.
fn taps(c: &Config) -> Result<usize, Diagnostic> {
    match fields::size(c, "conv_kernel", 4)? {
        1 => Err(c.wrong("conv_kernel", "2 or more")),
        taps => Ok(taps),
    }
}

/// Channels of the state.
fn inner(c: &Config, hidden: usize) -> Result<usize, Diagnostic> {
    let expanded = c.above_zero("expand", 2.0)? * hidden as f64;
    if !(1.0..=f64::from(1 << 30)).contains(&expanded) {
        return Err(c.wrong("expand", "a usual ratio"));
    }
    fields::size(c, "intermediate_size", expanded as usize)
}

/// A decoder whose layers have this state and nothing else.
fn decoder(c: &Config, hidden: usize, state: StateSpace) -> Result<Decoder, Diagnostic> {
    let layer = DecoderLayer { window: None, rope: None, has_experts: false, mixer: Mixer::State };
    let count = match c.get("num_hidden_layers") {
        Some(_) => c.layers("num_hidden_layers")?,
        None => 32,
    };
    Ok(Decoder {
        names: MAMBA,
        vocabulary: c.size("vocab_size")?,
        hidden,
        heads: 1,
        kv_heads: 1,
        head: hidden,
        value: hidden,
        norm: Norm {
            kind: NormKind::Rms,
            epsilon: c.number("layer_norm_epsilon", 1e-5)?,
            plus_one: false,
        },
        order: Order::Alone,
        embedding: Embedding { scale: 1.0, positions: None, has_norm: false },
        attention: NONE,
        ropes: vec![],
        mlp: Mlp { kind: MlpKind::Plain, activation: state.activation, inner: 0, experts: None },
        state: Some(state),
        layers: vec![layer; count],
        residual: 1.0,
        head_of_words: Logits {
            is_tied: c.flag("tie_word_embeddings", true)?,
            scale: 1.0,
            cap: None,
            without_norm: false,
        },
        inputs_first: false,
    })
}

/// What no layer has.
const NONE: Attention = Attention {
    fused: Fused::Apart,
    scale: 1.0,
    by_layer: false,
    head_norm: HeadNorm::None,
    norm_after_turn: false,
    is_causal: true,
    cap: None,
    clip: None,
    alibi: 0.0,
    has_sinks: false,
    latent: None,
};
