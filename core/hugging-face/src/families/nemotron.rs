//! Nemotron: LayerNorm by 1 + w, half of each head turns, and the MLP squares.

use super::base::{self, Base, LLAMA, ROPE};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, MlpKind, NormKind};
use crate::diag::Diagnostic;

const NEMOTRON: Base = Base {
    norm: NormKind::Layer,
    epsilon: ("norm_eps", 1e-5),
    activation: (&["hidden_act"], "relu2"),
    mlp: MlpKind::Plain,
    rope: Some(Defaults { share: 0.5, ..ROPE }),
    ..LLAMA
};

pub(super) fn nemotron(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &NEMOTRON)?;
    d.norm.plus_one = true;
    Ok(d)
}
