//! Llama itself, and families that differ in a name or a number.

use super::base::{self, Base, LLAMA, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, MlpKind};
use crate::diag::Diagnostic;

pub(super) fn llama(c: &Config) -> Result<Decoder, Diagnostic> {
    // A tool says what Transformers does anyway.
    c.only("rope_interleaved", false)?;
    base::decoder(c, &LLAMA)
}

/// The MLP has no gate.
pub(super) fn arcee(c: &Config) -> Result<Decoder, Diagnostic> {
    let activation = (&["hidden_act"][..], "relu2");
    base::decoder(
        c,
        &Base { mlp: MlpKind::Plain, activation, epsilon: ("rms_norm_eps", 1e-5), ..LLAMA },
    )
}

/// Neighbours turn.
pub(super) fn ernie4_5(c: &Config) -> Result<Decoder, Diagnostic> {
    let rope = Some(Defaults { theta: 500000.0, interleaved: true, ..ROPE });
    let (epsilon, head, kv_heads) = (("rms_norm_eps", 1e-5), Some(128), Some(2));
    base::decoder(c, &Base { rope, epsilon, head, kv_heads, is_tied: true, ..LLAMA })
}

pub(super) fn seed_oss(c: &Config) -> Result<Decoder, Diagnostic> {
    c.pass_over(&["residual_dropout"]);
    base::decoder(c, &Base { head: Some(128), kv_heads: Some(8), ..LLAMA })
}
