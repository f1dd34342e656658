//! StarCoder 2: LayerNorm, and an MLP without a gate.

use super::base::{self, Base, LLAMA, NAMES, set_windows, window};
use crate::config::Config;
use crate::decoder::{Decoder, MlpKind, Names, NormKind};
use crate::diag::Diagnostic;

const STARCODER2: Base = Base {
    names: Names { up: "mlp.c_fc", down: "mlp.c_proj", ..NAMES },
    norm: NormKind::Layer,
    epsilon: ("norm_epsilon", 1e-5),
    activation: (&["hidden_act"], "gelu_pytorch_tanh"),
    mlp: MlpKind::Plain,
    kv_heads: Some(2),
    is_tied: true,
    ..LLAMA
};

pub(super) fn starcoder2(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &STARCODER2)?;
    // Transformers reads `hidden_act` and `norm_epsilon`.
    c.pass_over(&["activation_function", "layer_norm_epsilon"]);
    c.only_word("mlp_type", "default")?;
    c.only_word("norm_type", "layer_norm")?;
    c.only("scale_attn_weights", true)?;
    set_windows(c, &mut d, window(c, None)?, |_| true)?;
    Ok(d)
}
