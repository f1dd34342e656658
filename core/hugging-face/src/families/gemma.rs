//! Gemma: norms by 1 + w, a scaled embedding, and in later versions four norms, caps and windows.

use super::base::{self, Base, LLAMA, NAMES, ROPE, set_windows, window};
use crate::config::Config;
use crate::config::rope::{Defaults, two_ropes};
use crate::decoder::{Decoder, HeadNorm, Names, Order};
use crate::diag::Diagnostic;
use crate::layers::Activation;

const GEMMA: Base = Base {
    activation: (&["hidden_activation", "hidden_act"], "gelu_pytorch_tanh"),
    head: Some(256),
    is_tied: true,
    ..LLAMA
};

fn common(c: &Config, base: &Base) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, base)?;
    d.norm.plus_one = true;
    d.embedding.scale = (d.hidden as f64).sqrt();
    Ok(d)
}

pub(super) fn gemma(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("use_bidirectional_attention", false)?;
    let mut d = common(c, &Base { kv_heads: Some(16), ..GEMMA })?;
    if c.word("hidden_activation")?.is_none() && c.word("hidden_act")? == Some("gelu") {
        // What the models were trained with, and what early versions of Transformers made of this word.
        d.mlp.activation = Activation::GeluTanh;
        c.note("`hidden_act` is `gelu` in `config.json`, and was read as `gelu_pytorch_tanh`.");
    }
    Ok(d)
}

const FOUR_NORMS: Names = Names {
    mlp_norm: "pre_feedforward_layernorm",
    after_mlp: "post_feedforward_layernorm",
    ..NAMES
};

/// Four norms and a scale of its own; bounds where the file does not speak of them.
fn later(
    c: &Config,
    rope: Option<Defaults>,
    [scores, words]: [Option<f64>; 2],
) -> Result<Decoder, Diagnostic> {
    // The last one is another name of the window, which Transformers does not read.
    c.pass_over(&["cache_implementation", "sliding_window_size"]);
    let mut d = common(c, &Base { kv_heads: Some(4), names: FOUR_NORMS, rope, ..GEMMA })?;
    d.order = Order::Both;
    d.attention.scale = c.above_zero("query_pre_attn_scalar", 256.0)?.powf(-0.5);
    let cap = |key, default| if c.has(key) { c.optional_number(key) } else { Ok(default) };
    d.attention.cap = cap("attn_logit_softcapping", scores)?;
    d.head_of_words.cap = cap("final_logit_softcapping", words)?;
    Ok(d)
}

pub(super) fn gemma2(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("use_bidirectional_attention", false)?;
    let mut d = later(c, Some(ROPE), [Some(50.0), Some(30.0)])?;
    set_windows(c, &mut d, window(c, Some(4096))?, |i| i % 2 == 0)?;
    Ok(d)
}

/// Layers with a window turn otherwise than those that see all.
pub(super) fn gemma3(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = later(c, None, [None, None])?;
    let rope = Defaults { theta: 1e6, ..ROPE };
    d.ropes = two_ropes(c, d.head, rope, ("rope_local_base_freq", 10000.0))?.into();
    d.attention.head_norm = HeadNorm::Shared;
    let old = c.optional_size("_sliding_window_pattern")?;
    let pattern = c.optional_size("sliding_window_pattern")?.or(old).unwrap_or(6);
    d.attention.is_causal = !c.flag("use_bidirectional_attention", false)?;
    // Half of it on each side, where tokens see both.
    let half = |window| if d.attention.is_causal { window } else { window / 2 + 1 };
    let window = window(c, Some(4096))?.map(half);
    let near = set_windows(c, &mut d, window, |i| (i + 1) % pattern != 0)?;
    for (layer, near) in d.layers.iter_mut().zip(near) {
        layer.rope = Some(usize::from(near));
    }
    Ok(d)
}
