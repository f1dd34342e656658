//! GPT-J and CodeGen: neighbours in the first elements of heads turn, and branches are parallel.

use super::base::{self, Base, Keys, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::{Defaults, plain};
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind, Order};
use crate::diag::Diagnostic;

const GPTJ: Base = Base {
    keys: Keys {
        hidden: "n_embd",
        heads: "n_head",
        kv_heads: "",
        layers: "n_layer",
        inner: "n_inner",
    },
    names: Names {
        prefixes: &["transformer."],
        embedding: "wte",
        layers: "h",
        norm: "ln_1",
        qkv: "attn.qkv_proj",
        q: "attn.q_proj",
        k: "attn.k_proj",
        v: "attn.v_proj",
        o: "attn.out_proj",
        up: "mlp.fc_in",
        down: "mlp.fc_out",
        final_norm: "ln_f",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_epsilon", 1e-5),
    activation: (&["activation_function"], "gelu_new"),
    mlp: MlpKind::Plain,
    rope: None,
    is_inner_fourfold: true,
    ..LLAMA
};

pub(super) fn gptj(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &GPTJ)?;
    d.order = Order::Parallel { norms: 1 };
    let dims = match c.has("rotary_dim") {
        true => c.optional_size("rotary_dim")?.unwrap_or(d.head),
        false => 64,
    };
    if dims > d.head || !dims.is_multiple_of(2) {
        return Err(c.wrong("rotary_dim", &format!("even, and {} at most", d.head)));
    }
    d.ropes = vec![plain(dims, ROPE.theta, Defaults { interleaved: true, ..ROPE })];
    d.layers.iter_mut().for_each(|layer| layer.rope = Some(0));
    Ok(d)
}

/// Heads in four parts, as they were trained on four processors.
pub(super) fn codegen(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = gptj(c)?;
    if d.heads % 4 != 0 {
        return Err(c.wrong("n_head", "a multiple of 4"));
    }
    d.attention.fused = Fused::Quarters;
    Ok(d)
}
