//! HunYuan: norms of heads behind their turn.

use super::base::{self, Base, LLAMA, NAMES, ROPE};
use crate::config::Config;
use crate::config::rope::plain;
use crate::decoder::{Decoder, HeadNorm, Names};
use crate::diag::Diagnostic;

const HUNYUAN: Base = Base {
    names: Names {
        q_norm: "self_attn.query_layernorm",
        k_norm: "self_attn.key_layernorm",
        ..NAMES
    },
    epsilon: ("rms_norm_eps", 1e-5),
    ..LLAMA
};

pub(super) fn hunyuan(c: &Config) -> Result<Decoder, Diagnostic> {
    // A base that is stretched once and for all, under a name that says otherwise.
    let scaling = c.section("rope_parameters")?.or(c.section("rope_scaling")?);
    let mut alpha = None;
    if let Some(scaling) = &scaling
        && let (new, old) = (scaling.word("rope_type")?, scaling.word("type")?)
        && matches!(new.or(old), Some("dynamic" | "xdrope"))
    {
        alpha = scaling.optional_number("alpha")?.filter(|alpha| *alpha != 0.0);
    }
    let rope = HUNYUAN.rope.filter(|_| alpha.is_none());
    let mut d = base::decoder(c, &Base { rope, ..HUNYUAN })?;
    if let (Some(alpha), Some(scaling)) = (alpha, &scaling) {
        if alpha <= 0.0 || d.head < 4 {
            return Err(scaling.wrong("alpha", "a number above zero"));
        }
        let theta = scaling.optional_number("rope_theta")?;
        let theta = theta.map_or_else(|| c.above_zero("rope_theta", ROPE.theta), Ok)?;
        let size = d.head as f64;
        d.ropes = vec![plain(d.head, theta * alpha.powf(size / (size - 2.0)), ROPE)];
        d.layers.iter_mut().for_each(|layer| layer.rope = Some(0));
        // Fields of other rotations, which the files of this family carry.
        scaling.pass_over(&["beta_fast", "beta_slow", "factor", "mscale", "mscale_all_dim"]);
        c.close(scaling);
    }
    d.attention.head_norm = HeadNorm::Shared;
    d.attention.norm_after_turn = true;
    Ok(d)
}
