//! What families with experts share, and gpt_oss.

use super::base::{self, Base, LLAMA, ROPE, set_windows, window};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, ExpertWeights, Experts, Router};
use crate::diag::Diagnostic;

/// Experts that each have three weights: gate, up and down.
pub(super) fn each([gate, up, down]: [&'static str; 3]) -> ExpertWeights {
    ExpertWeights::Each { gate, up, down }
}

/// How many experts a token goes to, of so many.
pub(super) fn size_of_choice(
    c: &Config,
    default: usize,
    count: usize,
) -> Result<usize, Diagnostic> {
    const KEY: &str = "num_experts_per_tok";
    let chosen = c.optional_size(KEY)?.unwrap_or(default);
    if chosen <= count {
        Ok(chosen)
    } else {
        Err(c.wrong(KEY, &format!("{count} at most, which is how many there are")))
    }
}

/// Sinks, windows in every other layer, and experts whose gate and up alternate.
pub(super) fn gpt_oss(c: &Config) -> Result<Decoder, Diagnostic> {
    // Transformers fills in a rotation of its own where the file has none.
    if c.get("rope_parameters").or(c.get("rope_scaling")).is_none() {
        return Err(c.wrong("rope_scaling", "an object, as the files of this family have it"));
    }
    let rope = Some(Defaults { theta: 150000.0, ..ROPE });
    let (epsilon, head, kv_heads) = (("rms_norm_eps", 1e-5), Some(64), Some(8));
    let mut d = base::decoder(c, &Base { rope, epsilon, head, kv_heads, ..LLAMA })?;
    set_windows(c, &mut d, window(c, Some(128))?, |i| i % 2 == 0)?;
    c.pass_over(&["initial_context_length", "experts_per_token"]);
    d.attention.has_sinks = true;
    let count = c.optional_size("num_local_experts")?.unwrap_or(128);
    let (bound, alpha) = (c.above_zero("swiglu_limit", 7.0)?, c.above_zero("swiglu_alpha", 1.702)?);
    d.mlp.experts = Some(Experts {
        count,
        chosen: size_of_choice(c, 4, count)?,
        inner: d.mlp.inner,
        router: Router::SoftmaxLast,
        router_name: "mlp.router",
        weights: ExpertWeights::Alternating { bound, alpha },
        shared: None,
    });
    d.layers.iter_mut().for_each(|layer| layer.has_experts = true);
    Ok(d)
}
