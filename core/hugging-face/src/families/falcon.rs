//! Falcon in its three forms: of 40B and later (`new_decoder_architecture`), of 7B, and of the RefinedWeb models.

use super::base::{self, Base, Keys, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind, Order};
use crate::diag::Diagnostic;

const FALCON: Base = Base {
    keys: Keys { inner: "ffn_hidden_size", kv_heads: "", ..LLAMA.keys },
    names: Names {
        prefixes: &["transformer."],
        embedding: "word_embeddings",
        layers: "h",
        qkv: "self_attention.query_key_value",
        o: "self_attention.dense",
        up: "mlp.dense_h_to_4h",
        down: "mlp.dense_4h_to_h",
        final_norm: "ln_f",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_epsilon", 1e-5),
    activation: (&["activation"], "gelu"),
    mlp: MlpKind::Plain,
    rope: Some(ROPE),
    is_tied: true,
    is_inner_fourfold: true,
    ..LLAMA
};

pub(super) fn falcon(c: &Config) -> Result<Decoder, Diagnostic> {
    let is_new = c.flag("new_decoder_architecture", false)?;
    let (given, is_shared) = (c.optional_size("num_kv_heads")?, c.flag("multi_query", true)?);
    let kv_heads = if is_new { given } else { Some(1).filter(|_| is_shared) };
    let has_alibi = c.flag("alibi", false)?;
    let rope = FALCON.rope.filter(|_| !has_alibi);
    let mut d = base::decoder(c, &Base { kv_heads, rope, ..FALCON })?;
    if kv_heads.is_some_and(|kv_heads| kv_heads != d.kv_heads) {
        return Err(c.wrong("num_kv_heads", &format!("a divisor of the {} heads", d.heads)));
    }
    d.attention.fused = Fused::Grouped;
    if has_alibi {
        if d.heads != d.kv_heads {
            return Err(c.unknown("alibi", "which is not supported where heads share keys"));
        }
        c.pass_over(&["rope_theta", "rope_scaling"]);
        // It is scaled with the scores.
        d.attention.alibi = d.attention.scale;
    }
    let norms = c.optional_size("num_ln_in_parallel_attn")?.unwrap_or(if is_new { 2 } else { 1 });
    if is_new || c.flag("parallel_attn", true)? {
        d.order = Order::Parallel { norms: if is_new { norms } else { 1 } };
    }
    if is_new && norms == 2 {
        d.names = Names { norm: "ln_attn", mlp_norm: "ln_mlp", ..d.names };
    }
    c.pass_over(&["parallel_attn"]);
    c.only("apply_residual_connection_post_layernorm", false)?;
    Ok(d)
}
