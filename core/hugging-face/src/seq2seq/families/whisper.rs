//! Whisper: an encoder of sound, and BART's decoder with norms before branches. Queries, values and outputs have
//! biases; keys have none.

use super::bart::base;
use super::begin;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::seq2seq::{EncoderDecoder, Positions, Source};

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
    let bands = c.optional_size("num_mel_bins")?.unwrap_or(80);
    let heard = c.optional_size("max_source_positions")?.unwrap_or(1500);
    let rows = c.optional_size("max_target_positions")?.unwrap_or(448);
    let positions = Positions::Table { rows, first: 0, is_sinusoidal: false };
    Ok(EncoderDecoder {
        source: Source::Sound { bands, positions: heard },
        lm_head: "proj_out",
        ..base(c, positions, true)?
    })
}
