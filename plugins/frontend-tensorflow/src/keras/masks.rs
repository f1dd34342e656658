//! Masks: which steps of sequences count. They go with the tensors from layer to layer, as in Keras.

use super::layer::KerasLayer;
use super::runner::{CallArgs, Called, KerasRunner};
use super::values::KerasItem;
use crate::ops::reduce::{Reduction, holds};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::DataType;
use serde_json::Value as Json;

/// Layers that hand on the mask of what they are called on.
const HANDED_ON: [&str; 30] = [
    "Activation", "ELU", "LeakyReLU", "PReLU", "ReLU", "ThresholdedReLU", "Softmax",
    "MultiHeadAttention", "GroupQueryAttention", "GroupedQueryAttention", "Dense", "Identity",
    "BatchNormalization", "GroupNormalization", "LayerNormalization", "UnitNormalization",
    "Normalization", "Rescaling", "ActivityRegularization", "AlphaDropout", "Dropout",
    "GaussianDropout", "GaussianNoise", "SpatialDropout1D", "SpatialDropout2D", "SpatialDropout3D",
    "TimeDistributed", "Bidirectional", "Attention", "AdditiveAttention",
];

/// Those of them that version 2 did not let through.
const HELD_BACK: [&str; 3] = ["Identity", "Normalization", "Rescaling"];

/// Layers with a call argument `mask`.
const READ: [&str; 14] = [
    "Softmax", "LSTM", "GRU", "SimpleRNN", "RNN", "CuDNNLSTM", "CuDNNGRU", "Bidirectional",
    "TimeDistributed", "ConvLSTM1D", "ConvLSTM2D", "ConvLSTM3D", "GlobalAveragePooling1D",
    "Attention",
];

/// Layers that leave out what masks leave out, from version 3 on.
const APPLIED: [&str; 3] = ["Multiply", "Maximum", "Minimum"];

/// Layers of several tensors with a mask for each.
const SEVERAL: [(&str, [&str; 3]); 3] = [
    ("MultiHeadAttention", ["query", "value", "key"]),
    ("GroupQueryAttention", ["query", "value", "key"]),
    ("GroupedQueryAttention", ["query", "value", "key"]),
];

/// The call with the masks of its tensors as arguments, where the layer has such.
pub(crate) fn passed(
    runner: &KerasRunner<'_, '_>,
    layer: &KerasLayer,
    mut arguments: CallArgs,
) -> CallArgs {
    let class = layer.class.as_str();
    arguments.named.retain(|(name, item)| *item != KerasItem::nothing() || !name.ends_with("mask"));
    if let Some((_, names)) = SEVERAL.iter().find(|(name, _)| *name == class) {
        for (i, name) in names.iter().enumerate() {
            let key = format!("{name}_mask");
            let mask = arguments.get(i, name).map_or_else(KerasItem::nothing, KerasItem::masks);
            if mask != KerasItem::nothing() && arguments.name(&key).is_none() {
                arguments.named.push((key, mask));
            }
        }
        return arguments;
    }
    if APPLIED.contains(&class) && !runner.is_keras2 {
        let masks = arguments.first().map_or_else(KerasItem::nothing, KerasItem::masks);
        arguments
            .named
            .extend((masks != KerasItem::nothing()).then(|| ("masks".to_owned(), masks)));
        return arguments;
    }
    let reads = READ.contains(&class) || class == "AdditiveAttention";
    let is_given = arguments.name("mask").is_some() || arguments.positional.len() > 1;
    // Version 3 does so only if a single argument has tensors.
    let tensors =
        arguments.items().filter(|item| item.leaves().iter().any(|leaf| leaf.tensor().is_some()));
    let is_single = tensors.count() == 1 || runner.is_keras2;
    if reads && !is_given && is_single {
        let masks = arguments.first().map_or_else(KerasItem::nothing, KerasItem::masks);
        if masks != KerasItem::nothing() {
            arguments.named.push(("mask".to_owned(), masks));
        }
    }
    arguments
}

/// What a layer gives, with masks.
pub(crate) fn attached(
    called: &Called<'_, '_, '_>,
    given: &CallArgs,
    items: Vec<KerasItem>,
) -> Result<Vec<KerasItem>> {
    let found = |_: &_| computed(called.runner, called.layer, given, &items);
    let masks = called.builder().in_layer(called.place(), found)?;
    let attach = |(i, item): (usize, KerasItem)| match item {
        KerasItem::Tensor(var, _) => KerasItem::Tensor(var, masks.get(i).copied().flatten()),
        other => other,
    };
    Ok(items.into_iter().enumerate().map(attach).collect())
}

/// The mask of each output.
fn computed(
    runner: &KerasRunner<'_, '_>,
    layer: &KerasLayer,
    arguments: &CallArgs,
    outputs: &[KerasItem],
) -> Result<Vec<Option<Var>>> {
    let b = runner.builder();
    let first = arguments.first();
    let inputs: Vec<&KerasItem> = first.map(KerasItem::leaves).unwrap_or_default();
    let mask = match arguments.name("mask").and_then(|mask| mask.leaves().first()?.tensor()) {
        Some(mask) => Some(mask),
        None => inputs.first().and_then(|item| item.mask()),
    };
    let tensor = inputs.first().and_then(|item| item.tensor());
    Ok(match (layer.class.as_str(), tensor) {
        ("Embedding" | "ReversibleEmbedding", Some(x))
            if layer.is("mask_zero") && !is_reversed(arguments) =>
        {
            vec![Some(b.not(b.equal(x, 0)?)?)]
        }
        ("Masking", Some(x)) => {
            let value = layer.real("mask_value").unwrap_or(0.0);
            let other = b.not(b.equal(x, value)?)?;
            vec![Some(holds(b, other, &[-1], false, Reduction::Max)?)]
        }
        ("LSTM" | "GRU" | "SimpleRNN" | "RNN" | "ConvLSTM1D" | "ConvLSTM2D" | "ConvLSTM3D", _) => {
            vec![mask.filter(|_| layer.is("return_sequences"))]
        }
        ("Concatenate", _) => vec![concatenated(runner, layer, &inputs)?],
        ("Add" | "Subtract" | "Multiply" | "Average" | "Maximum" | "Minimum", _) => {
            vec![merged(runner, &inputs)?]
        }
        ("Bidirectional", _) => {
            let is_open = layer.parts.first().is_some_and(|(_, part)| part.is("return_sequences"));
            let mask = mask.filter(|_| is_open);
            let is_apart = layer.config.get("merge_mode").is_some_and(Json::is_null);
            vec![mask; if is_apart { 2 } else { 1 }]
        }
        (class, _) if runner.is_keras2 && HELD_BACK.contains(&class) => vec![],
        (class, _) if HANDED_ON.contains(&class) => vec![mask; outputs.len().min(1)],
        _ => vec![],
    })
}

/// Whether a `ReversibleEmbedding` multiplies.
fn is_reversed(given: &CallArgs) -> bool {
    given.get(1, "reverse").is_some_and(KerasItem::is_true)
}

/// The mask of tensors that are merged: version 2 has steps count that count everywhere, version 3 those that count
/// anywhere.
fn merged(runner: &KerasRunner<'_, '_>, inputs: &[&KerasItem]) -> Result<Option<Var>> {
    let b = runner.builder();
    let masks: Vec<Var> = inputs.iter().filter_map(|item| item.mask()).collect();
    let Some((first, rest)) = masks.split_first() else { return Ok(None) };
    if !runner.is_keras2 && masks.len() < inputs.len() {
        return Ok(None);
    }
    let join =
        |all, mask: &Var| if runner.is_keras2 { b.and(all, *mask) } else { b.or(all, *mask) };
    rest.iter().try_fold(*first, join).map(Some)
}

/// The masks of tensors that are put one after the other; those without one count in full.
fn concatenated(
    runner: &KerasRunner<'_, '_>,
    layer: &KerasLayer,
    inputs: &[&KerasItem],
) -> Result<Option<Var>> {
    let b = runner.builder();
    if inputs.iter().all(|item| item.mask().is_none()) {
        return Ok(None);
    }
    let axis = layer.int("axis").unwrap_or(-1);
    let mut all = vec![];
    for item in inputs {
        let Some(x) = item.tensor() else { return Ok(None) };
        let shape = b.shape(x).one()?;
        let full = match item.mask() {
            Some(mask) => {
                let missing = crate::ops::rank(b, x)?.saturating_sub(crate::ops::rank(b, mask)?);
                let axes: Vec<i64> = (1..=missing as i64).map(|i| -i).collect();
                let wide = if axes.is_empty() { mask } else { b.unsqueeze(mask, axes)? };
                b.expand(wide, shape)?
            }
            None => crate::ops::create::filled(b, shape, 1, DataType::Bool)?,
        };
        all.push(b.cast(full, DataType::Int32)?);
    }
    let all_masks = b.concat(all).axis(axis).one()?;
    let how = if runner.is_keras2 { Reduction::Min } else { Reduction::Max };
    holds(b, all_masks, &[-1], false, how).map(Some)
}
