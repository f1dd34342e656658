//! StableLM: LayerNorm, a quarter of each head turns, and branches may be parallel.

use super::base::{self, Base, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, HeadNorm, Names, NormKind, Order};
use crate::diag::Diagnostic;

const STABLELM: Base = Base {
    names: Names { q_norm: "self_attn.q_layernorm", k_norm: "self_attn.k_layernorm", ..NAMES },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_eps", 1e-5),
    rope: Some(Defaults { share: 0.25, ..ROPE }),
    ..LLAMA
};

pub(super) fn stablelm(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &STABLELM)?;
    if c.number("rotary_scaling_factor", 1.0)? != 1.0 {
        return Err(c.unknown("rotary_scaling_factor", "and only 1 is known"));
    }
    if c.flag("use_parallel_residual", false)? {
        d.order = Order::Parallel { norms: 1 };
    }
    if c.flag("qk_layernorm", false)? {
        d.attention.head_norm = HeadNorm::Listed;
    }
    Ok(d)
}
