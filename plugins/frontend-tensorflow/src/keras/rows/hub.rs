//! Layers of `keras_hub`, and the embedding of Keras that its models use.

mod llama;
mod vit;

use super::quantized;
use crate::keras::layer::KerasLayer;
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::create::steps;
use crate::ops::{Lower, RowContext, dtype_of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{Bool, Int32, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};
use serde_json::Value as Json;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ReversibleEmbedding" => reversible;
        "PositionEmbedding" => positions;
    }
}

arguments! {
    /// `ReversibleEmbedding(input_dim, output_dim, tie_weights=True, mask_zero=False, reverse_dtype=None,
    /// logit_soft_cap=None)`; `call(inputs, reverse=False)`
    struct Reversible {
        inputs: Var, reverse: bool = false, input_dim: i64, output_dim: i64, tie_weights: bool = true,
        mask_zero: bool = false, reverse_dtype: Option<String>, logit_soft_cap: Option<f64>, dtype: String,
        weights: Vec<Var>,
    }
    /// `PositionEmbedding(sequence_length, initializer="glorot_uniform")`;
    /// `call(inputs, start_index=0, positions=None)`
    struct Positions {
        inputs: Var, start_index: i64 = 0, positions: Option<Var>, sequence_length: i64, initializer: Option<Value>,
        weights: Vec<Var>,
    }
}

/// Rows of a table, or products with all of them.
fn reversible(b: &Lower, a: Reversible) -> Lowered<Var> {
    if quantized::is_quantized(b, &a.weights) {
        refuse!(a.reverse || !a.tie_weights => b.unsupported("Products with a quantized table are not converted."));
        let to = crate::keras::dtype::dtype_of_word(&a.dtype)
            .unwrap_or(onnxd_plugin_sdk::ir::DataType::Float);
        let ids = indices(b, a.inputs)?;
        return quantized::embedding(b, ids, a.output_dim, &a.weights, to);
    }
    let (table, other) = match (a.tie_weights, &a.weights[..]) {
        (true, [table]) => (*table, None),
        (false, [table, other]) => (*table, Some(*other)),
        (_, all) => {
            let message = format!("The layer has {} weights.", all.len());
            return Err(b.diagnostic(Code::SourceSyntax, message));
        }
    };
    if !a.reverse {
        return b.gather(table, indices(b, a.inputs)?).axis(0).one();
    }
    let kernel = other.map_or_else(|| b.transpose(table).perm([1, 0]).one(), Ok)?;
    let to = match &a.reverse_dtype {
        Some(word) => crate::keras::dtype::dtype_of_word(word).ok_or_else(|| {
            let message = format!("`reverse_dtype` is `{}`, which is no type.", shown(word));
            b.wrong(message)
        })?,
        None => dtype_of(b, kernel)?,
    };
    let y = b.mat_mul(b.cast(a.inputs, to)?, b.cast(kernel, to)?)?;
    match a.logit_soft_cap {
        Some(cap) => b.mul(b.tanh(b.div(y, cap)?)?, cap),
        None => Ok(y),
    }
}

fn indices(b: &Lower, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        Int32 | Int64 => Ok(x),
        _ => b.cast(x, Int32),
    }
}

/// The first rows of a table, one for each step, for each sample.
fn positions(b: &Lower, a: Positions) -> Lowered<Var> {
    let [table] = super::exactly(b, &a.weights)?;
    let n = rank(b, a.inputs)?;
    refuse!(n < 2 => b.wrong(format!("The layer is called on a tensor of {n} axes, which has no steps.")));
    let rows = match a.positions {
        Some(at) => b.gather(table, indices(b, at)?).axis(0).one()?,
        None => {
            let first = a.start_index;
            let steps = b.shape(a.inputs).start(n as i64 - 2).end(n as i64 - 1).one()?;
            let end = if first == 0 { steps } else { b.add(steps, first)? };
            b.slice(table, [first], end).axes([0]).one()?
        }
    };
    b.expand(rows, b.shape(a.inputs).one()?)
}

/// Runs a layer of the package that holds others.
///
/// # Errors
/// As `KerasRunner::call`.
pub(crate) fn holders(
    called: &Called<'_, '_, '_>,
    arguments: &CallArgs,
) -> Lowered<Option<Vec<KerasItem>>> {
    let run = |names: &[&str], f: fn(&Called<'_, '_, '_>, &CallArgs) -> Lowered<KerasItem>| {
        let arguments = called.runner.cast(called.layer, arguments.clone())?;
        let arguments = by_name(called, arguments, names)?;
        let found = called.builder().in_layer(called.place(), |_| f(called, &arguments))?;
        Ok(Some(vec![found]))
    };
    match called.layer.class.as_str() {
        "TransformerEncoder" => run(&ENCODER, transformer),
        "TransformerDecoder" => run(&DECODER, transformer),
        "TokenAndPositionEmbedding" => run(&["inputs", "start_index", "positions"], embeddings),
        "LlamaTransformerDecoder"
        | "MistralTransformerDecoder"
        | "QwenTransformerDecoder"
        | "Qwen3TransformerDecoder" => run(&llama::LLAMA.arguments, llama::decoder),
        "Phi3Decoder" => run(&llama::PHI3.arguments, llama::decoder),
        "GemmaDecoderBlock" => run(&llama::GEMMA.arguments, llama::decoder),
        "ViTPatchingAndEmbedding" => run(&["inputs"], vit::patches),
        "ViTEncoder" => run(&["inputs"], vit::encoder),
        "ViTEncoderBlock" => run(&["inputs"], vit::block),
        _ => Ok(None),
    }
}

/// The arguments of a call of `TransformerEncoder`. `training` changes nothing, as everywhere in version 3.
const ENCODER: [&str; 5] =
    ["inputs", "padding_mask", "attention_mask", "training", "return_attention_scores"];
/// The arguments of a call of `TransformerDecoder`.
const DECODER: [&str; 12] = [
    "decoder_sequence", "encoder_sequence", "decoder_padding_mask", "decoder_attention_mask",
    "encoder_padding_mask", "encoder_attention_mask", "self_attention_cache",
    "self_attention_cache_update_index", "cross_attention_cache",
    "cross_attention_cache_update_index", "use_causal_mask", "training",
];
/// Those of them that are not converted.
const REFUSED: [&str; 5] = [
    "return_attention_scores", "self_attention_cache", "self_attention_cache_update_index",
    "cross_attention_cache", "cross_attention_cache_update_index",
];

/// The call with a name for each argument, in their order, where none is left that is not converted.
fn by_name(called: &Called<'_, '_, '_>, given: CallArgs, names: &[&str]) -> Lowered<CallArgs> {
    let refused = |what: String| {
        let message = format!("The layer is called with {what}, which is not converted.");
        Err(called.problem(Code::LayerUnsupported, message))
    };
    if given.positional.len() > names.len() {
        return refused(format!("{} arguments", given.positional.len()));
    }
    let first = names.iter().map(|name| (*name).to_owned()).zip(given.positional);
    let mut named: Vec<(String, KerasItem)> = first.chain(given.named).collect();
    let place = |name: &String| names.iter().position(|known| known == name);
    named.sort_by_key(|(name, _)| place(name).unwrap_or(names.len()));
    for (name, item) in &named {
        let known = names.contains(&name.as_str());
        let is_refused = match REFUSED.contains(&name.as_str()) {
            true => item.is_true(),
            false => !known && *item != KerasItem::nothing(),
        };
        if is_refused {
            return refused(format!("the argument `{}`", shown(name)));
        }
    }
    Ok(CallArgs { positional: vec![], named })
}

impl<'c> Called<'c, '_, '_> {
    /// A layer that this one holds.
    fn part(&self, key: &str) -> Lowered<&'c KerasLayer> {
        let missing = || self.problem(Code::SourceSyntax, format!("The layer holds no `{key}`."));
        self.layer.part(key).ok_or_else(missing)
    }

    /// A part with further settings, called.
    fn call(&self, key: &str, more: &[(&str, i64)], given: CallArgs) -> Lowered<KerasItem> {
        let mut layer = self.part(key)?.clone();
        layer.config.extend(more.iter().map(|(name, n)| ((*name).to_owned(), Json::from(*n))));
        self.inner(&layer, given).map(KerasItem::of)
    }

    /// What a part makes of a value.
    fn run(&self, key: &str, x: KerasItem) -> Lowered<KerasItem> {
        self.call(key, &[], CallArgs::one(x))
    }

    /// The sum of two tensors; masks are lost, as in Keras.
    fn sum(&self, x: KerasItem, y: KerasItem) -> Lowered<KerasItem> {
        let (class, name) = ("Add".to_owned(), "add".to_owned());
        let mut layer = KerasLayer { class, name, ..KerasLayer::default() };
        let dtype = self.layer.config.get("dtype").cloned().unwrap_or(Json::Null);
        layer.config.insert("dtype".to_owned(), dtype);
        self.inner(&layer, CallArgs::one(KerasItem::List(vec![bare(x), bare(y)])))
            .map(KerasItem::of)
    }
}

/// A tensor without its mask.
fn bare(item: KerasItem) -> KerasItem {
    if let KerasItem::Tensor(x, _) = item { x.into() } else { item }
}

/// How steps look at each other.
struct Looks {
    /// Which steps count: `[batch, keys]`.
    padding: Option<Var>,
    /// Which steps each step looks at: `[batch, queries, keys]`.
    more: Option<Var>,
    /// Steps look at those before them alone.
    causal: bool,
    /// How many of these they look at, themselves included.
    window: Option<i64>,
    /// Only what is above zero counts; otherwise all but zero.
    above: bool,
}

/// Which steps each step looks at, as truth values: `[batch, queries or 1, keys]`. Keras takes the least of all
/// numbers, and asks then what they mean. The second says whether steps still must not look at those behind them.
fn mask(b: &Lower, x: Var, looks: &Looks) -> Lowered<(Option<Var>, bool)> {
    let masks: Vec<Var> = looks.padding.into_iter().chain(looks.more).collect();
    let is_plain = looks.above
        || (masks.len() < 2 && !looks.causal)
        || masks.iter().all(|mask| b.dtype_of(*mask) == Some(Bool));
    // Keras rounds numbers first.
    let number = |mask: Var| b.cast(mask, Int32);
    let truth = |mask: Var| match dtype_of(b, mask)? {
        Bool => Ok(mask),
        _ if looks.above => b.greater(number(mask)?, 0),
        dtype if dtype.is_float() => b.cast(number(mask)?, Bool),
        _ => b.cast(mask, Bool),
    };
    let each = |mask: Var| if is_plain { truth(mask) } else { number(mask) };
    let padding = looks.padding.map(|mask| b.unsqueeze(each(mask)?, [1])).transpose()?;
    let more = looks.more.map(each).transpose()?;
    let mut all: Vec<Var> = padding.into_iter().chain(more).collect();
    let is_open = is_plain && looks.window.is_none();
    if looks.causal && !is_open {
        all.push(each(causal(b, x, looks.window)?)?);
    }
    let Some((first, rest)) = all.split_first() else { return Ok((None, looks.causal)) };
    let join = |all, mask: &Var| if is_plain { b.and(all, *mask) } else { b.min([all, *mask]) };
    let whole = rest.iter().try_fold(*first, join)?;
    Ok((Some(truth(whole)?), looks.causal && is_open))
}

/// Whether step `j` is not behind step `i` of `[batch, steps, ...]`, and not too far before it: `[1, steps, steps]`.
fn causal(b: &Lower, x: Var, window: Option<i64>) -> Lowered<Var> {
    let line = steps(b, x, 1)?;
    let rows = b.unsqueeze(line, [1])?;
    let mut found = b.greater_or_equal(rows, line)?;
    if let Some(window) = window {
        found = b.and(found, b.less(rows, b.add(line, window)?)?)?;
    }
    b.unsqueeze(found, [0])
}

/// Attention to the steps of the sequence itself, and two dense layers for each step. What goes into both is added to
/// what comes out, with norms before or after.
fn transformer(called: &Called<'_, '_, '_>, arguments: &CallArgs) -> Lowered<KerasItem> {
    let is_decoder = called.layer.class == "TransformerDecoder";
    let Some(input) = arguments.first().filter(|item| item.tensor().is_some()).cloned() else {
        return Ok(KerasItem::Hole);
    };
    let is_first = called.layer.is("normalize_first");
    let norm = |x, key: &str, is_here: bool| if is_here { called.run(key, x) } else { Ok(x) };
    let hidden = hidden(called, &input)?;
    let x = norm(input.clone(), "_self_attention_layer_norm", is_first)?;
    let (attends, key_dim) = attention(called, arguments, (x, &input), (is_decoder, hidden))?;
    let x = called.call("_self_attention_layer", &[("key_dim", key_dim)], attends)?;
    let x = called.sum(x, input.clone())?;
    let x = norm(x, "_self_attention_layer_norm", !is_first)?;
    let x = crossed(called, arguments, (x, key_dim), is_first)?;
    let y = norm(x.clone(), "_feedforward_layer_norm", is_first)?;
    let y = called.run("_feedforward_intermediate_dense", y)?;
    let y = called.call("_feedforward_output_dense", &[("units", hidden)], CallArgs::one(y))?;
    let y = norm(called.sum(y, x)?, "_feedforward_layer_norm", !is_first)?;
    Ok(match y {
        KerasItem::Tensor(y, _) => KerasItem::Tensor(y, input.mask()),
        other => other,
    })
}

/// Attention of a decoder to another sequence, where it has such.
fn crossed(
    called: &Called<'_, '_, '_>,
    arguments: &CallArgs,
    (x, key_dim): (KerasItem, i64),
    is_first: bool,
) -> Lowered<KerasItem> {
    const LAYER: &str = "_cross_attention_layer";
    const NORM: &str = "_cross_attention_layer_norm";
    let other = arguments.name("encoder_sequence").filter(|item| **item != KerasItem::nothing());
    let other = match (called.layer.part(LAYER).is_some(), other) {
        (false, None) => return Ok(x),
        (true, Some(other)) => other,
        _ => {
            let message =
                "The layer was built with another sequence and is called without, or the reverse.";
            return Err(called.problem(Code::LayerParameter, message));
        }
    };
    let Some(sequence) = other.tensor() else { return Ok(KerasItem::Hole) };
    let tensor = |name: &str| arguments.name(name).and_then(KerasItem::tensor);
    let looks = Looks {
        padding: tensor("encoder_padding_mask").or(other.mask()),
        more: tensor("encoder_attention_mask"),
        window: None,
        causal: false,
        above: is_dropped(called),
    };
    let (mask, _) = mask(called.builder(), sequence, &looks)?;
    let norm = |x, is_here: bool| if is_here { called.run(NORM, x) } else { Ok(x) };
    let query = bare(norm(x.clone(), is_first)?);
    let named = mask.map(|mask| ("attention_mask".to_owned(), mask.into())).into_iter().collect();
    let attends = CallArgs { positional: vec![query, sequence.into()], named };
    let sizes = [("key_dim", key_dim), ("value_dim", key_dim)];
    let y = called.call(LAYER, &sizes, attends)?;
    norm(called.sum(y, x)?, !is_first)
}

/// Whether attention drops scores in training. Then it asks what is above zero in masks, where it makes no truth values
/// of them first.
fn is_dropped(called: &Called<'_, '_, '_>) -> bool {
    called.layer.real("dropout").unwrap_or(0.0) > 0.0
}

/// The size of the last axis.
fn hidden(called: &Called<'_, '_, '_>, x: &KerasItem) -> Lowered<i64> {
    let shape = x.tensor().and_then(|x| called.builder().shape_of(x));
    let last = shape.and_then(|shape| shape.last().cloned()).and_then(|dim| dim.known());
    last.ok_or_else(|| {
        let message = "The layer is called on a tensor whose last axis has no known size.";
        called.problem(Code::LayerUnsupported, message)
    })
}

/// The call of the attention in a layer, and the size of its keys.
fn attention(
    called: &Called<'_, '_, '_>,
    arguments: &CallArgs,
    (x, input): (KerasItem, &KerasItem),
    (is_decoder, hidden): (bool, i64),
) -> Lowered<(CallArgs, i64)> {
    let prefix = if is_decoder { "decoder_" } else { "" };
    let tensor =
        |name: &str| arguments.name(&format!("{prefix}{name}")).and_then(KerasItem::tensor);
    let looks = Looks {
        padding: tensor("padding_mask").or(input.mask()),
        more: tensor("attention_mask"),
        window: None,
        causal: is_decoder && arguments.name("use_causal_mask").is_none_or(KerasItem::is_true),
        above: is_decoder && is_dropped(called),
    };
    // The attention of decoders reads no masks but the one that it is given.
    let (mask, is_causal) = match x.tensor() {
        Some(x) => mask(called.builder(), x, &looks)?,
        None => (None, looks.causal),
    };
    let x = if is_decoder { bare(x) } else { x };
    let mut named: Vec<(String, KerasItem)> = vec![];
    named.extend(mask.map(|mask| ("attention_mask".to_owned(), mask.into())));
    if is_causal {
        named.push(("use_causal_mask".to_owned(), KerasItem::Plain(Value::Bool(true))));
    }
    let heads = called.layer.int("num_heads").unwrap_or(1).max(1);
    let key_dim = hidden / heads;
    refuse!(key_dim == 0 =>
        called.problem(Code::LayerParameter, format!("The layer has {heads} heads for {hidden} elements.")));
    Ok((CallArgs { positional: vec![x.clone(), x], named }, key_dim))
}

/// Rows of a table for tokens, and of another one for their places.
fn embeddings(called: &Called<'_, '_, '_>, given: &CallArgs) -> Lowered<KerasItem> {
    let Some(ids) = given.first().cloned() else { return Ok(KerasItem::Hole) };
    let words = called.run("token_embedding", ids)?;
    let mut at = CallArgs::one(words.clone());
    for name in ["start_index", "positions"] {
        at.named.extend(given.name(name).map(|item| (name.to_owned(), item.clone())));
    }
    let places = called.call("position_embedding", &[], at)?;
    let mask = words.mask();
    Ok(match called.sum(words, places)? {
        KerasItem::Tensor(y, _) => KerasItem::Tensor(y, mask),
        other => other,
    })
}
