//! GPT-NeoX: fused heads, a part of each head turns, and branches are parallel with a norm each.

use super::base::{self, Base, Keys, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind, Order};
use crate::diag::Diagnostic;

pub(super) fn gpt_neox(c: &Config) -> Result<Decoder, Diagnostic> {
    let theta = c.above_zero("rotary_emb_base", 10000.0)?;
    let share = c.above_zero("rotary_pct", 0.25)?;
    let mut d = base::decoder(
        c,
        &Base {
            keys: Keys { kv_heads: "", ..LLAMA.keys },
            names: Names {
                prefixes: &["gpt_neox."],
                embedding: "embed_in",
                qkv: "attention.query_key_value",
                o: "attention.dense",
                up: "mlp.dense_h_to_4h",
                down: "mlp.dense_4h_to_h",
                final_norm: "final_layer_norm",
                lm_head: "embed_out",
                ..NAMES
            },
            norm: NormKind::Layer,
            epsilon: ("layer_norm_eps", 1e-5),
            activation: (&["hidden_act"], "gelu"),
            mlp: MlpKind::Plain,
            rope: Some(Defaults { theta, share, ..ROPE }),
            ..LLAMA
        },
    )?;
    d.attention.fused = Fused::Grouped;
    if c.flag("use_parallel_residual", true)? {
        d.order = Order::Parallel { norms: 2 };
    }
    Ok(d)
}
