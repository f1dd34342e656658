//! Granite: numbers that scale the embedding, the scores, the branches and the logits.

use super::base::{self, LLAMA};
use super::moe::size_of_choice;
use crate::config::Config;
use crate::decoder::{Decoder, ExpertWeights, Experts, Router};
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
    Ok(d)
}
