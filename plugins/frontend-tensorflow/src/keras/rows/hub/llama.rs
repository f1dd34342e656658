//! The decoder of Llama and its kin.

use super::{Looks, mask};
use crate::keras::layer::KerasLayer;
use crate::keras::rows::attention::{Heads, Masked, ScoreOptions, over_heads, together};
use crate::keras::rows::{exactly, weights_and_bias};
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::create::counted;
use crate::ops::shape::{DimSize, sized, sizes, transposed};
use crate::ops::{Lower, dtype_of};
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Lowered;
use serde_json::Value as Json;
use std::f64::consts::TAU;

/// What models of this kind call what they hold, and how they compute beside that.
pub(super) struct DecoderNames {
    /// The arguments of a call that are converted.
    pub(super) arguments: [&'static str; 3],
    norms: [&'static str; 2],
    /// What stands before the names of what attention holds.
    attention: &'static str,
    gate: &'static str,
    inner: &'static str,
    outer: &'static str,
    /// Kernels have heads first.
    has_heads_first: bool,
    /// Attention makes truth values of masks by what is above zero, and leaves nothing of steps that look at none.
    is_explicit: bool,
}

pub(super) const LLAMA: DecoderNames = DecoderNames {
    arguments: ["decoder_sequence", "decoder_padding_mask", "decoder_attention_mask"],
    norms: ["_self_attention_layernorm", "_feedforward_layernorm"],
    attention: "_self_attention_layer/_",
    gate: "_feedforward_gate_dense",
    inner: "_feedforward_intermediate_dense",
    outer: "_feedforward_output_dense",
    has_heads_first: false,
    is_explicit: false,
};

pub(super) const GEMMA: DecoderNames = DecoderNames {
    arguments: ["x", "padding_mask", "attention_mask"],
    norms: ["pre_attention_norm", "pre_ffw_norm"],
    attention: "attention/",
    gate: "gating_ffw",
    inner: "gating_ffw_2",
    outer: "ffw_linear",
    has_heads_first: true,
    is_explicit: true,
};

pub(super) const PHI3: DecoderNames = DecoderNames {
    norms: ["pre_attention_layernorm", "post_attention_layernorm"],
    attention: "attention/",
    gate: "feedforward_gate_dense",
    inner: "feedforward_intermediate_dense",
    outer: "feedforward_output_dense",
    ..LLAMA
};

/// Elements of a head.
const SIZE_MAX: i64 = 1 << 16;

/// Attention to the steps before, and dense layers of which one is the gate of another, each behind a norm.
pub(super) fn decoder(called: &Called<'_, '_, '_>, arguments: &CallArgs) -> Lowered<KerasItem> {
    let Some(input) = arguments.first().filter(|item| item.tensor().is_some()).cloned() else {
        return Ok(KerasItem::Hole);
    };
    let names = match called.layer.class.as_str() {
        "GemmaDecoderBlock" => &GEMMA,
        "Phi3Decoder" => &PHI3,
        _ => &LLAMA,
    };
    let x = called.run(names.norms[0], input.clone())?;
    let Some(x) = x.tensor() else { return Ok(KerasItem::Hole) };
    let y = attended(called, arguments, (names, x))?;
    let x = called.sum(if_held(called, "post_attention_norm", y)?, input)?;
    let y = called.run(names.norms[1], x.clone())?;
    let (gate, y) = (called.run(names.gate, y.clone())?, called.run(names.inner, y)?);
    let (Some(gate), Some(y)) = (gate.tensor(), y.tensor()) else { return Ok(KerasItem::Hole) };
    let y = called.run(names.outer, called.builder().mul(y, gate)?.into())?;
    called.sum(if_held(called, "post_ffw_norm", y)?, x)
}

/// What a part makes of a value, where the layer holds it.
fn if_held(called: &Called<'_, '_, '_>, key: &str, x: KerasItem) -> Lowered<KerasItem> {
    if called.layer.part(key).is_some() { called.run(key, x) } else { Ok(x) }
}

/// What heads see of the steps before, together.
fn attended(
    called: &Called<'_, '_, '_>,
    arguments: &CallArgs,
    (names, x): (&DecoderNames, Var),
) -> Lowered<KerasItem> {
    let b = called.builder();
    let key = |role: &str, rest: &str| format!("{}{role}_dense{rest}", names.attention);
    let weights = |role: &str| {
        let layer = called.part(&key(role, ""))?;
        called.runner.weights_of(layer, &format!("{}/{}", called.path, layer.name))
    };
    let heads = |role: &str| {
        let weights = weights(role)?;
        let ([kernel], bias) = weights_and_bias(b, &weights, weights.len() == 2)?;
        let inputs_first = if names.has_heads_first { [1, 0, 2] } else { [0, 1, 2] };
        Heads::split(b, x, transposed(b, kernel, &inputs_first)?, bias)
    };
    let normed = |role: &str, x: &Heads| {
        let x = x.apart(b)?;
        if_held(called, &key(role, "_layer_norm"), x.into())
    };
    let [query, key, value] = [heads("query")?, heads("key")?, heads("value")?];
    let whole = DimSize::Known(query.count.saturating_mul(value.size));
    let (query, key) = (normed("query", &query)?, normed("key", &key)?);
    let (Some(query), Some(key)) = (query.tensor(), key.tensor()) else {
        return Ok(KerasItem::Hole);
    };
    let tensor = |name: &str| arguments.name(name).and_then(KerasItem::tensor);
    let window = called.layer.int("sliding_window");
    let looks = Looks {
        padding: tensor(names.arguments[1]).or(arguments.first().and_then(KerasItem::mask)),
        more: tensor(names.arguments[2]),
        causal: true,
        window,
        above: names.is_explicit && window.is_none(),
    };
    let (mask, causal) = mask(b, query, &looks)?;
    let mask = mask.map(|mask| b.unsqueeze(mask, [1])).transpose()?;
    let masked = if names.is_explicit { Masked::Zero } else { Masked::Even };
    let soft_cap = called.layer.real("soft_cap");
    let turns = Turns::for_heads(b, called.layer, query)?;
    let all = [turns.turned(b, query)?, turns.turned(b, key)?, value.apart(b)?];
    let y = over_heads(
        b,
        all,
        ScoreOptions { causal, mask, masked, soft_cap, ..ScoreOptions::default() },
    )?;
    let y = sized(b, y, &[sizes(b, y, 0..2)?, vec![whole]].concat())?;
    let [kernel] = exactly(b, &weights("output")?)?;
    together(b, y, kernel).map(KerasItem::from)
}

/// By how much the elements of a head are turned, in pairs: `[1, steps, 1, elements]`.
struct Turns {
    cos: Var,
    sin: Var,
    half: i64,
}

impl Turns {
    /// For queries or keys `[batch, steps, heads, elements]`.
    fn for_heads(b: &Lower, layer: &KerasLayer, x: Var) -> Lowered<Turns> {
        let size = b.shape_of(x).and_then(|shape| shape.last()?.known());
        let Some(size) = size.filter(|n| n % 2 == 0 && (2..=SIZE_MAX).contains(n)) else {
            let message =
                format!("Heads must have an even number of elements, {SIZE_MAX} at most.");
            return Err(b.wrong(message));
        };
        let speeds = speeds(layer, size);
        let vector = |all: &[f64]| {
            b.constant(Tensor::vector(all.iter().map(|x| *x as f32).collect::<Vec<f32>>()))
        };
        let steps = b.squeeze(b.shape(x).start(1).end(2).one()?).axes([0]).one()?;
        let line = counted(b, steps)?;
        let line = b.unsqueeze(b.cast(line, DataType::Float)?, [1])?;
        let by = |key: &str| {
            let all: Vec<f64> =
                layer.config.get(key)?.as_array()?.iter().filter_map(Json::as_f64).collect();
            let all: Vec<f64> = speeds.iter().zip(all).map(|(speed, by)| speed / by).collect();
            (all.len() == speeds.len()).then(|| vector(&all))
        };
        let usual = layer.int("rope_usual_length");
        let both = by("rope_scaling_short_factor").zip(by("rope_scaling_long_factor")).zip(usual);
        let speeds = match both {
            Some(((short, long), usual)) => b.where_(b.greater(steps, usual)?, long, short)?,
            None => vector(&speeds),
        };
        let angles = b.mul(line, speeds)?;
        let angles = b.unsqueeze(b.concat([angles, angles]).axis(-1).one()?, [0, 2])?;
        let dtype = dtype_of(b, x)?;
        let (mut cos, mut sin) = (b.cos(angles)?, b.sin(angles)?);
        if let Some(gain) = layer.real("rope_gain").filter(|x| *x != 1.0) {
            (cos, sin) = (b.mul(cos, gain)?, b.mul(sin, gain)?);
        }
        let (cos, sin) = (b.cast(cos, dtype)?, b.cast(sin, dtype)?);
        Ok(Turns { cos, sin, half: size / 2 })
    }

    fn turned(&self, b: &Lower, x: Var) -> Lowered<Var> {
        let part = |from: i64, to: i64| b.slice(x, [from], [to]).axes([-1]).one();
        let (first, second) = (part(0, self.half)?, part(self.half, 2 * self.half)?);
        let other = b.concat([b.neg(second)?, first]).axis(-1).one()?;
        b.add(b.mul(x, self.cos)?, b.mul(other, self.sin)?)
    }
}

/// By how much each pair turns from one step to the next.
fn speeds(layer: &KerasLayer, size: i64) -> Vec<f64> {
    let longest = layer.real("rope_max_wavelength").unwrap_or(10000.0);
    let scale = layer.real("rope_scaling_factor").unwrap_or(1.0);
    let plain = (0..size / 2).map(|i| longest.powf(-2.0 * i as f64 / size as f64) / scale);
    let stretched = (
        layer.real("rope_frequency_adjustment_factor"),
        layer.real("rope_low_freq_factor"),
        layer.real("rope_high_freq_factor"),
        layer.real("rope_pretraining_sequence_length"),
    );
    let (Some(factor), Some(low), Some(high), Some(length)) = stretched else {
        return plain.collect();
    };
    // Slow turns are slower by the factor, fast ones stay, and those between change over.
    let speed = |plain: f64| {
        let wave = TAU / plain;
        if wave > length / low {
            plain / factor
        } else if wave >= length / high {
            let share = (length / wave - low) / (high - low);
            (1.0 - share) * plain / factor + share * plain
        } else {
            plain
        }
    };
    plain.map(speed).collect()
}
