//! OLMo: norms without weights and bounded heads; OLMo 2: norms behind the branches; OLMoE: experts.

use super::base::{self, Base, LLAMA};
use super::moe::{each, size_of_choice};
use crate::config::Config;
use crate::decoder::{Decoder, Experts, HeadNorm, NormKind, Order, Router};
use crate::diag::Diagnostic;

pub(super) fn olmo(c: &Config) -> Result<Decoder, Diagnostic> {
    // The file has no say in the epsilon.
    let mut d = base::decoder(c, &Base { norm: NormKind::Bare, epsilon: ("", 1e-5), ..LLAMA })?;
    d.attention.clip = c.optional_above_zero("clip_qkv")?;
    Ok(d)
}

pub(super) fn olmo2(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { epsilon: ("rms_norm_eps", 1e-5), ..LLAMA })?;
    d.order = Order::After;
    d.attention.head_norm = HeadNorm::Whole;
    Ok(d)
}

pub(super) fn olmoe(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { epsilon: ("rms_norm_eps", 1e-5), ..LLAMA })?;
    d.attention.clip = c.optional_above_zero("clip_qkv")?;
    d.attention.head_norm = HeadNorm::Whole;
    let count = c.optional_size("num_experts")?.unwrap_or(64);
    d.mlp.experts = Some(Experts {
        count,
        chosen: size_of_choice(c, 8, count)?,
        inner: d.mlp.inner,
        router: Router::SoftmaxFirst { divided: c.flag("norm_topk_prob", false)? },
        router_name: "mlp.gate",
        weights: each([
            "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj",
        ]),
        shared: None,
    });
    d.layers.iter_mut().for_each(|layer| layer.has_experts = true);
    Ok(d)
}
