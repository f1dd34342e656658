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
    let either = if c.has("intermediate_size") { "intermediate_size" } else { "block_ff_dim" };
    let keys = base::Keys { inner: either, ..LFM2.keys };
    let mut d = base::decoder(c, &Base { keys, ..LFM2 })?;
    c.pass_over(&[
        "block_ff_dim", "block_dim", "conv_dim", "conv_dim_out", "conv_bias", "block_use_swiglu",
    ]);
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
    let Some(kinds) = c.words("layer_types")? else {
        return Err(c.wrong("layer_types", "a list of words, one for each layer"));
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
