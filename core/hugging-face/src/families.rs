//! Families of decoders, a file each: what of `config.json` they read, how they call their weights, and what they do
//! otherwise than Llama.

mod bamba;
pub(crate) mod base;
mod bloom;
mod cohere;
mod deepseek;
mod exaone;
mod falcon;
mod gemma;
mod glm;
mod gpt2;
mod gpt_neox;
mod gptj;
mod granite;
mod hunyuan;
mod lfm2;
mod llama;
mod mamba;
mod mistral;
mod moe;
mod mpt;
mod nemotron;
mod olmo;
mod opt;
mod phi;
mod qwen;
mod smollm3;
mod stablelm;
mod starcoder2;

use crate::config::Config;
use crate::decoder::Decoder;
use crate::diag::Diagnostic;

/// Describes the decoder of a `config.json`.
pub type Family = fn(&Config) -> Result<Decoder, Diagnostic>;

/// Families by `model_type`.
const FAMILIES: &[(&str, Family)] = &[
    ("arcee", llama::arcee),
    ("bamba", bamba::bamba),
    ("bloom", bloom::bloom),
    ("codegen", gptj::codegen),
    ("cohere", cohere::cohere),
    ("cohere2", cohere::cohere2),
    ("deepseek_v2", deepseek::deepseek_v2),
    ("deepseek_v3", deepseek::deepseek_v3),
    ("ernie4_5", llama::ernie4_5),
    ("exaone4", exaone::exaone4),
    ("falcon", falcon::falcon),
    ("falcon_mamba", mamba::falcon_mamba),
    ("gemma", gemma::gemma),
    ("gemma2", gemma::gemma2),
    ("gemma3_text", gemma::gemma3),
    ("glm", glm::glm),
    ("glm4", glm::glm4),
    ("gpt2", gpt2::gpt2),
    ("gpt_bigcode", gpt2::gpt_bigcode),
    ("gpt_neo", gpt2::gpt_neo),
    ("gpt_neox", gpt_neox::gpt_neox),
    ("gpt_oss", moe::gpt_oss),
    ("gptj", gptj::gptj),
    ("granite", granite::granite),
    ("granitemoe", granite::granitemoe),
    ("granitemoehybrid", granite::granitemoehybrid),
    ("hunyuan_v1_dense", hunyuan::hunyuan),
    ("lfm2", lfm2::lfm2),
    ("llama", llama::llama),
    ("mamba", mamba::mamba),
    ("mamba2", mamba::mamba2),
    ("mistral", mistral::mistral),
    ("mixtral", mistral::mixtral),
    ("mpt", mpt::mpt),
    ("nemotron", nemotron::nemotron),
    ("olmo", olmo::olmo),
    ("olmo2", olmo::olmo2),
    ("olmoe", olmo::olmoe),
    ("opt", opt::opt),
    ("phi", phi::phi),
    ("phi3", phi::phi3),
    ("qwen2", qwen::qwen2),
    ("qwen2_moe", qwen::qwen2_moe),
    ("qwen3", qwen::qwen3),
    ("qwen3_moe", qwen::qwen3_moe),
    ("seed_oss", llama::seed_oss),
    ("smollm3", smollm3::smollm3),
    ("stablelm", stablelm::stablelm),
    ("starcoder2", starcoder2::starcoder2),
];

/// The family of this name.
pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
}

#[cfg(test)]
pub(crate) mod tests;
