//! Functions of networks: activations, windows, normalization, losses.

use super::elementwise::{One, any};
use super::promote::{named_if, not_half, tensor};
use super::shapes::{list, new_axis};
use crate::keras::rows::activation::named;
use crate::keras::rows::attention;
use crate::keras::rows::conv::{by_channels, separated};
use crate::keras::rows::count;
use crate::ops::activation::{gelu, leaky};
use crate::ops::complex::of_parts;
use crate::ops::conv::{self, Window};
use crate::ops::create::{number, scalar};
use crate::ops::layout::Channels;
use crate::ops::pool::{average_pool, max_pool};
use crate::ops::reduce::deviations;
use crate::ops::shape::{DimSize, axis_of, size, sized};
use crate::ops::{Lower, RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = activations(table);
    let table = windows(table);
    let table = losses(table);
    crate::ops::rows! { table;
        "ops.OneHot" => |b, a: OneHot| one_hot(b, &a);
        "ops.MultiHot" => |b, a: OneHot| {
            let hot = one_hot(b, &a)?;
            let axis = if rank(b, a.x)? > 1 { 1 } else { 0 };
            let dtype = dtype_of(b, hot)?;
            let most = b.reduce_max(b.cast(hot, Float)?).axes([axis]).keepdims(0).one()?;
            b.cast(most, dtype)
        };
        "ops.Normalize" => normalize;
        "ops.RMSNorm" => |b, a: Rms| {
            let x = not_half(b, a.x)?;
            let square = b.reduce_mean(b.mul(x, x)?).axes(list(b, &a.axis)?).keepdims(1).one()?;
            let root = b.sqrt(b.add(square, a.epsilon.unwrap_or(1e-7))?)?;
            let y = b.div(x, root)?;
            let y = a.scale.map_or(Ok(y), |scale| b.mul(y, b.cast(scale, dtype_of(b, y)?)?))?;
            b.cast(y, dtype_of(b, a.x)?)
        };
        "ops.LayerNorm" => layer_norm;
        "ops.BatchNorm" => batch_norm;
        "ops.DotProductAttention" => |b, a: Attend| {
            refuse!(a.attn_logits_soft_cap.is_some() => b.unsupported("`attn_logits_soft_cap` is not converted."));
            let options = attention::ScoreOptions {
                causal: a.is_causal, scale: a.scale,  bias: a.bias, mask: a.mask,
                ..attention::ScoreOptions::default()
            };
            attention::over_heads(b, [a.query, a.key, a.value], options)
        };
    }
}

arguments! {
    /// `OneHot(x; num_classes, axis=-1, dtype=None, sparse=False)`
    struct OneHot { x: Var, num_classes: i64, axis: i64 = -1, dtype: Option<String>, sparse: bool = false }
    /// `Normalize(x; axis=-1, order=2, epsilon=None)`
    struct Normalize { x: Var, axis: Operand = -1i64, order: i64 = 2, epsilon: Option<f64> }
    /// `RMSNorm(x, scale=None; axis=-1, epsilon=None)`
    struct Rms { x: Var, scale: Option<Var>, axis: Operand = -1i64, epsilon: Option<f64> }
    /// `LayerNorm(x, gamma=None, beta=None; axis=-1, epsilon=None, rms_scaling=False)`
    struct LayerNorm {
        x: Var, gamma: Option<Var>, beta: Option<Var>, axis: Operand = -1i64,
        epsilon: Option<f64>, rms_scaling: bool = false,
    }
    /// `BatchNorm(x, mean, variance, offset=None, scale=None; axis, epsilon=1e-3)`
    struct BatchNorm {
        x: Var, mean: Var, variance: Var, offset: Option<Var>, scale: Option<Var>, axis: i64, epsilon: f64 = 1e-3,
    }
    /// `DotProductAttention(query, key, value, bias=None, mask=None, scale=None; is_causal=False, flash_attention=None,
    /// attn_logits_soft_cap=None)`
    struct Attend {
        query: Var, key: Var, value: Var, bias: Option<Var>, mask: Option<Var>, scale: Option<f64>,
        is_causal: bool = false, flash_attention: Option<bool>, attn_logits_soft_cap: Option<f64>,
    }
    /// `Softmax(x; axis=-1)`
    struct Softmax { x: Var, axis: Option<i64> }
    /// `Elu(x; alpha=1.0)`
    struct Alpha { x: Var, alpha: f64 = 1.0 }
    /// `LeakyRelu(x; negative_slope=0.2)`
    struct Leaky { x: Var, negative_slope: f64 = 0.2 }
    /// `Gelu(x; approximate=True)`
    struct Gelu { x: Var, approximate: bool = true }
    /// `HardShrink(x; threshold=0.5)`
    struct Shrink { x: Var, threshold: f64 = 0.5 }
    /// `Squareplus(x; b=4)`
    struct Squareplus { x: Var, b: f64 = 4.0 }
    /// `Glu(x; axis=-1)`
    struct Glu { x: Var, axis: i64 = -1 }
    /// `MaxPool(inputs; pool_size, strides=None, padding="valid", data_format=None)`
    struct Pool {
        inputs: Var, pool_size: Operand, strides: Operand = Operand::Absent, padding: String = "valid",
        data_format: String = "channels_last",
    }
    /// `Conv(inputs, kernel; strides=1, padding="valid", data_format=None, dilation_rate=1)`
    struct Conv {
        inputs: Var, kernel: Var, strides: Operand = 1i64, padding: String = "valid",
        data_format: String = "channels_last", dilation_rate: Operand = 1i64,
    }
    /// `SeparableConv(inputs, depthwise_kernel, pointwise_kernel; strides=1, padding="valid", data_format=None,
    /// dilation_rate=1)`
    struct Separable {
        inputs: Var, depthwise_kernel: Var, pointwise_kernel: Var, strides: Operand = 1i64,
        padding: String = "valid", data_format: String = "channels_last", dilation_rate: Operand = 1i64,
    }
    /// `DepthToSpace(x; block_size, data_format="channels_last")`
    struct Blocks { x: Var, block_size: i64, data_format: String = "channels_last" }
    /// `BinaryCrossentropy(target, output; from_logits=False)`
    struct Loss { target: Value, output: Var, from_logits: bool = false, axis: i64 = -1 }
}

fn activations(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.Relu" => |b, a: One| {
            let x = any(b, &a.x)?;
            // Runtimes know no Relu of numbers that have no sign.
            if dtype_of(b, x)?.is_float() { b.relu(x) } else { b.max([x, b.constant(scalar(0, dtype_of(b, x)?))]) }
        };
        "ops.Relu6" => |b, a: One| named(b, "relu6", any(b, &a.x)?);
        "ops.Sigmoid" => |b, a: One| named(b, "sigmoid", any(b, &a.x)?);
        "ops.SparseSigmoid" => |b, a: One| named(b, "sparse_sigmoid", any(b, &a.x)?);
        "ops.Silu" => |b, a: One| named(b, "silu", any(b, &a.x)?);
        "ops.Selu" => |b, a: One| named(b, "selu", any(b, &a.x)?);
        "ops.Softplus" => |b, a: One| named(b, "softplus", any(b, &a.x)?);
        "ops.Softsign" => |b, a: One| named(b, "softsign", any(b, &a.x)?);
        "ops.SparsePlus" => |b, a: One| named(b, "sparse_plus", any(b, &a.x)?);
        "ops.LogSigmoid" => |b, a: One| named(b, "log_sigmoid", any(b, &a.x)?);
        "ops.HardSigmoid" => |b, a: One| named(b, "hard_sigmoid", any(b, &a.x)?);
        "ops.HardSilu" => |b, a: One| named(b, "hard_silu", any(b, &a.x)?);
        "ops.HardTanh" => |b, a: One| named(b, "hard_tanh", any(b, &a.x)?);
        "ops.TanhShrink" => |b, a: One| named(b, "tanh_shrink", any(b, &a.x)?);
        "ops.Elu" => |b, a: Alpha| b.elu(a.x).alpha(a.alpha).one();
        "ops.Celu" => |b, a: Alpha| b.celu(a.x).alpha(a.alpha).one();
        "ops.LeakyRelu" => |b, a: Leaky| leaky(b, a.x, a.negative_slope);
        "ops.Gelu" => |b, a: Gelu| gelu(b, a.x, a.approximate);
        "ops.HardShrink" => |b, a: Shrink| b.shrink(a.x).lambd(a.threshold).one();
        "ops.SoftShrink" => |b, a: Shrink| b.shrink(a.x).lambd(a.threshold).bias(a.threshold).one();
        "ops.Threshold" => |b, x: Var, threshold: f64, default_value: f64| {
            let other = b.constant(number(default_value, dtype_of(b, x)?));
            b.where_(b.greater(x, threshold)?, x, other)
        };
        "ops.Squareplus" => |b, a: Squareplus| {
            let root = b.sqrt(b.add(b.mul(a.x, a.x)?, a.b)?)?;
            b.mul(b.add(a.x, root)?, 0.5)
        };
        "ops.Glu" => |b, a: Glu| {
            let axis = axis_of(b, a.x, a.axis)?;
            let size = size_of(b, a.x, axis).filter(|size| size % 2 == 0);
            let size = size.ok_or_else(|| b.unsupported(format!("The size of axis {axis} must be known and even.")))?;
            let parts = b.split(a.x).split(vec![size / 2; 2]).axis(axis as i64).list(2)?;
            b.mul(parts[0], b.sigmoid(parts[1])?)
        };
        "ops.Softmax" => |b, a: Softmax| over_axis(b, &a, |b, x, axis| b.softmax(x).axis(axis).one());
        "ops.LogSoftmax" => |b, a: Softmax| over_axis(b, &a, |b, x, axis| b.log_softmax(x).axis(axis).one());
        "ops.Sparsemax" => |b, a: Softmax| {
            let axis = a.axis.unwrap_or(-1);
            let turned = super::shapes::moved(b, a.x, &[axis], &[-1])?;
            super::shapes::moved(b, named(b, "sparsemax", turned)?, &[-1], &[axis])
        };
    }
}

/// Along an axis, or over all elements.
fn over_axis(
    b: &Lower,
    a: &Softmax,
    f: fn(&GraphBuilder, Var, i64) -> Lowered<Var>,
) -> Lowered<Var> {
    match a.axis {
        Some(axis) => f(b, a.x, axis),
        None => {
            let y = f(b, b.reshape(a.x, [-1]).one()?, 0)?;
            b.reshape(y, b.shape(a.x).one()?).one()
        }
    }
}

fn one_hot(b: &Lower, a: &OneHot) -> Lowered<Var> {
    refuse!(a.sparse => b.unsupported("ONNX has no sparse tensors to compute with."));
    let to = named_if(b, a.dtype.as_ref())?.unwrap_or(Float);
    hot(b, b.cast(a.x, Int64)?, a.num_classes, a.axis, to)
}

/// Ones at classes along a new axis; places outside have none.
pub(crate) fn hot(
    b: &GraphBuilder,
    x: Var,
    classes: i64,
    axis: i64,
    to: onnxd_plugin_sdk::ir::DataType,
) -> Lowered<Var> {
    let n = rank(b, x)? as i64 + 1;
    let axis = new_axis(b, axis, n)?;
    let classes = count(b, "classes", classes)?;
    let all = b.constant(onnxd_plugin_sdk::ir::Tensor::vector((0..classes).collect::<Vec<i64>>()));
    let all = crate::ops::shape::unsqueezed(b, all, &(1..n - axis).collect::<Vec<i64>>())?;
    b.cast(b.equal(b.unsqueeze(x, [axis])?, all)?, to)
}

fn normalize(b: &Lower, a: Normalize) -> Lowered<Var> {
    let axes = list(b, &a.axis)?;
    let least = a.epsilon.unwrap_or(1e-7);
    if a.order == 2 {
        let square = b.reduce_sum_square(a.x).axes(axes).keepdims(1).one()?;
        let floor = b.constant(number(least * least, dtype_of(b, square)?));
        return b.div(a.x, b.sqrt(b.max([square, floor])?)?);
    }
    let power = b.constant(number(a.order as f64, dtype_of(b, a.x)?));
    let sum = b.reduce_sum(b.pow(b.abs(a.x)?, power)?).axes(axes).keepdims(1).one()?;
    let root = b.constant(number(1.0 / a.order as f64, dtype_of(b, sum)?));
    let floor = b.constant(number(least, dtype_of(b, sum)?));
    b.div(a.x, b.max([b.pow(sum, root)?, floor])?)
}

fn layer_norm(b: &Lower, a: LayerNorm) -> Lowered<Var> {
    let dtype = dtype_of(b, a.x)?;
    let axes = list(b, &a.axis)?;
    let x = not_half(b, a.x)?;
    let along = |v: Var| along(b, b.cast(v, dtype_of(b, x)?)?, x, &axes);
    let [_, apart, variance] = deviations(b, x, &axes, true)?;
    let root = b.sqrt(b.add(variance, a.epsilon.unwrap_or(1e-7))?)?;
    // Keras scales by the variance then, but does not move the mean.
    let mut y = b.div(if a.rms_scaling { x } else { apart }, root)?;
    if let Some(gamma) = a.gamma {
        y = b.mul(y, along(gamma)?)?;
    }
    if let Some(beta) = a.beta.filter(|_| !a.rms_scaling) {
        y = b.add(y, along(beta)?)?;
    }
    b.cast(y, dtype)
}

/// Parameters of some axes of `x`, which broadcast over the others.
fn along(b: &GraphBuilder, v: Var, x: Var, axes: &[i64]) -> Lowered<Var> {
    let n = rank(b, x)?;
    if rank(b, v)? == n {
        return Ok(v);
    }
    let axes = axes.iter().map(|axis| axis_of(b, x, *axis)).collect::<Lowered<Vec<_>>>()?;
    let sizes =
        (0..n).map(|i| if axes.contains(&i) { size(b, x, i) } else { Ok(DimSize::Known(1)) });
    sized(b, v, &sizes.collect::<Lowered<Vec<_>>>()?)
}

fn batch_norm(b: &Lower, a: BatchNorm) -> Lowered<Var> {
    let n = rank(b, a.x)? as i64;
    let axis = axis_of(b, a.x, a.axis)? as i64;
    let behind: Vec<i64> = (1..n - axis).collect();
    let wide = |v: Var| crate::ops::shape::unsqueezed(b, v, &behind);
    let root = b.sqrt(b.add(wide(a.variance)?, a.epsilon)?)?;
    let mut y = b.div(b.sub(a.x, wide(a.mean)?)?, root)?;
    if let Some(scale) = a.scale {
        y = b.mul(y, wide(scale)?)?;
    }
    a.offset.map_or(Ok(y), |offset| b.add(y, wide(offset)?))
}

fn windows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.MaxPool" => |b, a: Pool| pool(b, a, max_pool);
        "ops.AveragePool" => |b, a: Pool| pool(b, a, average_pool);
        "ops.Conv" => |b, a: Conv| {
            let channels = Channels::from_format(b, &a.data_format)?;
            let sizes = filter_sizes(b, a.inputs, a.kernel)?;
            let n = sizes.len() - 2;
            let window = window(b, &sizes[..n], [&a.strides, &a.dilation_rate], &a.padding, channels)?;
            channels.within(b, a.inputs, |x| {
                let inner = size_of(b, x, 1).unwrap_or(sizes[n]);
                let w = conv::filter(b, a.kernel)?;
                conv::conv(b, x, w, None, &window, (inner / sizes[n].max(1)).max(1))
            })
        };
        "ops.DepthwiseConv" => |b, a: Conv| {
            let channels = Channels::from_format(b, &a.data_format)?;
            let sizes = filter_sizes(b, a.inputs, a.kernel)?;
            let window = window(b, &sizes[..sizes.len() - 2], [&a.strides, &a.dilation_rate], &a.padding, channels)?;
            channels.within(b, a.inputs, |x| by_channels(b, x, a.kernel, None, &window))
        };
        "ops.SeparableConv" => |b, a: Separable| {
            let channels = Channels::from_format(b, &a.data_format)?;
            let sizes = filter_sizes(b, a.inputs, a.depthwise_kernel)?;
            filter_sizes(b, a.inputs, a.pointwise_kernel)?;
            let window = window(b, &sizes[..sizes.len() - 2], [&a.strides, &a.dilation_rate], &a.padding, channels)?;
            channels.within(b, a.inputs, |x| {
                separated(b, x, [a.depthwise_kernel, a.pointwise_kernel], None, &window)
            })
        };
        "ops.DepthToSpace" => |b, a: Blocks| {
            let channels = Channels::from_format(b, &a.data_format)?;
            channels.within(b, a.x, |x| b.depth_to_space(x).blocksize(a.block_size).one())
        };
        "ops.SpaceToDepth" => |b, a: Blocks| {
            let channels = Channels::from_format(b, &a.data_format)?;
            channels.within(b, a.x, |x| b.space_to_depth(x).blocksize(a.block_size).one())
        };
    }
}

/// A number for each of `n` axes; 1 where nothing is said.
///
/// # Errors
/// `N0204` if there is another count of numbers.
pub(crate) fn for_each(b: &GraphBuilder, x: &Operand, n: usize) -> Lowered<Vec<i64>> {
    match list(b, x)? {
        all if all.is_empty() => Ok(vec![1; n]),
        all if all.len() == n => Ok(all),
        all if all.len() == 1 => Ok(vec![all[0]; n]),
        all => Err(b.wrong(format!("The window has {} numbers for {n} axes.", all.len()))),
    }
}

/// The sizes of a filter that has as many axes as what it is moved over.
pub(crate) fn filter_sizes(b: &GraphBuilder, x: Var, kernel: Var) -> Lowered<Vec<i64>> {
    let (sizes, n) = (conv::sizes(b, kernel)?, rank(b, x)?);
    if sizes.len() == n && n > 2 {
        return Ok(sizes);
    }
    Err(b.wrong(format!("A kernel of {} axes does not fit an input of {n}.", sizes.len())))
}

pub(crate) fn window(
    b: &Lower,
    kernel: &[i64],
    [strides, dilations]: [&Operand; 2],
    padding: &str,
    channels: Channels,
) -> Lowered<Window> {
    let n = kernel.len();
    let (strides, dilations) = (for_each(b, strides, n)?, for_each(b, dilations, n)?);
    crate::keras::rows::window(b, kernel, &strides, Some(dilations), padding, channels)
}

type Pooled = fn(&GraphBuilder, Var, &Window) -> Lowered<Var>;

fn pool(b: &Lower, a: Pool, f: Pooled) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let n = rank(b, a.inputs)?.saturating_sub(2);
    let sizes = for_each(b, &a.pool_size, n)?;
    let strides = if matches!(a.strides, Operand::Absent) { &a.pool_size } else { &a.strides };
    let window = window(b, &sizes, [strides, &Operand::Int(1)], &a.padding, channels)?;
    channels.within(b, a.inputs, |x| f(b, x, &window))
}

fn losses(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.BinaryCrossentropy" => |b, a: Loss| {
            let target = tensor(b, &a.target, dtype_of(b, a.output)?)?;
            let x = a.output;
            if a.from_logits {
                let rest = b.softplus(b.neg(b.abs(x)?)?)?;
                return b.add(b.sub(b.relu(x)?, b.mul(x, target)?)?, rest);
            }
            let x = b.clip(x).min(1e-7).max(1.0 - 1e-7).one()?;
            let hit = b.mul(target, b.log(x)?)?;
            let miss = b.mul(b.sub(1.0, target)?, b.log(b.sub(1.0, x)?)?)?;
            b.neg(b.add(hit, miss)?)
        };
        "ops.CategoricalCrossentropy" => |b, a: Loss| {
            let target = tensor(b, &a.target, dtype_of(b, a.output)?)?;
            let logs = logarithms(b, &a, true)?;
            b.neg(b.reduce_sum(b.mul(target, logs)?).axes([a.axis]).keepdims(0).one()?)
        };
        "ops.SparseCategoricalCrossentropy" => |b, a: Loss| {
            let logs = b.log_softmax(logarithms(b, &a, false)?).axis(-1).one()?;
            let target = tensor(b, &a.target, Int64)?;
            let is_flat = rank(b, target)? + 1 == rank(b, a.output)?;
            let at = if is_flat { b.unsqueeze(target, [-1])? } else { target };
            b.neg(b.squeeze(b.gather_elements(logs, at).axis(-1).one()?).axes([-1]).one()?)
        };
        "ops.PSNR" => |b, x1: Var, x2: Var, max_val: f64| {
            let apart = b.sub(x1, x2)?;
            let mean = b.reduce_mean(b.mul(apart, apart)?).keepdims(0).one()?;
            let ratio = b.div(b.log(mean)?, std::f64::consts::LN_10)?;
            b.sub(20.0 * max_val.log10(), b.mul(ratio, 10.0)?)
        };
        "ops.Polar" => |b, abs_: Var, angle: Var| {
            of_parts(b, [b.mul(abs_, b.cos(angle)?)?, b.mul(abs_, b.sin(angle)?)?])
        };
    }
}

/// Logarithms of probabilities, which are made to sum to one if `whole`.
fn logarithms(b: &Lower, a: &Loss, whole: bool) -> Lowered<Var> {
    if a.from_logits {
        return if whole { b.log_softmax(a.output).axis(a.axis).one() } else { Ok(a.output) };
    }
    let mut x = a.output;
    if whole {
        x = b.div(x, b.reduce_sum(x).axes([a.axis]).keepdims(1).one()?)?;
    }
    b.log(b.clip(x).min(1e-7).max(1.0 - 1e-7).one()?)
}
