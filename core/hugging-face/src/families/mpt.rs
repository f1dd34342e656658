//! MPT: no positions but how far keys are, fused heads, an MLP without a gate.

use super::base::{self, Base, Keys, LLAMA, NAMES};
use crate::config::Config;
use crate::decoder::{Decoder, Fused, MlpKind, Names, NormKind};
use crate::diag::Diagnostic;

const MPT: Base = Base {
    keys: Keys { hidden: "d_model", heads: "n_heads", layers: "n_layers", kv_heads: "", inner: "" },
    names: Names {
        prefixes: &["transformer."],
        embedding: "wte",
        layers: "blocks",
        norm: "norm_1",
        mlp_norm: "norm_2",
        qkv: "attn.Wqkv",
        o: "attn.out_proj",
        up: "ffn.up_proj",
        down: "ffn.down_proj",
        final_norm: "norm_f",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_epsilon", 1e-5),
    activation: (&[], "gelu"),
    mlp: MlpKind::Plain,
    rope: None,
    is_tied: true,
    is_inner_fourfold: true,
    ..LLAMA
};

pub(super) fn mpt(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &MPT)?;
    if c.optional_size("expansion_ratio")?.is_some_and(|ratio| ratio != 4) {
        return Err(c.unknown("expansion_ratio", "and only 4 is known"));
    }
    if c.has("logit_scale") && c.get("logit_scale").is_some() {
        return Err(c.unknown("logit_scale", "which is not supported"));
    }
    c.pass_over(&[
        "max_seq_len", "no_bias", "norm_type", "emb_pdrop", "learned_pos_emb", "init_device",
        "verbose", "init_config", "embedding_fraction",
    ]);
    d.attention.fused = Fused::InTurn;
    d.attention.alibi = 1.0;
    let Some(attention) = c.section("attn_config")? else { return Ok(d) };
    attention.only("alibi", true)?;
    attention.only("qk_ln", false)?;
    attention.only("prefix_lm", false)?;
    if attention.word("attn_type")?.is_some_and(|kind| kind != "multihead_attention") {
        return Err(attention.unknown("attn_type", "and only `multihead_attention` is known"));
    }
    if attention.number("alibi_bias_max", 8.0)? != 8.0 || !d.heads.is_power_of_two() {
        return Err(
            attention.unknown("alibi_bias_max", "and only 8 with a power of two of heads is known")
        );
    }
    attention.pass_over(&["attn_pdrop", "attn_impl", "attn_uses_sequence_id", "model_type"]);
    d.attention.clip = attention.optional_above_zero("clip_qkv")?;
    d.attention.scale = attention.number("softmax_scale", d.attention.scale)?;
    c.close(&attention);
    Ok(d)
}
