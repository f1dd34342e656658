//! GPT-2 and its kin: a table of positions, LayerNorm, an MLP without a gate.

use super::base::{self, Base, Keys, LLAMA, NAMES};
use crate::config::Config;
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind};
use crate::diag::Diagnostic;

const GPT2: Base = Base {
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
        positions: "wpe",
        layers: "h",
        norm: "ln_1",
        mlp_norm: "ln_2",
        qkv: "attn.c_attn",
        o: "attn.c_proj",
        up: "mlp.c_fc",
        down: "mlp.c_proj",
        final_norm: "ln_f",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_epsilon", 1e-5),
    activation: (&["activation_function"], "gelu_new"),
    mlp: MlpKind::Plain,
    rope: None,
    is_tied: true,
    is_inner_fourfold: true,
    ..LLAMA
};

pub(super) fn gpt2(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("add_cross_attention", false)?;
    let mut d = base::decoder(c, &GPT2)?;
    d.inputs_first = true;
    d.attention.fused = Fused::InTurn;
    d.attention.by_layer = c.flag("scale_attn_by_inverse_layer_idx", false)?;
    unscaled(c, &mut d)?;
    d.embedding.positions = Some((c.optional_size("n_positions")?.unwrap_or(1024), 0));
    Ok(d)
}

/// Scores that the file says are not scaled.
fn unscaled(c: &Config, d: &mut Decoder) -> Result<(), Diagnostic> {
    if !c.flag("scale_attn_weights", true)? {
        d.attention.scale = 1.0;
    }
    Ok(())
}

/// All heads may share a key.
pub(super) fn gpt_bigcode(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("add_cross_attention", false)?;
    let is_shared = c.flag("multi_query", true)?;
    c.pass_over(&[
        "num_key_value_heads", "attention_softmax_in_fp32", "pre_allocate_kv_cache",
        "max_sequence_length",
    ]);
    let kv_heads = Some(1).filter(|_| is_shared);
    let activation = (&["activation_function"][..], "gelu_pytorch_tanh");
    let mut d = base::decoder(c, &Base { kv_heads, activation, ..GPT2 })?;
    d.attention.fused = Fused::Grouped;
    unscaled(c, &mut d)?;
    d.embedding.positions = Some((c.optional_size("n_positions")?.unwrap_or(1024), 0));
    Ok(d)
}

/// Scores are not scaled, and some layers have a window.
pub(super) fn gpt_neo(c: &Config) -> Result<Decoder, Diagnostic> {
    let base = Base {
        keys: Keys { heads: "num_heads", layers: "num_layers", kv_heads: "", ..LLAMA.keys },
        names: Names {
            q: "attn.attention.q_proj",
            k: "attn.attention.k_proj",
            v: "attn.attention.v_proj",
            o: "attn.attention.out_proj",
            ..GPT2.names
        },
        ..GPT2
    };
    let mut d = base::decoder(c, &base)?;
    d.attention.scale = 1.0;
    d.embedding.positions = Some((c.optional_size("max_position_embeddings")?.unwrap_or(2048), 0));
    let window = c.optional_size("window_size")?.unwrap_or(256);
    // Made from `attention_types`, which says the same shorter.
    let Some(kinds) = c.words("attention_layers")? else {
        return Err(c.wrong("attention_layers", "a list of words, one for each layer"));
    };
    c.pass_over(&["attention_types"]);
    if kinds.len() != d.layers.len()
        || !kinds.iter().all(|kind| matches!(*kind, "local" | "global"))
    {
        return Err(c.unknown("attention_layers", "and each layer must be `local` or `global`"));
    }
    for (layer, kind) in d.layers.iter_mut().zip(kinds) {
        layer.window = Some(window).filter(|_| kind == "local");
    }
    Ok(d)
}
