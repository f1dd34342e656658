//! Phi, whose branches are parallel, and Phi 3, whose weights are fused.

use super::base::{self, Base, LLAMA, NAMES, ROPE, set_windows, window};
use crate::config::Config;
use crate::config::rope::Defaults;
use crate::decoder::{Decoder, Fused, HeadNorm, MlpKind, Names, NormKind, Order};
use crate::diag::Diagnostic;

const PHI: Base = Base {
    names: Names {
        o: "self_attn.dense",
        q_norm: "self_attn.q_layernorm",
        k_norm: "self_attn.k_layernorm",
        up: "mlp.fc1",
        down: "mlp.fc2",
        final_norm: "final_layernorm",
        ..NAMES
    },
    norm: NormKind::Layer,
    epsilon: ("layer_norm_eps", 1e-5),
    activation: (&["hidden_act"], "gelu_new"),
    mlp: MlpKind::Plain,
    rope: Some(Defaults { share: 0.5, ..ROPE }),
    ..LLAMA
};

pub(super) fn phi(c: &Config) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &PHI)?;
    d.order = Order::Parallel { norms: 1 };
    if c.flag("qk_layernorm", false)? {
        d.attention.head_norm = HeadNorm::Shared;
    }
    Ok(d)
}

pub(super) fn phi3(c: &Config) -> Result<Decoder, Diagnostic> {
    let base = Base { mlp: MlpKind::GatedInOne, epsilon: ("rms_norm_eps", 1e-5), ..LLAMA };
    let mut d = base::decoder(c, &base)?;
    let is_scaled = c.get("rope_scaling").or(c.get("rope_parameters")).is_some();
    if is_scaled && c.get("original_max_position_embeddings").is_none() {
        // Transformers has a default, which files of this family do not rely on.
        let sections = [c.section("rope_scaling")?, c.section("rope_parameters")?];
        let long = |section: &Config| section.get("long_factor").is_some();
        let has = |section: &Config| section.has("original_max_position_embeddings");
        if sections.iter().flatten().any(|section| long(section) && !has(section)) {
            return Err(c.wrong("original_max_position_embeddings", "a size"));
        }
    }
    // The first one counts only where angles are scaled; Transformers does not read the others.
    c.pass_over(&["original_max_position_embeddings", "full_attn_mod", "interpolate_factor"]);
    c.only("lm_head_bias", false)?;
    d.attention.fused = Fused::InTurn;
    set_windows(c, &mut d, window(c, None)?, |_| true)?;
    Ok(d)
}
