//! OLMo: norms without weights and bounded heads; OLMo 2: norms behind the branches.

use super::base::{self, Base, LLAMA};
use crate::config::Config;
use crate::decoder::{Decoder, HeadNorm, NormKind, Order};
use crate::diag::Diagnostic;

pub(super) fn olmo(c: &Config) -> Result<Decoder, Diagnostic> {
    // The file has no say in the epsilon.
    let mut d = base::decoder(c, &Base { norm: NormKind::Bare, epsilon: ("", 1e-5), ..LLAMA })?;
    d.attention.clip = c.optional_number("clip_qkv")?;
    Ok(d)
}

pub(super) fn olmo2(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { epsilon: ("rms_norm_eps", 1e-5), ..LLAMA })?;
    d.order = Order::After;
    d.attention.head_norm = HeadNorm::Whole;
    Ok(d)
}
