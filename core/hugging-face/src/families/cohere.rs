//! Command R: LayerNorm without bias, parallel branches, neighbours turn, scaled logits.

use super::base::{self, Base, LLAMA, ROPE, set_windows, window};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, HeadNorm, NormKind, Order};
use crate::diag::Diagnostic;

const COHERE: Base = Base {
    norm: NormKind::Layer,
    epsilon: ("layer_norm_eps", 1e-5),
    rope: Some(Defaults { interleaved: true, ..ROPE }),
    is_tied: true,
    ..LLAMA
};

fn common(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &COHERE)?;
    d.order = Order::Parallel { norms: 1 };
    d.head_of_words.scale = c.number("logit_scale", 0.0625)?;
    Ok(d)
}

pub(super) fn cohere(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = common(c)?;
    if c.flag("use_qk_norm", false)? {
        d.attention.head_norm = HeadNorm::Own;
    }
    Ok(d)
}

/// Only layers with a window turn.
pub(super) fn cohere2(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = common(c)?;
    c.pass_over(&[
        "cache_implementation", "layer_switch", "order_of_interleaved_layers", "rotary_pct",
    ]);
    // What the first files say is what the family does.
    c.only_word("position_embedding_type", "rope_gptj")?;
    c.only("use_embedding_sharing", true)?;
    c.only("use_gated_activation", true)?;
    c.only("use_parallel_block", true)?;
    c.only("use_parallel_embedding", true)?;
    let old = c.optional_size("_sliding_window_pattern")?;
    let pattern = c.optional_size("sliding_window_pattern")?.or(old).unwrap_or(4);
    let window = window(c, Some(4096))?;
    let near = set_windows(c, &mut d, window, |i| (i + 1) % pattern != 0)?;
    for (layer, near) in d.layers.iter_mut().zip(near) {
        layer.rope = Some(0).filter(|_| near && window.is_some());
    }
    Ok(d)
}
