//! Formulas of families by `model_type`, from what is known of their models in Transformers.

use super::fields::Fields;
use super::formulas::{Each, Flow, Formulas, Fused, HeadNorm, NAMES, Names, RMS};
use super::mlp::{GATED, Mlp, activation};
use super::norm::{Norm, Weighted};
use super::packed::packing;
use super::rotary::{Usual, plain, scaled, turn};
use super::source::Plain;

/// Layers, and elements of a token, that have formulas.
const LAYERS_MAX: usize = 1 << 12;
const HIDDEN_MAX: usize = 1 << 20;

/// Where to look for what a family says in fields of its own.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    /// Fields of sizes, of which the first one that is there counts.
    hidden: &'static [&'static str],
    heads: &'static [&'static str],
    layers: &'static [&'static str],
    /// Heads of keys where the file does not say; as many as heads where this is 0.
    kv_heads: usize,
    /// Whether heads may share keys.
    shares_keys: bool,
    head: Option<usize>,
    epsilon: (&'static str, f64),
    activation: (&'static [&'static str], &'static str),
    /// How heads turn, if they do.
    turns: Option<Usual>,
}

const HALVES: Usual = Usual { theta: 10000.0, share: 1.0, neighbours: false };
const NEIGHBOURS: Usual = Usual { neighbours: true, ..HALVES };

pub(super) const LLAMA: Defaults = Defaults {
    hidden: &["hidden_size", "n_embd", "d_model", "n_embed"],
    heads: &["num_attention_heads", "n_head", "n_heads", "num_heads"],
    layers: &["num_hidden_layers", "n_layer", "n_layers", "num_layers"],
    kv_heads: 0,
    shares_keys: true,
    head: None,
    epsilon: ("rms_norm_eps", 1e-6),
    activation: (&["hidden_act"], "silu"),
    turns: Some(HALVES),
};

const LAYER_NORM: Norm = Norm { subtracts_mean: true, weighted: Weighted::By, epsilon: 1e-5 };
const ONE_MORE: Weighted = Weighted::ByOneMore;

/// Llama with such defaults, in a sequence of so many tokens.
fn formulas(c: &Fields<'_>, tokens: usize, d: &Defaults) -> Plain<Formulas> {
    let size = |keys: &[&str]| {
        let found = keys.iter().find_map(|key| c.size(key)).filter(|size| *size > 0);
        found.ok_or_else(|| format!("`{}` is no size", keys[0]))
    };
    let (hidden, heads, layers) = (size(d.hidden)?, size(d.heads)?, size(d.layers)?);
    if layers > LAYERS_MAX || hidden > HIDDEN_MAX {
        return Err(format!("there are {layers} layers of {hidden} elements"));
    }
    let usual = if d.kv_heads == 0 { heads } else { d.kv_heads };
    let kv_heads = match d.shares_keys {
        true if c.has("num_key_value_heads") => c.size("num_key_value_heads").unwrap_or(heads),
        true => usual,
        false => heads,
    };
    let usual = d.head.filter(|_| !c.has("head_dim"));
    let head = c.size("head_dim").or(usual).unwrap_or(hidden / heads);
    let turns = d.turns.map(|usual| turn(c, head, usual, tokens)).transpose()?;
    let (keys, usual) = d.activation;
    let word = keys.iter().find_map(|key| c.word(key)).unwrap_or(usual);
    let epsilon = c.number(d.epsilon.0).unwrap_or(d.epsilon.1);
    let each = Each { turn: turns.as_ref().map(|_| 0), ..Each::default() };
    Ok(Formulas {
        hidden,
        heads,
        kv_heads,
        head,
        value: head,
        latent: None,
        norm: Norm { epsilon, ..RMS },
        flow: Flow::Serial,
        residual: 1.0,
        fused: Fused::No,
        head_norm: HeadNorm::No,
        turns_first: false,
        scale: (head as f64).sqrt().recip(),
        by_layer: false,
        cap: None,
        clip: None,
        alibi: 0.0,
        turns: turns.into_iter().collect(),
        cache_has_halves: false,
        each: vec![each; layers],
        mlp: GATED,
        experts: None,
        activation: activation(word)?,
        rows_are_inputs: false,
        packing: packing(c)?,
        names: NAMES,
    })
}

/// A window that the family has where the file does not speak of it.
pub(super) fn window(c: &Fields<'_>, usual: Option<usize>) -> Option<usize> {
    if c.has("sliding_window") { c.size("sliding_window") } else { usual }
}

/// Gives a window to layers as `layer_types` says, or else `near`; whether each has one.
pub(super) fn windows(
    c: &Fields<'_>,
    f: &mut Formulas,
    window: Option<usize>,
    near: impl Fn(usize) -> bool,
) -> Plain<Vec<bool>> {
    let all: Vec<bool> = match c.words("layer_types") {
        Some(kinds) => kinds.iter().map(|kind| *kind == "sliding_attention").collect(),
        None => (0..f.each.len()).map(near).collect(),
    };
    if all.len() != f.each.len() {
        return Err("`layer_types` has not a word for each layer".to_owned());
    }
    for (each, near) in f.each.iter_mut().zip(&all) {
        each.window = window.filter(|_| *near);
    }
    Ok(all)
}

/// The formulas of the layers of a `config.json`, in a sequence of so many tokens.
pub(super) fn of(c: &Fields<'_>, tokens: usize) -> Plain<Formulas> {
    let kind = c.word("model_type").unwrap_or_default();
    let base = |d: &Defaults| formulas(c, tokens, d);
    let found = llamas(kind, c, &base).or_else(|| gemmas(kind, c, (&base, tokens)));
    let found = found.or_else(|| side_by_side(kind, c, &base));
    let found = found.or_else(|| with_means(kind, c, &base));
    let found = found.or_else(|| super::experts::of(kind, c, &base));
    let found = found.or_else(|| super::latent::of(kind, c, (&base, tokens)));
    found.unwrap_or_else(|| Err(format!("the family `{kind}` has no second implementation")))
}

/// Makes formulas with defaults.
pub(super) type Base<'a> = dyn Fn(&Defaults) -> Plain<Formulas> + 'a;

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

/// Windows of late layers, if they are used.
pub(super) fn qwen_windows(c: &Fields<'_>, mut f: Formulas) -> Plain<Formulas> {
    let is_used = c.flag("use_sliding_window").unwrap_or(false);
    let first = c.number("max_window_layers").unwrap_or(28.0);
    let size = window(c, Some(4096)).filter(|_| is_used);
    windows(c, &mut f, size, |i| i as f64 >= first)?;
    Ok(f)
}

/// Multiplies scores and branches by numbers of the file.
pub(super) fn granite(c: &Fields<'_>, f: Formulas) -> Formulas {
    Formulas {
        scale: c.number("attention_multiplier").unwrap_or(1.0),
        residual: c.number("residual_multiplier").unwrap_or(1.0),
        ..f
    }
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
        "gpt_neox" => super::older::gpt_neox(c, base),
        "gptj" | "codegen" => super::older::gptj(kind, c, base),
        "falcon" => super::older::falcon(c, base),
        "cohere" | "cohere2" => cohere(kind, c, base),
        "stablelm" => stablelm(c, base),
        _ => return None,
    })
}

/// The norm of such a family, with the epsilon that was read.
pub(super) fn with_mean(f: Formulas) -> Formulas {
    Formulas { norm: Norm { epsilon: f.norm.epsilon, ..LAYER_NORM }, ..f }
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
        _ => return super::older::of(kind, c, base),
    })
}

pub(super) fn later_turns() -> Usual {
    HALVES
}

impl Defaults {
    /// Those of families before Llama: their own names of fields, heads that share no keys, no rotation.
    pub(super) fn older(activation: (&'static [&'static str], &'static str)) -> Defaults {
        Defaults {
            shares_keys: false,
            epsilon: ("layer_norm_epsilon", 1e-5),
            activation,
            turns: None,
            ..LLAMA
        }
    }

    pub(super) fn turning(self, turns: Option<Usual>) -> Defaults {
        Defaults { turns, ..self }
    }

    pub(super) fn with_epsilon(self, epsilon: (&'static str, f64)) -> Defaults {
        Defaults { epsilon, ..self }
    }

    pub(super) fn with_keys(self, kv_heads: usize) -> Defaults {
        Defaults { kv_heads, ..self }
    }
}
