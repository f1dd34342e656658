//! Mamba and Mamba 2: no attention, but a state in each layer.

use super::base::{ATTENTION, NAMES};
use crate::config::Config;
use crate::decoder::{
    Decoder, DecoderLayer, Embedding, Logits, Mixer, Mlp, MlpKind, Names, Norm, NormKind, Order,
    StateKind, StateSpace,
};
use crate::diag::Diagnostic;
use crate::fields;
use crate::layers::Activation;
use serde_json::Value;

const MAMBA: Names = Names {
    prefixes: &["backbone."],
    embedding: "embeddings",
    norm: "norm",
    final_norm: "norm_f",
    ..NAMES
};

/// Fields of how weights begin, and of how Transformers computes.
const PASSED: [&str; 16] = [
    "n_layer", "d_model", "d_inner", "fused_add_norm", "pad_vocab_size_multiple", "ssm_cfg",
    "rms_norm", "rescale_prenorm_residual", "residual_in_fp32", "use_associative_scan",
    "time_step_floor", "time_step_init_scheme", "time_step_max", "time_step_min",
    "time_step_scale", "use_mambapy",
];

pub(super) fn mamba(c: &Config) -> Result<Decoder, Diagnostic> {
    described(c, None)
}

/// What follows from the input is normed.
pub(super) fn falcon_mamba(c: &Config) -> Result<Decoder, Diagnostic> {
    c.pass_over(&["use_falcon_mambapy"]);
    described(c, Some(c.number("mixer_rms_eps", 1e-6)?))
}

fn described(c: &Config, norm: Option<f64>) -> Result<Decoder, Diagnostic> {
    c.pass_over(&PASSED);
    // Biases are used wherever the checkpoint has them.
    c.pass_over(&["use_bias", "use_conv_bias"]);
    let hidden = fields::size(c, "hidden_size", 768)?;
    let taps = taps(c)?;
    let rank = match c.get("time_step_rank").and_then(Value::as_str) {
        Some("auto") => hidden.div_ceil(16),
        _ => fields::size(c, "time_step_rank", hidden.div_ceil(16))?,
    };
    let state = StateSpace {
        name: "mixer",
        kind: StateKind::Channels { rank, norm },
        inner: inner(c, hidden)?,
        size: fields::size(c, "state_size", 16)?,
        taps,
        activation: fields::activation(c, "hidden_act", Activation::Silu)?,
    };
    decoder(c, hidden, state, (32, true))
}

/// Heads share rates of decay.
pub(super) fn mamba2(c: &Config) -> Result<Decoder, Diagnostic> {
    c.pass_over(&PASSED);
    c.pass_over(&["use_bias", "use_conv_bias", "chunk_size", "time_step_rank", "norm_before_gate"]);
    let hidden = fields::size(c, "hidden_size", 4096)?;
    let epsilon = c.number("layer_norm_epsilon", 1e-5)?;
    let groups = fields::size(c, "n_groups", 8)?;
    if groups > 1 {
        c.note(format!(
            "What comes out of a state is normed over all {groups} groups (`n_groups`) together, as \
             Transformers does it. The package `mamba_ssm` norms each group by itself.",
        ));
    }
    let heads = Heads {
        name: "mixer",
        inner: inner(c, hidden)?,
        heads: ("num_heads", fields::size(c, "num_heads", 128)?),
        head: ("head_dim", c.optional_size("head_dim")?.or(Some(64))),
        groups: ("n_groups", groups),
        size: fields::size(c, "state_size", 128)?,
        taps: taps(c)?,
        bounds: bounds(c)?,
        epsilon,
    };
    decoder(c, hidden, heads.state(c)?, (64, false))
}

/// The state of layers beside others with attention, whose fields begin with `mamba_`.
pub(super) fn of_hybrid(c: &Config, hidden: usize, epsilon: f64) -> Result<StateSpace, Diagnostic> {
    let expand = fields::size(c, "mamba_expand", 2)?;
    let inner = expand.saturating_mul(hidden);
    if inner > 1 << 30 {
        return Err(c.wrong("mamba_expand", "a usual ratio"));
    }
    let taps = fields::size(c, "mamba_d_conv", 4)?;
    if taps == 1 {
        return Err(c.wrong("mamba_d_conv", "2 or more"));
    }
    let head = match c.get("mamba_d_head").and_then(Value::as_str) {
        Some("auto") => None,
        _ => c.optional_size("mamba_d_head")?,
    };
    let heads = Heads {
        name: "mamba",
        inner,
        heads: ("mamba_n_heads", fields::size(c, "mamba_n_heads", 128)?),
        head: ("mamba_d_head", head),
        groups: ("mamba_n_groups", fields::size(c, "mamba_n_groups", 1)?),
        size: fields::size(c, "mamba_d_state", 256)?,
        taps,
        bounds: bounds(c)?,
        epsilon,
    };
    heads.state(c)
}

/// What the state of heads is described with, with the names of fields that must fit together.
pub(super) struct Heads {
    pub(super) name: &'static str,
    pub(super) inner: usize,
    pub(super) heads: (&'static str, usize),
    pub(super) head: (&'static str, Option<usize>),
    pub(super) groups: (&'static str, usize),
    pub(super) size: usize,
    pub(super) taps: usize,
    pub(super) bounds: [f64; 2],
    pub(super) epsilon: f64,
}

impl Heads {
    pub(super) fn state(&self, c: &Config) -> Result<StateSpace, Diagnostic> {
        let Heads { name, inner, size, taps, bounds, epsilon, .. } = *self;
        let ((heads_key, heads), (groups_key, groups)) = (self.heads, self.groups);
        if inner % heads != 0 {
            return Err(c.wrong(heads_key, &format!("a divisor of the {inner} channels")));
        }
        if self.head.1.is_some_and(|head| head != inner / heads) {
            let must = format!("{}, of {heads} heads in {inner} channels", inner / heads);
            return Err(c.wrong(self.head.0, &must));
        }
        if heads % groups != 0 {
            return Err(c.wrong(groups_key, &format!("a divisor of the {heads} heads")));
        }
        if size.saturating_mul(groups) > 1 << 30 {
            return Err(c.wrong(groups_key, "a usual number of groups"));
        }
        let kind = StateKind::Heads { heads, groups, bounds, epsilon };
        let activation = fields::activation(c, "hidden_act", Activation::Silu)?;
        Ok(StateSpace { name, kind, inner, size, taps, activation })
    }
}

/// Bounds of time steps, of which the upper one may be infinite. That is no number in JSON: Transformers 4 writes it
/// as a word without quotes, and version 5 as an object.
pub(super) fn bounds(c: &Config) -> Result<[f64; 2], Diagnostic> {
    const KEY: &str = "time_step_limit";
    let Some(value) = c.get(KEY) else { return Ok([0.0, f64::INFINITY]) };
    let number = |value: &Value| match value.get("__float__").unwrap_or(value) {
        Value::String(word) if word == "Infinity" => Some(f64::INFINITY),
        value => value.as_f64(),
    };
    let both =
        value.as_array().and_then(|both| both.iter().map(number).collect::<Option<Vec<_>>>());
    let both = both.and_then(|both| <[f64; 2]>::try_from(both).ok());
    let both = both.filter(|[least, most]| (0.0..f64::INFINITY).contains(least) && most >= least);
    both.ok_or_else(|| c.wrong(KEY, "two numbers from 0 on, the smaller one first"))
}

/// Taps of the convolution, of which the cache keeps all but one.
fn taps(c: &Config) -> Result<usize, Diagnostic> {
    match fields::size(c, "conv_kernel", 4)? {
        1 => Err(c.wrong("conv_kernel", "2 or more")),
        taps => Ok(taps),
    }
}

/// Channels of the state.
fn inner(c: &Config, hidden: usize) -> Result<usize, Diagnostic> {
    let expanded = c.above_zero("expand", 2.0)? * hidden as f64;
    if !(1.0..=f64::from(1 << 30)).contains(&expanded) {
        return Err(c.wrong("expand", "a usual ratio"));
    }
    fields::size(c, "intermediate_size", expanded as usize)
}

/// A decoder whose layers have this state and nothing else; so many of them, and tied or not, if the file does not say.
fn decoder(
    c: &Config,
    hidden: usize,
    state: StateSpace,
    (count, is_tied): (usize, bool),
) -> Result<Decoder, Diagnostic> {
    let layer = DecoderLayer { window: None, rope: None, has_experts: false, mixer: Mixer::State };
    let count = match c.get("num_hidden_layers") {
        Some(_) => c.layers("num_hidden_layers")?,
        None => count,
    };
    Ok(Decoder {
        names: MAMBA,
        vocabulary: c.size("vocab_size")?,
        hidden,
        heads: 1,
        kv_heads: 1,
        head: hidden,
        value: hidden,
        norm: Norm {
            kind: NormKind::Rms,
            epsilon: c.number("layer_norm_epsilon", 1e-5)?,
            plus_one: false,
        },
        order: Order::Alone,
        embedding: Embedding { scale: 1.0, positions: None, has_norm: false },
        attention: ATTENTION,
        ropes: vec![],
        mlp: Mlp {
            kind: MlpKind::Plain,
            activation: state.activation,
            inner: 0,
            experts: None,
            beside_experts: false,
        },
        state: Some(state),
        layers: vec![layer; count],
        residual: 1.0,
        head_of_words: Logits {
            is_tied: c.flag("tie_word_embeddings", is_tied)?,
            scale: 1.0,
            cap: None,
            without_norm: false,
        },
        inputs_first: false,
    })
}
