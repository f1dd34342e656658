//! Normalization.

use super::{exactly, ints};
use crate::keras::runner::{CallArgs, Called};
use crate::keras::values::KerasItem;
use crate::ops::reduce::deviations;
use crate::ops::shape::{axis_of, transposed, unsqueezed};
use crate::ops::{Lower, RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::{DataType, Tensor, element_count};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

/// Groups of a tensor whose channels are not known.
const GROUPS_MAX: i64 = 1 << 20;
/// Ones that stand for weights that a layer does not have.
const ONES_MAX: usize = 1 << 24;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "BatchNormalization" | "SyncBatchNormalization" => batch;
        "LayerNormalization" => layer;
        "GroupNormalization" => group;
        "UnitNormalization" => |b, inputs: Var, axis: Value| unit(b, inputs, &axes(b, inputs, &axis)?, 1e-12);
        "RMSNormalization" => rms;
        // Those of `keras_hub`.
        "LlamaLayerNorm" | "MistralLayerNormalization" | "QwenLayerNorm" | "Qwen3LayerNorm" | "Phi3LayerNorm" => rms;
    }
}

arguments! {
    /// `BatchNormalization(axis=-1, momentum=0.99, epsilon=0.001, center=True, scale=True)`
    struct Batch {
        inputs: Var, axis: Value, epsilon: f64 = 1e-3, center: bool = true, scale: bool = true, dtype: String,
        momentum: Option<f64>, synchronized: Option<bool>, renorm: Option<bool>, renorm_clipping: Option<Value>,
        renorm_momentum: Option<f64>, virtual_batch_size: Option<Value>, fused: Option<Value>, weights: Vec<Var>,
    }
    /// `LayerNormalization(axis=-1, epsilon=0.001, center=True, scale=True, rms_scaling=False)`
    struct Layer {
        inputs: Var, axis: Value, epsilon: f64 = 1e-3, center: bool = true, scale: bool = true,
        rms_scaling: bool = false, dtype: String, is_keras2: bool = false, weights: Option<Vec<Var>>,
    }
    /// `GroupNormalization(groups=32, axis=-1, epsilon=0.001, center=True, scale=True)`
    struct Group {
        inputs: Var, groups: i64 = 32, axis: i64 = -1, epsilon: f64 = 1e-3, center: bool = true, scale: bool = true,
        dtype: String, weights: Option<Vec<Var>>,
    }
    /// `RMSNormalization(axis=-1, epsilon=1e-06)`
    struct Rms {
        inputs: Var, axis: Value, epsilon: f64 = 1e-6, counts_from_one: bool = false, weights: Vec<Var>,
    }
}

/// One axis or several, counted from the first one.
pub(crate) fn axes(b: &GraphBuilder, x: Var, value: &Value) -> Lowered<Vec<i64>> {
    let list = ints(value).ok_or_else(|| b.wrong("An axis of the layer is no integer."))?;
    list.into_iter().map(|axis| Ok(axis_of(b, x, axis)? as i64)).collect()
}

/// Elements as long as one of their kind says, or ones and zeros where the layer has no such weight.
fn gain_and_offset(
    b: &GraphBuilder,
    weights: &[Var],
    (scale, center): (bool, bool),
) -> Lowered<(Option<Var>, Option<Var>)> {
    match (scale, center) {
        (true, true) => exactly(b, weights).map(|[gain, offset]| (Some(gain), Some(offset))),
        (true, false) => exactly(b, weights).map(|[gain]| (Some(gain), None)),
        (false, true) => exactly(b, weights).map(|[offset]| (None, Some(offset))),
        (false, false) => Ok((None, None)),
    }
}

/// The order of axes that moves one behind the first, and the order that moves it back.
fn second(b: &GraphBuilder, n: i64, axis: i64) -> Lowered<(Vec<i64>, Vec<i64>)> {
    refuse!(n < 2 => b.wrong("The layer is called on a tensor without an axis of channels."));
    let rest: Vec<i64> = (0..n).filter(|i| *i != axis).collect();
    let perm = [&rest[..1], &[axis], &rest[1..]].concat();
    let place = |i: i64| perm.iter().position(|p| *p == i).unwrap_or(0) as i64;
    let back = (0..n).map(place).collect();
    Ok((perm, back))
}

/// The type in which a layer gives its result.
fn result(dtype: &str) -> DataType {
    crate::keras::dtype::dtype_of_word(dtype).unwrap_or(DataType::Float)
}

/// `x` of 32 bits at least, which is what Keras normalizes.
fn wide(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    match dtype_of(b, x)? {
        DataType::Float | DataType::Double => Ok(x),
        _ => b.cast(x, DataType::Float),
    }
}

fn batch(b: &Lower, a: Batch) -> Lowered<Var> {
    let axis = match axes(b, a.inputs, &a.axis)?[..] {
        [axis] => axis,
        _ => return Err(b.unsupported("The layer normalizes along several axes.")),
    };
    let Some((own, [mean, variance])) = a.weights.split_last_chunk::<2>() else {
        return Err(b.diagnostic(Code::SourceSyntax, "The layer has no mean and variance."));
    };
    let (gain, offset) = gain_and_offset(b, own, (a.scale, a.center))?;
    let x = wide(b, a.inputs)?;
    let dtype = dtype_of(b, x)?;
    let size = b.dims_of(*mean).and_then(|dims| dims.first().copied()).unwrap_or(0) as usize;
    let filled = |number: f32| b.cast(b.constant(Tensor::vector(vec![number; size])), dtype);
    let gain = gain.map_or_else(|| filled(1.0), |gain| b.cast(gain, dtype))?;
    let offset = offset.map_or_else(|| filled(0.0), |offset| b.cast(offset, dtype))?;
    let (mean, variance) = (b.cast(*mean, dtype)?, b.cast(*variance, dtype)?);
    // Channels are the second axis of ONNX.
    let (perm, back) = second(b, rank(b, x)? as i64, axis)?;
    let call = b.batch_normalization(transposed(b, x, &perm)?, gain, offset, mean, variance);
    let y = call.epsilon(a.epsilon).one()?;
    b.cast(transposed(b, y, &back)?, result(&a.dtype))
}

/// A weight of some axes of `x`, for all of them. Keras may have made it with its axes in another order; then it takes
/// the numbers in theirs.
fn spread(b: &GraphBuilder, weight: Var, axes: &[i64], x: Var) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let shape = b.shape_of(x).unwrap_or_default();
    let sizes: Option<Vec<i64>> = axes.iter().map(|axis| shape[*axis as usize].known()).collect();
    let weight = match sizes.filter(|sizes| b.dims_of(weight).is_some_and(|dims| dims != *sizes)) {
        Some(sizes) => b.reshape(weight, sizes).one()?,
        None => weight,
    };
    if is_last(axes, n) {
        return Ok(weight);
    }
    let missing: Vec<i64> =
        (axes[0]..n).filter(|i| !axes.contains(i)).map(|i| i - axes[0]).collect();
    unsqueezed(b, weight, &missing)
}

/// Whether axes in their order are the last ones of `n`.
fn is_last(axes: &[i64], n: i64) -> bool {
    (n - axes.len() as i64..n).eq(axes.iter().copied())
}

/// Axes in their order, each of them once.
fn sorted_axes(b: &GraphBuilder, x: Var, value: &Value) -> Lowered<Vec<i64>> {
    let mut all = axes(b, x, value)?;
    all.sort_unstable();
    all.dedup();
    match all.is_empty() {
        true => Err(b.wrong("The layer normalizes along no axis.")),
        false => Ok(all),
    }
}

fn layer(b: &Lower, a: Layer) -> Lowered<Var> {
    let axes = sorted_axes(b, a.inputs, &a.axis)?;
    let weights = a.weights.unwrap_or_default();
    let has = (a.scale || a.rms_scaling, a.center && !a.rms_scaling);
    let (gain, offset) = gain_and_offset(b, &weights, has)?;
    // Version 2 rounds what goes in to the type of the layer, version 3 what comes out to that of the input.
    let cast_inputs = if a.is_keras2 { b.cast(a.inputs, result(&a.dtype))? } else { a.inputs };
    let x = wide(b, cast_inputs)?;
    let rounded = |y: Var| b.cast(b.cast(y, dtype_of(b, cast_inputs)?)?, result(&a.dtype));
    let dtype = dtype_of(b, x)?;
    let n = rank(b, x)? as i64;
    let fit = |weight: Option<Var>| {
        weight.map(|weight| spread(b, b.cast(weight, dtype)?, &axes, x)).transpose()
    };
    let (gain, offset) = (fit(gain)?, fit(offset)?);
    if is_last(&axes, n) && b.opset() >= 17 && !a.rms_scaling {
        let gain = match gain {
            Some(gain) => Some(gain),
            None => ones(b, x, &axes)?,
        };
        if let Some(gain) = gain {
            let call = b.layer_normalization(x, gain).b(offset).axis(-(axes.len() as i64));
            return rounded(call.epsilon(a.epsilon).one()?);
        }
    }
    let [_, apart, variance] = deviations(b, x, &axes, true)?;
    let deviation = b.sqrt(b.add(variance, a.epsilon)?)?;
    let y = b.div(if a.rms_scaling { x } else { apart }, deviation)?;
    let y = gain.map_or(Ok(y), |gain| b.mul(y, gain))?;
    let y = offset.map_or(Ok(y), |offset| b.add(y, offset))?;
    rounded(y)
}

/// Ones of the sizes that some axes have, if they are known.
fn ones(b: &GraphBuilder, x: Var, axes: &[i64]) -> Lowered<Option<Var>> {
    let shape = b.shape_of(x).unwrap_or_default();
    let sizes: Option<Vec<usize>> =
        axes.iter().map(|axis| usize::try_from(shape.get(*axis as usize)?.known()?).ok()).collect();
    let counted = sizes.and_then(|sizes| Some((element_count(&sizes)?, sizes)));
    let ones = counted.filter(|(count, _)| *count <= ONES_MAX);
    let ones = ones.map(|(count, sizes)| Tensor::from_vec(sizes, vec![1f32; count]));
    ones.map(|ones| b.cast(b.constant(ones), dtype_of(b, x)?)).transpose()
}

fn group(b: &Lower, a: Group) -> Lowered<Var> {
    let axis = axis_of(b, a.inputs, a.axis)? as i64;
    let weights = a.weights.unwrap_or_default();
    let (gain, offset) = gain_and_offset(b, &weights, (a.scale, a.center))?;
    let x = wide(b, a.inputs)?;
    let dtype = dtype_of(b, x)?;
    let n = rank(b, x)? as i64;
    let groups = match (a.groups, size_of(b, x, axis as usize)) {
        (-1, Some(size)) => size,
        (groups, size) if (1..=size.unwrap_or(GROUPS_MAX)).contains(&groups) => groups,
        _ => {
            return Err(b.diagnostic(
                Code::LayerUnsupported,
                "The number of channels is not known, or not one for each group.",
            ));
        }
    };
    let (perm, back) = second(b, n, axis)?;
    let x = transposed(b, x, &perm)?;
    // Each group is normalized as one channel.
    let filled =
        |number: f32| b.cast(b.constant(Tensor::vector(vec![number; groups as usize])), dtype);
    let apart = b.reshape(x, [0, groups, -1]).one()?;
    let call = b.instance_normalization(apart, filled(1.0)?, filled(0.0)?);
    let mut y = b.reshape(call.epsilon(a.epsilon).one()?, b.shape(x).one()?).one()?;
    let behind: Vec<i64> = (1..n - 1).collect();
    let wide = |weight: Var| unsqueezed(b, b.cast(weight, dtype)?, &behind);
    y = gain.map_or(Ok(y), |gain| b.mul(y, wide(gain)?))?;
    y = offset.map_or(Ok(y), |offset| b.add(y, wide(offset)?))?;
    b.cast(transposed(b, y, &back)?, result(&a.dtype))
}

/// What the layer inside computes. Its kernel was normalized in training.
pub(crate) fn spectral(
    called: &Called<'_, '_, '_>,
    given: &CallArgs,
) -> Lowered<Option<Vec<KerasItem>>> {
    let is_spectral = called.layer.class == "SpectralNormalization";
    let inner = called.layer.part("layer").filter(|_| is_spectral);
    inner.map(|inner| called.inner(inner, given.clone())).transpose()
}

/// `x` divided by its length along axes; the square of the length is at least `least`.
pub(crate) fn unit(b: &GraphBuilder, x: Var, axes: &[i64], least: f64) -> Lowered<Var> {
    let square = b.reduce_sum_square(x).axes(axes).keepdims(1).one()?;
    let least = b.constant(crate::ops::create::number(least, dtype_of(b, x)?));
    b.div(x, b.sqrt(b.max([square, least])?)?)
}

fn rms(b: &Lower, a: Rms) -> Lowered<Var> {
    let axes = sorted_axes(b, a.inputs, &a.axis)?;
    let [gain] = exactly(b, &a.weights)?;
    let x = wide(b, a.inputs)?;
    let dtype = dtype_of(b, x)?;
    let square = b.reduce_mean(b.mul(x, x)?).axes(&axes).keepdims(1).one()?;
    let y = b.div(x, b.sqrt(b.add(square, a.epsilon)?)?)?;
    let gain = b.cast(gain, dtype)?;
    // So does the norm of Gemma.
    let gain = if a.counts_from_one { b.add(gain, 1)? } else { gain };
    let y = b.mul(y, spread(b, gain, &axes, x)?)?;
    b.cast(y, dtype_of(b, a.inputs)?)
}
