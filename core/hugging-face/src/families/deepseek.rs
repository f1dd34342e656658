//! DeepSeek 2 and 3: keys and values from small vectors, and groups of experts behind dense layers.

use super::base::{self, Base, HEADS_MAX, LLAMA, ROPE};
use super::moe::each;
use crate::config::Config;
use crate::config::rope::{Defaults, rope};
use crate::decoder::{Decoder, Experts, Latent, Router};
use crate::diag::Diagnostic;

/// What both have in common; the router is that of `router`.
fn common(c: &Config, is_corrected: bool, divided: bool) -> Result<Decoder, Diagnostic> {
    let mut d = base::decoder(c, &Base { rope: None, ..LLAMA })?;
    let turning = c.size("qk_rope_head_dim")?;
    if turning > HEADS_MAX {
        return Err(c.wrong("qk_rope_head_dim", &format!("{HEADS_MAX} at most")));
    }
    d.kv_heads = d.heads;
    d.head = c.size("qk_nope_head_dim")? + turning;
    d.value = c.size("v_head_dim")?;
    c.pass_over(&["qk_head_dim", "ep_size"]);
    let (query, keys) = (c.optional_size("q_lora_rank")?, c.size("kv_lora_rank")?);
    d.attention.latent = Some(Latent { query, keys, turning });
    d.attention.scale = (d.head as f64).powf(-0.5);
    d.ropes = vec![rope(c, turning, Defaults { interleaved: true, ..ROPE })?];
    d.layers.iter_mut().for_each(|layer| layer.rope = Some(0));
    if c.optional_size("moe_layer_freq")?.is_some_and(|every| every != 1) {
        return Err(c.unknown("moe_layer_freq", "and only 1 is known"));
    }
    let Some(count) = c.optional_size("n_routed_experts")? else { return Ok(d) };
    // A field that is absent is what Transformers says of the third version; a null is none.
    let or = |key: &str, default| match is_corrected && !c.has(key) {
        true => Ok(Some(default)),
        false => c.optional_size(key),
    };
    let (groups, best) = (or("n_group", 8)?.unwrap_or(1), or("topk_group", 4)?.unwrap_or(1));
    if count % groups != 0 || best > groups || (is_corrected && count / groups < 2 && best < groups)
    {
        return Err(c.wrong("n_group", &format!("groups of equal size of the {count} experts")));
    }
    let chosen =
        or("num_experts_per_tok", 8)?.ok_or_else(|| c.wrong("num_experts_per_tok", "a size"))?;
    if chosen > count {
        return Err(c.wrong(
            "num_experts_per_tok",
            &format!("{count} at most, which is how many there are"),
        ));
    }
    let scale = c.number("routed_scaling_factor", if is_corrected { 2.5 } else { 1.0 })?;
    let inner = c.size("moe_intermediate_size")?;
    let shared = or("n_shared_experts", 1)?.map(|n| ("mlp.shared_experts", n * inner, ""));
    d.mlp.experts = Some(Experts {
        count,
        chosen,
        inner,
        router: Router::Grouped { groups, chosen: best, is_corrected, divided, scale },
        router_name: "mlp.gate",
        weights: each([
            "mlp.experts.*.gate_proj", "mlp.experts.*.up_proj", "mlp.experts.*.down_proj",
        ]),
        shared,
    });
    let dense = c.number("first_k_dense_replace", if is_corrected { 3.0 } else { 0.0 })?;
    for (i, layer) in d.layers.iter_mut().enumerate() {
        layer.has_experts = i as f64 >= dense;
    }
    Ok(d)
}

pub(super) fn deepseek_v2(c: &Config) -> Result<Decoder, Diagnostic> {
    c.only("norm_topk_prob", false)?;
    c.only_word("scoring_func", "softmax")?;
    let mut d = common(c, false, false)?;
    let by_groups = match c.word("topk_method")? {
        None | Some("greedy") => false,
        Some("group_limited_greedy") => true,
        Some(_) => {
            return Err(c.unknown("topk_method", "which is no choice of experts that is known"));
        }
    };
    if let Some(Experts { router: Router::Grouped { groups, chosen, .. }, .. }) = &mut d.mlp.experts
        && !by_groups
    {
        (*groups, *chosen) = (1, 1);
    }
    if scale_by_length(c)? != 1.0 {
        c.note(
            "`mscale_all_dim` does not change the scale of scores, as in Transformers 4.57 and 5.24. \
             Releases from July 2026 on multiply it, as that of DeepSeek 3.",
        );
    }
    Ok(d)
}

pub(super) fn deepseek_v3(c: &Config) -> Result<Decoder, Diagnostic> {
    c.pass_over(&["topk_method", "num_nextn_predict_layers"]);
    c.only_word("scoring_func", "sigmoid")?;
    c.only("rope_interleave", true)?;
    let mut d = common(c, true, c.flag("norm_topk_prob", true)?)?;
    d.attention.scale *= scale_by_length(c)?;
    Ok(d)
}

/// What scores are multiplied by where sequences are longer than those of training.
fn scale_by_length(c: &Config) -> Result<f64, Diagnostic> {
    let scaling = c.section("rope_parameters")?.or(c.section("rope_scaling")?);
    let Some(scaling) = scaling else { return Ok(1.0) };
    let (factor, all) = (scaling.number("factor", 1.0)?, scaling.number("mscale_all_dim", 0.0)?);
    Ok(if factor > 1.0 { (0.1 * all * factor.ln() + 1.0).powi(2) } else { 1.0 })
}
