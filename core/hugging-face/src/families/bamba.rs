//! Bamba: a state in most layers, and attention in those that a list names.

use super::base::{self, Base, LLAMA, NAMES, ROPE};
use super::mamba;
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, Mixer, Names};
use crate::diag::Diagnostic;

const BAMBA: Base = Base {
    names: Names {
        mlp_norm: "pre_ff_layernorm",
        gate: "feed_forward.gate_proj",
        up: "feed_forward.up_proj",
        down: "feed_forward.down_proj",
        final_norm: "final_layernorm",
        ..NAMES
    },
    epsilon: ("rms_norm_eps", 1e-5),
    rope: Some(Defaults { share: 0.5, ..ROPE }),
    kv_heads: Some(8),
    ..LLAMA
};

pub(super) fn bamba(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &BAMBA)?;
    c.pass_over(&[
        "mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias", "num_logits_to_keep",
        "z_loss_coefficient",
    ]);
    let attentive = c.numbers("attn_layer_indices")?.unwrap_or_default();
    for (number, layer) in d.layers.iter_mut().enumerate() {
        if !attentive.contains(&(number as f64)) {
            layer.mixer = Mixer::State;
        }
    }
    d.state = Some(mamba::of_hybrid(c, d.hidden, d.norm.epsilon)?);
    Ok(d)
}
