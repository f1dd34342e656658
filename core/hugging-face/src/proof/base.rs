//! What formulas of families begin with: Llama's by defaults of a family, and what several families have in common.

use super::fields::Fields;
use super::formulas::{Each, Flow, Formulas, Fused, GATED, HeadNorm, NAMES, Norm, RMS, Weighted};
use super::mlp::activation;
use super::packed::packing;
use super::rotary::{Usual, turn};
use super::source::Plain;

/// Layers, and elements of a token, that have formulas.
const LAYERS_MAX: usize = 1 << 12;
const HIDDEN_MAX: usize = 1 << 20;

/// Where to look for what a family says in fields of its own.
#[derive(Clone, Copy)]
pub(super) struct Defaults {
    /// Fields of sizes, of which the first one that is there counts.
    pub(super) hidden: &'static [&'static str],
    pub(super) heads: &'static [&'static str],
    pub(super) layers: &'static [&'static str],
    /// Heads of keys where the file does not say; as many as heads where this is 0.
    pub(super) kv_heads: usize,
    /// Whether heads may share keys.
    pub(super) shares_keys: bool,
    pub(super) head: Option<usize>,
    pub(super) epsilon: (&'static str, f64),
    pub(super) activation: (&'static [&'static str], &'static str),
    /// How heads turn, if they do.
    pub(super) turns: Option<Usual>,
}

pub(super) const HALVES: Usual = Usual { theta: 10000.0, share: 1.0, neighbours: false };
pub(super) const NEIGHBOURS: Usual = Usual { neighbours: true, ..HALVES };

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
pub(super) const ONE_MORE: Weighted = Weighted::ByOneMore;

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

/// Makes formulas with defaults.
pub(super) type Base<'a> = dyn Fn(&Defaults) -> Plain<Formulas> + 'a;

/// Llama with such defaults, in a sequence of so many tokens.
pub(super) fn formulas(c: &Fields<'_>, tokens: usize, d: &Defaults) -> Plain<Formulas> {
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

/// The norm of families that subtract the mean, with the epsilon that was read.
pub(super) fn with_mean(f: Formulas) -> Formulas {
    Formulas { norm: Norm { epsilon: f.norm.epsilon, ..LAYER_NORM }, ..f }
}
