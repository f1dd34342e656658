//! Qwen 2 and 3: windows in late layers, norms of heads, experts.

use super::base::{self, Base, LLAMA, set_windows, window};
use super::moe::{each, size_of_choice};
use crate::config::Config;
use crate::decoder::{Decoder, Experts, HeadNorm, Router};
use crate::diag::Diagnostic;
use std::collections::BTreeSet;

/// Windows count only if the file says that they are used.
fn windows(c: &Config, d: &mut Decoder) -> Result<(), Diagnostic> {
    let is_used = c.flag("use_sliding_window", false)?;
    let window = window(c, Some(4096))?.filter(|_| is_used);
    let first = c.optional_number("max_window_layers")?.unwrap_or(28.0);
    set_windows(c, d, window, |i| i as f64 >= first)?;
    Ok(())
}

pub(super) fn qwen2(c: &Config) -> Result<Decoder, Diagnostic> {
    // Positions along several axes are those of pictures.
    c.only("use_mrope", false)?;
    let mut d = base::decoder(c, &LLAMA)?;
    windows(c, &mut d)?;
    Ok(d)
}

pub(super) fn qwen3(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { head: Some(128), ..LLAMA })?;
    d.attention.head_norm = HeadNorm::Shared;
    windows(c, &mut d)?;
    Ok(d)
}

/// Which layers have experts, and these.
fn experts(
    c: &Config,
    d: &mut Decoder,
    count: usize,
    chosen: usize,
) -> Result<Experts, Diagnostic> {
    let dense = c.numbers("mlp_only_layers")?.unwrap_or_default();
    let dense: BTreeSet<usize> = dense.into_iter().map(|i| i as usize).collect();
    let step = c.optional_size("decoder_sparse_step")?.unwrap_or(1);
    for (i, layer) in d.layers.iter_mut().enumerate() {
        layer.has_experts = !dense.contains(&i) && (i + 1) % step == 0;
    }
    Ok(Experts {
        count,
        chosen: size_of_choice(c, chosen, count)?,
        inner: c.size("moe_intermediate_size")?,
        router: Router::SoftmaxFirst { divided: c.flag("norm_topk_prob", false)? },
        router_name: "mlp.gate",
        weights: each([
            "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj",
        ]),
        shared: None,
    })
}

pub(super) fn qwen2_moe(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = qwen2(c)?;
    let experts = experts(c, &mut d, c.optional_size("num_experts")?.unwrap_or(60), 4)?;
    let inner = c.size("shared_expert_intermediate_size")?;
    let shared = Some(("mlp.shared_expert", inner, "mlp.shared_expert_gate"));
    d.mlp.experts = Some(Experts { shared, ..experts });
    Ok(d)
}

pub(super) fn qwen3_moe(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { kv_heads: Some(4), ..LLAMA })?;
    d.attention.head_norm = HeadNorm::Shared;
    // All layers have the window, if it is used.
    c.pass_over(&["max_window_layers"]);
    let is_used = c.flag("use_sliding_window", false)?;
    let window = window(c, Some(4096))?.filter(|_| is_used);
    set_windows(c, &mut d, window, |_| true)?;
    let count = c.optional_size("num_experts")?.or(c.optional_size("num_local_experts")?);
    d.mlp.experts = Some(experts(c, &mut d, count.unwrap_or(128), 8)?);
    Ok(d)
}
