//! Granite: numbers that scale the embedding, the scores, the branches and the logits.

use super::base::{self, LLAMA};
use super::mamba;
use super::moe::size_of_choice;
use crate::config::Config;
use crate::decoder::{Decoder, ExpertWeights, Experts, Mixer, Mlp, MlpKind, Router};
use crate::diag::Diagnostic;

pub(super) fn granite(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &LLAMA)?;
    d.embedding.scale = c.number("embedding_multiplier", 1.0)?;
    d.attention.scale = c.number("attention_multiplier", 1.0)?;
    d.residual = c.number("residual_multiplier", 1.0)?;
    d.head_of_words.scale = 1.0 / c.above_zero("logits_scaling", 1.0)?;
    Ok(d)
}

pub(super) fn granitemoe(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = granite(c)?;
    if c.word("position_embedding_type")?.is_some_and(|kind| kind != "rope") {
        return Err(c.unknown("position_embedding_type", "and only `rope` is known"));
    }
    let count = c.optional_size("num_local_experts")?.unwrap_or(8);
    give_experts(c, &mut d, count)?;
    Ok(d)
}

fn give_experts(c: &Config, d: &mut Decoder, count: usize) -> Result<(), Diagnostic> {
    d.mlp.experts = Some(Experts {
        count,
        chosen: size_of_choice(c, 2, count)?,
        inner: d.mlp.inner,
        router: Router::SoftmaxLast,
        router_name: "block_sparse_moe.router.layer",
        weights: ExpertWeights::Stacked {
            gate_up: "block_sparse_moe.input_linear",
            down: "block_sparse_moe.output_linear",
        },
        shared: None,
    });
    d.layers.iter_mut().for_each(|layer| layer.has_experts = true);
    Ok(())
}

/// Some layers have a state in place of attention. All have an MLP for all tokens, and experts beside it if there are
/// any.
pub(super) fn granitemoehybrid(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = granite(c)?;
    d.names.gate_up = "shared_mlp.input_linear";
    d.names.down = "shared_mlp.output_linear";
    if c.word("normalization_function")?.is_some_and(|kind| kind != "rmsnorm") {
        return Err(c.unknown("normalization_function", "and only `rmsnorm` is known"));
    }
    c.pass_over(&["init_method", "mamba_chunk_size", "mamba_conv_bias", "mamba_proj_bias"]);
    let experts = c.number("num_local_experts", 8.0)?;
    if experts != 0.0 {
        let count = c.optional_size("num_local_experts")?.unwrap_or(8);
        give_experts(c, &mut d, count)?;
    }
    c.pass_over(&["num_experts_per_tok"]);
    let inner = c.optional_size("shared_intermediate_size")?.unwrap_or(1024);
    d.mlp = Mlp { kind: MlpKind::GatedInOne, inner, beside_experts: true, ..d.mlp };
    match c.word("position_embedding_type")? {
        Some("rope") => {}
        None | Some("nope") => d.layers.iter_mut().for_each(|layer| layer.rope = None),
        Some(_) => {
            return Err(
                c.unknown("position_embedding_type", "and only `rope` and `nope` are known")
            );
        }
    }
    // Transformers 4 and 5 call the kinds of layers by different names.
    let kinds = c.words("layer_types")?.unwrap_or(vec!["mamba"; d.layers.len()]);
    let known = ["mamba", "attention", "linear_attention", "full_attention"];
    if kinds.len() != d.layers.len() || !kinds.iter().all(|kind| known.contains(kind)) {
        return Err(c.unknown("layer_types", "and each layer must be `mamba` or `attention`"));
    }
    for (layer, kind) in d.layers.iter_mut().zip(kinds) {
        if matches!(kind, "mamba" | "linear_attention") {
            layer.mixer = Mixer::State;
        }
    }
    d.state = Some(mamba::of_hybrid(c, d.hidden, d.norm.epsilon)?);
    Ok(d)
}
