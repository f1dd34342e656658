//! LFM 2: short convolutions in some layers, attention in others.

use super::base::{self, Base, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, HeadNorm, Mixer, Names};
use crate::diag::Diagnostic;

const LFM2: Base = Base {
    names: Names {
        norm: "operator_norm",
        mlp_norm: "ffn_norm",
        o: "self_attn.out_proj",
        q_norm: "self_attn.q_layernorm",
        k_norm: "self_attn.k_layernorm",
        gate: "feed_forward.w1",
        up: "feed_forward.w3",
        down: "feed_forward.w2",
        final_norm: "embedding_norm",
        ..NAMES
    },
    epsilon: ("norm_eps", 1e-5),
    activation: (&[], "silu"),
    rope: Some(Defaults { theta: 1e6, ..ROPE }),
    kv_heads: Some(8),
    is_tied: true,
    ..LLAMA
};

pub(super) fn lfm2(c: &Config) -> Result<Decoder, Diagnostic> {
    // The first names of fields win where a file has both.
    let either = if c.get("block_ff_dim").is_some() { "block_ff_dim" } else { "intermediate_size" };
    let keys = base::Keys { inner: either, ..LFM2.keys };
    let mut d = base::decoder(c, &Base { keys, ..LFM2 })?;
    c.pass_over(&[
        "intermediate_size", "block_dim", "conv_dim", "conv_dim_out", "conv_bias",
        "block_use_swiglu",
    ]);
    // How weights began, and second names of what was read.
    c.pass_over(&[
        "block_mlp_init_scale", "block_out_init_scale", "block_use_xavier_init",
        "conv_use_xavier_init", "block_norm_eps", "num_heads",
    ]);
    c.only("use_pos_enc", true)?;
    d.head_of_words.is_tied = c.flag("tie_embedding", d.head_of_words.is_tied)?;
    let multiplier = c.number("block_ffn_dim_multiplier", 1.0)?;
    let multiple = c.optional_size("block_multiple_of")?.unwrap_or(256);
    if c.flag("block_auto_adjust_ff_dim", true)? {
        let narrow = (multiplier * (2 * d.mlp.inner / 3) as f64) as usize;
        if narrow > 1 << 31 {
            return Err(c.wrong("block_ffn_dim_multiplier", "a share of a usual size"));
        }
        d.mlp.inner = narrow.div_ceil(multiple) * multiple;
    }
    d.attention.head_norm = HeadNorm::Shared;
    let taps = c.optional_size("conv_L_cache")?.unwrap_or(3);
    if taps < 2 {
        return Err(c.wrong("conv_L_cache", "2 or more"));
    }
    c.pass_over(&["full_attn_idxs"]);
    let Some(kinds) = c.words("layer_types")? else {
        return with_attention_of(c, d, taps);
    };
    if kinds.len() != d.layers.len()
        || !kinds.iter().all(|kind| matches!(*kind, "conv" | "full_attention"))
    {
        return Err(c.unknown("layer_types", "and each layer must be `conv` or `full_attention`"));
    }
    for (layer, kind) in d.layers.iter_mut().zip(kinds) {
        if kind == "conv" {
            layer.mixer = Mixer::Conv(taps);
        }
    }
    Ok(d)
}

/// All layers but those that `full_attn_idxs` lists have convolutions; none has one where that is absent, too.
fn with_attention_of(c: &Config, mut d: Decoder, taps: usize) -> Result<Decoder, Diagnostic> {
    const KEY: &str = "full_attn_idxs";
    let Some(listed) = c.numbers(KEY)? else { return Ok(d) };
    let count = d.layers.len();
    if listed.iter().any(|at| at.fract() != 0.0 || !(0.0..count as f64).contains(at)) {
        return Err(
            c.wrong(KEY, &format!("a list of numbers of layers, of which there are {count}"))
        );
    }
    for (number, layer) in d.layers.iter_mut().enumerate() {
        if !listed.contains(&(number as f64)) {
            layer.mixer = Mixer::Conv(taps);
        }
    }
    Ok(d)
}
