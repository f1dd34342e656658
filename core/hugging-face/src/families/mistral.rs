//! Mistral: all layers see a window, if there is one.

use super::base::{self, Base, LLAMA, ROPE, set_windows, window};
use super::moe::{each, size_of_choice};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, Experts, Router};
use crate::diag::Diagnostic;

pub(super) fn mistral(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { kv_heads: Some(8), ..LLAMA })?;
    set_windows(c, &mut d, window(c, Some(4096))?, |_| true)?;
    Ok(d)
}

/// Experts instead of the MLP.
pub(super) fn mixtral(c: &Config) -> Result<Decoder, Diagnostic> {
    let rope = Some(Defaults { theta: 1e6, ..ROPE });
    let mut d = base::decoder(
        c,
        &Base { kv_heads: Some(8), rope, epsilon: ("rms_norm_eps", 1e-5), ..LLAMA },
    )?;
    set_windows(c, &mut d, window(c, None)?, |_| true)?;
    let count = c.optional_size("num_local_experts")?.unwrap_or(8);
    d.mlp.experts = Some(Experts {
        count,
        chosen: size_of_choice(c, 2, count)?,
        inner: d.mlp.inner,
        router: Router::SoftmaxFirst { divided: true },
        router_name: "block_sparse_moe.gate",
        weights: each([
            "block_sparse_moe.experts.*.w1", "block_sparse_moe.experts.*.w3",
            "block_sparse_moe.experts.*.w2",
        ]),
        shared: None,
    });
    d.layers.iter_mut().for_each(|layer| layer.has_experts = true);
    Ok(d)
}
