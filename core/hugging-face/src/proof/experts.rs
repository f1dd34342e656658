//! Formulas of families whose tokens go to some of many experts.

use super::base::{Base, Defaults, HALVES, LLAMA, granite, qwen_windows, window, windows};
use super::fields::Fields;
use super::formulas::{ExpertWeights, Experts, Formulas, HeadNorm};
use super::rotary::Usual;
use super::source::Plain;

pub(super) fn of(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Option<Plain<Formulas>> {
    Some(match kind {
        "mixtral" => mixtral(c, base),
        "qwen2_moe" => base(&LLAMA).and_then(|f| qwen_windows(c, f)).map(|f| {
            let shared = Some([
                "mlp.shared_expert_gate", "mlp.shared_expert.gate_proj",
                "mlp.shared_expert.up_proj", "mlp.shared_expert.down_proj",
            ]);
            let divided = c.flag("norm_topk_prob").unwrap_or(false);
            let experts = Experts { divided, shared, ..mlp_experts(c, [60, 4]) };
            some_layers(c, Formulas { experts: Some(experts), ..f })
        }),
        "qwen3_moe" => qwen3_moe(c, base),
        "olmoe" => olmoe(c, base),
        "granitemoe" => base(&LLAMA).map(|f| granitemoe(c, f)),
        _ => return None,
    })
}

/// Sizes by their fields, with what they are where these are absent.
fn mlp_experts(c: &Fields<'_>, [count, chosen]: [usize; 2]) -> Experts {
    Experts {
        count: c.size("num_experts").or(c.size("num_local_experts")).unwrap_or(count),
        chosen: c.size("num_experts_per_tok").unwrap_or(chosen),
        divided: true,
        router: "mlp.gate",
        weights: ExpertWeights::Each(["mlp.experts", "gate_proj", "up_proj", "down_proj"]),
        shared: None,
    }
}

/// Layers that have no experts are told by their numbers, and by a step.
fn some_layers(c: &Fields<'_>, mut f: Formulas) -> Formulas {
    let dense = c.numbers("mlp_only_layers").unwrap_or_default();
    let step = c.size("decoder_sparse_step").unwrap_or(1).max(1);
    for (i, each) in f.each.iter_mut().enumerate() {
        each.has_experts = !dense.contains(&(i as f64)) && (i + 1) % step == 0;
    }
    f
}

fn mixtral(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let mut f = base(&mixtral_defaults())?;
    let weights = ExpertWeights::Each(["block_sparse_moe.experts", "w1", "w3", "w2"]);
    let router = "block_sparse_moe.gate";
    let count = c.size("num_local_experts").unwrap_or(8);
    f.experts = Some(Experts { count, weights, router, ..mlp_experts(c, [8, 2]) });
    for each in &mut f.each {
        each.has_experts = true;
        each.window = c.size("sliding_window");
    }
    Ok(f)
}

fn mixtral_defaults() -> Defaults {
    let usual = Usual { theta: 1e6, ..HALVES };
    LLAMA.with_keys(8).with_epsilon(("rms_norm_eps", 1e-5)).turning(Some(usual))
}

/// Windows, if they are used, are those of all layers.
fn qwen3_moe(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let f = base(&LLAMA.with_keys(4))?;
    let divided = c.flag("norm_topk_prob").unwrap_or(false);
    let experts = Some(Experts { divided, ..mlp_experts(c, [128, 8]) });
    let mut f = some_layers(c, Formulas { experts, head_norm: HeadNorm::Alike, ..f });
    if c.flag("use_sliding_window") == Some(true) {
        let window = window(c, Some(4096));
        windows(c, &mut f, window, |_| true)?;
    }
    Ok(f)
}

/// The greatest scores make the shares, which is the same as to divide shares of all by the sum of the greatest.
fn granitemoe(c: &Fields<'_>, f: Formulas) -> Formulas {
    let weights =
        ExpertWeights::Stacked(["block_sparse_moe.input_linear", "block_sparse_moe.output_linear"]);
    let count = c.size("num_local_experts").unwrap_or(8);
    let router = "block_sparse_moe.router.layer";
    let experts = Experts { count, weights, router, ..mlp_experts(c, [8, 2]) };
    let mut f = granite(c, Formulas { experts: Some(experts), ..f });
    f.each.iter_mut().for_each(|each| each.has_experts = true);
    f
}

fn olmoe(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let f = base(&LLAMA.with_epsilon(("rms_norm_eps", 1e-5)))?;
    let divided = c.flag("norm_topk_prob").unwrap_or(false);
    let experts = Some(Experts { divided, ..mlp_experts(c, [64, 8]) });
    let clip = c.number("clip_qkv");
    let mut f = Formulas { experts, clip, head_norm: HeadNorm::Together, ..f };
    f.each.iter_mut().for_each(|each| each.has_experts = true);
    Ok(f)
}
