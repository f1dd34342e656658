//! Families of encoders with decoders: what of `config.json` they read, how they call their weights, and what they do
//! otherwise than BART.

mod bart;
mod t5;
mod whisper;

use super::{AttentionNames, EncoderDecoder};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::layers::Activation;

/// Describes the encoder and the decoder of a `config.json`.
pub(crate) type Family = fn(&Config) -> Result<EncoderDecoder, Diagnostic>;

/// Families by `model_type`.
pub(super) const FAMILIES: &[(&str, Family)] = &[
    ("bart", bart::bart),
    ("marian", bart::marian),
    ("mbart", bart::mbart),
    ("mt5", t5::mt5),
    ("pegasus", bart::pegasus),
    ("t5", t5::t5),
    ("whisper", whisper::whisper),
];

/// The family of this name.
pub(crate) fn named(kind: &str) -> Option<Family> {
    FAMILIES.iter().find(|(name, _)| *name == kind).map(|(_, family)| *family)
}

/// Elements of a table of positions that is computed.
const TABLE_MAX: usize = 1 << 24;

/// Fields that change nothing here: training, generation, and other heads.
const INERT: &[&str] = &[
    "_num_labels", "bad_words_ids", "classif_dropout", "decoder_layerdrop", "diversity_penalty",
    "do_sample", "dropout_rate", "early_stopping", "encoder_layerdrop",
    "encoder_no_repeat_ngram_size", "eos_token_ids", "force_bos_token_to_be_generated",
    "forced_bos_token_id", "forced_eos_token_id", "initializer_factor", "length_penalty",
    "max_length", "min_length", "no_repeat_ngram_size", "num_beam_groups", "num_beams",
    "num_hidden_layers", "num_labels", "num_return_sequences", "output_past", "prefix",
    "problem_type", "remove_invalid_values", "repetition_penalty", "return_dict_in_generate",
    "save_step", "temperature", "tf_legacy_loss", "top_k", "top_p", "torchscript", "typical_p",
    "use_bfloat16",
];

/// Passes over what changes nothing, and refuses a decoder alone.
fn begin(c: &Config) -> Result<(), Diagnostic> {
    c.pass_over(INERT);
    // Transformers calls an encoder that is saved alone none that has a decoder.
    let classes = c.words("architectures")?.unwrap_or_default();
    match classes.first().is_some_and(|class| class.ends_with("EncoderModel")) {
        true => c.pass_over(&["is_encoder_decoder"]),
        false => c.only("is_encoder_decoder", true)?,
    }
    c.only("add_cross_attention", false)?;
    c.only("is_decoder", false)
}

fn activation(c: &Config, key: &str, word: &str) -> Result<Activation, Diagnostic> {
    Activation::named(word).ok_or_else(|| c.unknown(key, "which is no activation that is known"))
}

/// BART's names of a projection each.
const fn projections(norm: &'static str, names: [&'static str; 4]) -> AttentionNames {
    let [q, k, v, o] = names;
    AttentionNames { norm, q, k, v, o }
}
