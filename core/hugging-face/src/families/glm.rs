//! GLM: neighbours in half of each head turn, gate and up are one weight; GLM 4 has norms behind the branches, too.

use super::base::{self, Base, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, MlpKind, Names, Order};
use crate::diag::Diagnostic;

const GLM: Base = Base {
    epsilon: ("rms_norm_eps", 1.5625e-7),
    mlp: MlpKind::GatedInOne,
    rope: Some(Defaults { share: 0.5, interleaved: true, ..ROPE }),
    kv_heads: Some(2),
    head: Some(128),
    ..LLAMA
};

pub(super) fn glm(c: &Config) -> Result<Decoder, Diagnostic> {
    base::decoder(c, &GLM)
}

pub(super) fn glm4(c: &Config) -> Result<Decoder, Diagnostic> {
    let names = Names {
        after_attention: "post_self_attn_layernorm",
        after_mlp: "post_mlp_layernorm",
        ..NAMES
    };
    let mut d = base::decoder(c, &Base { names, ..GLM })?;
    d.order = Order::Both;
    Ok(d)
}
