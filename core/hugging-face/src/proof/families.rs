//! Formulas of families by `model_type`, from what is known of their models in Transformers.

use super::base::{Base, Defaults, HALVES, LLAMA, NEIGHBOURS, ONE_MORE};
use super::base::{formulas, granite, qwen_windows, window, windows, with_mean};
use super::fields::Fields;
use super::formulas::{Flow, Formulas, Fused, HeadNorm, Mlp, NAMES, Names, Weighted};
use super::mlp::activation;
use super::rotary::{Usual, plain, scaled, turn};
use super::source::Plain;
use super::{experts, latent, older};

/// The formulas of the layers of a `config.json`, in a sequence of so many tokens.
pub(super) fn of(c: &Fields<'_>, tokens: usize) -> Plain<Formulas> {
    let kind = c.word("model_type").unwrap_or_default();
    let base = |d: &Defaults| formulas(c, tokens, d);
    let found = llamas(kind, c, &base).or_else(|| gemmas(kind, c, (&base, tokens)));
    let found = found.or_else(|| side_by_side(kind, c, &base));
    let found = found.or_else(|| with_means(kind, c, &base));
    let found = found.or_else(|| experts::of(kind, c, &base));
    let found = found.or_else(|| latent::of(kind, c, (&base, tokens)));
    found.unwrap_or_else(|| Err(format!("the family `{kind}` has no second implementation")))
}

/// Families near to Llama.
fn llamas(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Option<Plain<Formulas>> {
    let late = Defaults { epsilon: ("rms_norm_eps", 1e-5), ..LLAMA };
    Some(match kind {
        "llama" => base(&LLAMA),
        "arcee" => {
            let found = base(&Defaults { activation: (&["hidden_act"], "relu2"), ..late });
            found.map(|f| Formulas { mlp: UP_DOWN, ..f })
        }
        "ernie4_5" => {
            let turns = Some(Usual { theta: 5e5, ..NEIGHBOURS });
            base(&Defaults { kv_heads: 2, head: Some(128), turns, ..late })
        }
        "seed_oss" => base(&Defaults { kv_heads: 8, head: Some(128), ..LLAMA }),
        "mistral" => mistral(c, base),
        "qwen2" => base(&LLAMA).and_then(|f| qwen_windows(c, f)),
        "qwen3" => {
            let found = base(&Defaults { head: Some(128), ..LLAMA });
            let found = found.and_then(|f| qwen_windows(c, f));
            found.map(|f| Formulas { head_norm: HeadNorm::Alike, ..f })
        }
        "phi3" => base(&late).and_then(|f| {
            let mut f = Formulas { fused: Fused::InTurn, mlp: IN_ONE, ..f };
            windows(c, &mut f, window(c, None), |_| true)?;
            Ok(f)
        }),
        "olmo2" => {
            base(&late).map(|f| Formulas { flow: Flow::Behind, head_norm: HeadNorm::Together, ..f })
        }
        "granite" => base(&LLAMA).map(|f| granite(c, f)),
        "smollm3" => smollm3(c, base),
        "glm" | "glm4" => glm(kind, base),
        "exaone4" => exaone4(c, base, &late),
        "hunyuan_v1_dense" => hunyuan(c, base, late),
        _ => return None,
    })
}

const IN_ONE: Mlp = Mlp::InOne { gate_up: "mlp.gate_up_proj", down: "mlp.down_proj" };
const UP_DOWN: Mlp = Mlp::Plain { up: "mlp.up_proj", down: "mlp.down_proj" };

fn mistral(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let mut f = base(&Defaults { kv_heads: 8, ..LLAMA })?;
    windows(c, &mut f, window(c, Some(4096)), |_| true)?;
    Ok(f)
}

fn smollm3(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    if c.flag("use_sliding_window") == Some(true) {
        return Err("windows of `smollm3` have no second implementation".to_owned());
    }
    let mut f =
        base(&Defaults { kv_heads: 4, turns: Some(Usual { theta: 2e6, ..HALVES }), ..LLAMA })?;
    let every = c.size("no_rope_layer_interval").unwrap_or(4).max(1);
    let said = c.numbers("no_rope_layers");
    for (i, each) in f.each.iter_mut().enumerate() {
        let turns = match &said {
            Some(list) => list.get(i).is_some_and(|flag| *flag != 0.0),
            None => (i + 1) % every != 0,
        };
        each.turn = Some(0).filter(|_| turns);
    }
    Ok(f)
}

fn glm(kind: &str, base: &Base<'_>) -> Plain<Formulas> {
    let turns = Some(Usual { share: 0.5, ..NEIGHBOURS });
    let epsilon = ("rms_norm_eps", 1.5625e-7);
    let d = Defaults { kv_heads: 2, head: Some(128), epsilon, turns, ..LLAMA };
    let f = Formulas { mlp: IN_ONE, ..base(&d)? };
    if kind == "glm" {
        return Ok(f);
    }
    let behind = ["post_self_attn_layernorm", "post_mlp_layernorm"];
    Ok(Formulas { flow: Flow::Between, names: Names { behind, ..NAMES }, ..f })
}

fn exaone4(c: &Fields<'_>, base: &Base<'_>, late: &Defaults) -> Plain<Formulas> {
    let f = base(late)?;
    let mut f = Formulas { flow: Flow::Behind, head_norm: HeadNorm::Alike, ..f };
    let size = window(c, Some(4096));
    let every = c.size("sliding_window_pattern").unwrap_or(4).max(1);
    let near = windows(c, &mut f, size, |i| (i + 1) % every != 0)?;
    for (each, near) in f.each.iter_mut().zip(near) {
        each.turn = Some(0).filter(|_| near || size.is_none());
    }
    Ok(f)
}

fn hunyuan(c: &Fields<'_>, base: &Base<'_>, late: Defaults) -> Plain<Formulas> {
    let scaling = c.inside("rope_parameters").or(c.inside("rope_scaling")).unwrap_or_default();
    let alpha = scaling.number("alpha").filter(|alpha| *alpha != 0.0);
    let word = scaling.word("rope_type").or(scaling.word("type"));
    let alpha = alpha.filter(|_| matches!(word, Some("dynamic" | "xdrope")));
    let names =
        Names { head_norms: ["self_attn.query_layernorm", "self_attn.key_layernorm"], ..NAMES };
    let of = |f| Formulas { head_norm: HeadNorm::Alike, turns_first: true, names, ..f };
    let Some(alpha) = alpha else { return base(&late).map(of) };
    let mut f = of(base(&Defaults { turns: None, ..late })?);
    // The base is stretched once and for all.
    let size = f.head as f64;
    let theta = scaling.number("rope_theta").or(c.number("rope_theta")).unwrap_or(10000.0);
    f.turns =
        vec![plain(f.head, Usual { theta: theta * alpha.powf(size / (size - 2.0)), ..HALVES })];
    f.each.iter_mut().for_each(|each| each.turn = Some(0));
    Ok(f)
}

fn gemmas(
    kind: &str,
    c: &Fields<'_>,
    (base, tokens): (&Base<'_>, usize),
) -> Option<Plain<Formulas>> {
    let activation = (&["hidden_activation", "hidden_act"][..], "gelu_pytorch_tanh");
    let head = Some(256);
    Some(match kind {
        "gemma" => gemma(c, base, Defaults { kv_heads: 16, head, activation, ..LLAMA }),
        "gemma2" => {
            later(c, base, Defaults { kv_heads: 4, head, activation, ..LLAMA }).and_then(|mut f| {
                let cap = c.number("attn_logit_softcapping");
                f.cap = if c.has("attn_logit_softcapping") { cap } else { Some(50.0) };
                windows(c, &mut f, window(c, Some(4096)), |i| i % 2 == 0)?;
                Ok(f)
            })
        }
        "gemma3_text" => {
            let d = Defaults { kv_heads: 4, head, activation, turns: None, ..LLAMA };
            later(c, base, d).and_then(|f| gemma3(c, f, tokens))
        }
        _ => return None,
    })
}

fn gemma(c: &Fields<'_>, base: &Base<'_>, d: Defaults) -> Plain<Formulas> {
    let mut f = base(&d)?;
    f.norm.weighted = ONE_MORE;
    if c.word("hidden_activation").is_none() && c.word("hidden_act") == Some("gelu") {
        f.activation = activation("gelu_pytorch_tanh")?;
    }
    Ok(f)
}

fn later(c: &Fields<'_>, base: &Base<'_>, d: Defaults) -> Plain<Formulas> {
    let mut f = base(&d)?;
    f.norm.weighted = ONE_MORE;
    f.flow = Flow::Between;
    f.names.mlp_norm = "pre_feedforward_layernorm";
    f.scale = c.number("query_pre_attn_scalar").unwrap_or(256.0).sqrt().recip();
    Ok(f)
}

/// Layers with a window turn by another base, without scaling.
fn gemma3(c: &Fields<'_>, mut f: Formulas, tokens: usize) -> Plain<Formulas> {
    let full = Usual { theta: 1e6, ..HALVES };
    let near = Usual { theta: c.number("rope_local_base_freq").unwrap_or(10000.0), ..HALVES };
    let kinds = c.inside("rope_parameters").map(|new| {
        ["full_attention", "sliding_attention"].map(|kind| new.inside(kind).unwrap_or_default())
    });
    f.turns = match kinds {
        Some([of_full, of_near]) => vec![
            scaled(c, &of_full, f.head, full, tokens)?,
            scaled(&Fields::default(), &of_near, f.head, Usual { theta: 10000.0, ..near }, tokens)?,
        ],
        None => vec![turn(c, f.head, full, tokens)?, plain(f.head, near)],
    };
    f.head_norm = HeadNorm::Alike;
    f.cap = c.number("attn_logit_softcapping");
    let every = c.size("sliding_window_pattern").or(c.size("_sliding_window_pattern"));
    let every = every.unwrap_or(6).max(1);
    let near = windows(c, &mut f, window(c, Some(4096)), |i| (i + 1) % every != 0)?;
    for (each, near) in f.each.iter_mut().zip(near) {
        each.turn = Some(usize::from(near));
    }
    Ok(f)
}

/// Families with two branches of one sum, and norms that subtract the mean.
fn side_by_side(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Option<Plain<Formulas>> {
    Some(match kind {
        "phi" => phi(c, base),
        "gpt_neox" => older::gpt_neox(c, base),
        "gptj" | "codegen" => older::gptj(kind, c, base),
        "falcon" => older::falcon(c, base),
        "cohere" | "cohere2" => cohere(kind, c, base),
        "stablelm" => stablelm(c, base),
        _ => return None,
    })
}

fn phi(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let d = Defaults {
        epsilon: ("layer_norm_eps", 1e-5),
        activation: (&["hidden_act"], "gelu_new"),
        turns: Some(Usual { share: 0.5, ..HALVES }),
        ..LLAMA
    };
    let has_norms = c.flag("qk_layernorm") == Some(true);
    let names = Names {
        o: "self_attn.dense",
        head_norms: ["self_attn.q_layernorm", "self_attn.k_layernorm"],
        ..NAMES
    };
    Ok(Formulas {
        flow: Flow::Side,
        head_norm: if has_norms { HeadNorm::Alike } else { HeadNorm::No },
        mlp: Mlp::Plain { up: "mlp.fc1", down: "mlp.fc2" },
        names,
        ..with_mean(base(&d)?)
    })
}

fn cohere(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let epsilon = ("layer_norm_eps", 1e-5);
    let f = with_mean(base(&Defaults { epsilon, turns: Some(NEIGHBOURS), ..LLAMA })?);
    let mut f = Formulas { flow: Flow::Side, ..f };
    if kind == "cohere" {
        let has_norms = c.flag("use_qk_norm") == Some(true);
        f.head_norm = if has_norms { HeadNorm::Own } else { HeadNorm::No };
        return Ok(f);
    }
    let every = c.size("sliding_window_pattern").or(c.size("_sliding_window_pattern"));
    let (every, size) = (every.unwrap_or(4).max(1), window(c, Some(4096)));
    let near = windows(c, &mut f, size, |i| (i + 1) % every != 0)?;
    for (each, near) in f.each.iter_mut().zip(near) {
        each.turn = Some(0).filter(|_| near && size.is_some());
    }
    Ok(f)
}

fn stablelm(c: &Fields<'_>, base: &Base<'_>) -> Plain<Formulas> {
    let epsilon = ("layer_norm_eps", 1e-5);
    let turns = Some(Usual { share: 0.25, ..HALVES });
    let f = with_mean(base(&Defaults { epsilon, turns, ..LLAMA })?);
    let is_side = c.flag("use_parallel_residual") == Some(true);
    let has_norms = c.flag("qk_layernorm") == Some(true);
    let names = Names { head_norms: ["self_attn.q_layernorm", "self_attn.k_layernorm"], ..NAMES };
    Ok(Formulas {
        flow: if is_side { Flow::Side } else { Flow::Serial },
        head_norm: if has_norms { HeadNorm::Listed } else { HeadNorm::No },
        names,
        ..f
    })
}

/// Families with norms that subtract the mean, one branch after the other.
fn with_means(kind: &str, c: &Fields<'_>, base: &Base<'_>) -> Option<Plain<Formulas>> {
    Some(match kind {
        "olmo" => base(&Defaults { epsilon: ("", 1e-5), ..LLAMA }).map(|f| {
            let mut f = Formulas { clip: c.number("clip_qkv"), ..with_mean(f) };
            f.norm.weighted = Weighted::No;
            f
        }),
        "nemotron" => base(&Defaults {
            epsilon: ("norm_eps", 1e-5),
            activation: (&["hidden_act"], "relu2"),
            turns: Some(Usual { share: 0.5, ..HALVES }),
            ..LLAMA
        })
        .map(|f| {
            let mut f = Formulas { mlp: UP_DOWN, ..with_mean(f) };
            f.norm.weighted = ONE_MORE;
            f
        }),
        "starcoder2" => base(&Defaults {
            kv_heads: 2,
            epsilon: ("norm_epsilon", 1e-5),
            activation: (&["hidden_act"], "gelu_pytorch_tanh"),
            ..LLAMA
        })
        .and_then(|f| {
            let mlp = Mlp::Plain { up: "mlp.c_fc", down: "mlp.c_proj" };
            let mut f = Formulas { mlp, ..with_mean(f) };
            windows(c, &mut f, window(c, None), |_| true)?;
            Ok(f)
        }),
        _ => return older::of(kind, c, base),
    })
}
