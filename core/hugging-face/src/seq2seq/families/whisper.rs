//! Whisper: an encoder of sound, and BART's decoder with norms before branches. Queries, values and outputs have
//! biases; keys have none.

use super::bart::{Side, crossed, stack};
use super::{activation, begin, head};
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::seq2seq::{Embedding, EncoderDecoder, Head, Norm, Positions, Source};

/// Training, other heads, and what generation looks at. Transformers reads `scale_embedding` and scales nothing.
const INERT: [&str; 17] = [
    "apply_spec_augment", "begin_suppress_tokens", "classifier_proj_size", "forced_decoder_ids",
    "lang_ids", "mask_feature_length", "mask_feature_min_masks", "mask_feature_prob",
    "mask_time_length", "mask_time_min_masks", "mask_time_prob", "median_filter_width",
    "scale_embedding", "suppress_ids", "suppress_tokens", "task_ids", "use_weighted_layer_sum",
];

pub(super) fn whisper(c: &Config) -> Result<EncoderDecoder, Diagnostic> {
    begin(c)?;
    c.pass_over(&INERT);
    let (hidden, words) = (c.size("d_model")?, c.size("vocab_size")?);
    let bands = c.optional_size("num_mel_bins")?.unwrap_or(80);
    let heard = c.optional_size("max_source_positions")?.unwrap_or(1500);
    let rows = c.optional_size("max_target_positions")?.unwrap_or(448);
    let positions = Positions::Table { rows, first: 0, is_sinusoidal: false };
    let side = Side { positions, final_norm: Some("layer_norm") };
    let (encoder, decoder) = (stack(c, "encoder", &side)?, stack(c, "decoder", &side)?);
    let size = head(c, "encoder_attention_heads", hidden, encoder.heads)?;
    if head(c, "decoder_attention_heads", hidden, decoder.heads)? != size {
        let why = "which is not supported beside another `encoder_attention_heads`";
        return Err(c.unknown("decoder_attention_heads", why));
    }
    let word = c.word("activation_function")?.unwrap_or("gelu");
    let is_tied = c.flag("tie_word_embeddings", true)?;
    Ok(EncoderDecoder {
        prefixes: &["model."],
        hidden,
        head: size,
        scale: (size as f64).powf(-0.5),
        encoder,
        decoder: crossed(decoder),
        source: Source::Sound { bands, positions: heard },
        words,
        embedding: Embedding { shared: None, scale: 1.0, norm: None },
        norm: Norm { is_rms: false, epsilon: 1e-5, is_first: true },
        activation: activation(c, "activation_function", word)?,
        logits_scale: 1.0,
        lm_head: "proj_out",
        whose_head: if is_tied { Head::OfWords } else { Head::Own },
    })
}
