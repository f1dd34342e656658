//! Convolutions. Filters are as TensorFlow has them: `[spatial..., in, out]`.

use super::{count, weights_and_bias};
use crate::ops::conv::{self, Borders, Padding, Window};
use crate::ops::layout::Channels;
use crate::ops::{Lower, RowContext, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse};
use onnxd_plugin_sdk::ir::Dim;
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Sizes and steps of windows.
const SIZE_MAX: i64 = 1 << 30;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "Conv1D" | "Conv2D" | "Conv3D" => convolution;
        "DepthwiseConv1D" | "DepthwiseConv2D" => depthwise;
        "SeparableConv1D" | "SeparableConv2D" => separable;
        "Conv1DTranspose" | "Conv2DTranspose" | "Conv3DTranspose" => transpose;
    }
}

arguments! {
    /// `Conv2D(filters, kernel_size, strides=(1, 1), padding="valid", data_format=None, dilation_rate=(1, 1), groups=1,
    /// use_bias=True)`
    struct Conv {
        inputs: Var, filters: i64, kernel_size: Vec<i64>, strides: Vec<i64>, padding: String = "valid",
        data_format: String = "channels_last", dilation_rate: Option<Vec<i64>>, groups: i64 = 1, use_bias: bool = true,
        weights: Vec<Var>,
    }
    /// `DepthwiseConv2D(kernel_size, strides=(1, 1), padding="valid", depth_multiplier=1, data_format=None,
    /// dilation_rate=(1, 1), use_bias=True)`
    struct Depthwise {
        inputs: Var, kernel_size: Vec<i64>, strides: Vec<i64>, padding: String = "valid", depth_multiplier: i64 = 1,
        data_format: String = "channels_last", dilation_rate: Option<Vec<i64>>, use_bias: bool = true,
        filters: Option<i64>, groups: Option<i64>, weights: Vec<Var>,
    }
    /// `Conv2DTranspose(filters, kernel_size, strides=(1, 1), padding="valid", output_padding=None, data_format=None,
    /// dilation_rate=(1, 1), use_bias=True)`
    struct Transpose {
        inputs: Var, filters: i64, kernel_size: Vec<i64>, strides: Vec<i64>, padding: String = "valid",
        output_padding: Option<Vec<i64>>, data_format: String = "channels_last", dilation_rate: Option<Vec<i64>>,
        groups: Option<i64>, use_bias: bool = true, weights: Vec<Var>,
    }
}

/// A window as a layer says it. `causal` is nothing behind, and before as much as the window reaches back.
pub(crate) fn window(
    b: &GraphBuilder,
    kernel: &[i64],
    strides: &[i64],
    dilations: Option<Vec<i64>>,
    padding: &str,
    channels: Channels,
) -> Lowered<Window> {
    let n = kernel.len();
    let dilations = dilations.unwrap_or_else(|| vec![1; n]);
    let is_sound =
        |list: &[i64]| list.len() == n && list.iter().all(|x| (1..=SIZE_MAX).contains(x));
    refuse!(n == 0 || !is_sound(kernel) || !is_sound(strides) || !is_sound(&dilations) =>
        b.wrong(format!("The window does not have a size and a step for each of {n} axes.")));
    let padding = match padding {
        "causal" => Padding::Explicit(
            kernel.iter().zip(&dilations).map(|(k, d)| [(k - 1) * d, 0]).collect(),
        ),
        word => Padding::from_word(b, word, &[], channels)?,
    };
    Ok(Window { kernel: kernel.to_vec(), strides: strides.to_vec(), dilations, padding })
}

/// The input of a convolution with channels first. It and the kernel have two axes beside those of the window.
fn first(
    b: &GraphBuilder,
    channels: Channels,
    x: Var,
    kernel: Var,
    window: &Window,
) -> Lowered<Var> {
    let n = window.kernel.len() + 2;
    for (what, tensor) in [("input", x), ("kernel", kernel)] {
        let found = rank(b, tensor)?;
        refuse!(found != n => b.wrong(format!("The {what} of the layer has {found} axes, not {n}.")));
    }
    channels.first(b, x)
}

fn convolution(b: &Lower, a: Conv) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let ([kernel], bias) = weights_and_bias(b, &a.weights, a.use_bias)?;
    let window = window(b, &a.kernel_size, &a.strides, a.dilation_rate, &a.padding, channels)?;
    let x = first(b, channels, a.inputs, kernel, &window)?;
    let w = conv::filter(b, kernel)?;
    channels.back(b, conv::conv(b, x, w, bias, &window, a.groups)?)
}

/// A convolution of each channel by itself, of `x` with channels first.
pub(crate) fn by_channels(
    b: &GraphBuilder,
    x: Var,
    kernel: Var,
    bias: Option<Var>,
    window: &Window,
) -> Lowered<Var> {
    let sizes = conv::sizes(b, kernel)?;
    let Some(group) = sizes.iter().rev().nth(1).copied() else {
        return Err(b.diagnostic(Code::SourceSyntax, "The kernel does not have enough axes."));
    };
    let w = conv::filter(b, conv::depthwise(b, kernel)?)?;
    conv::conv(b, x, w, bias, window, group)
}

fn depthwise(b: &Lower, a: Depthwise) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let ([kernel], bias) = weights_and_bias(b, &a.weights, a.use_bias)?;
    let window = window(b, &a.kernel_size, &a.strides, a.dilation_rate, &a.padding, channels)?;
    let x = first(b, channels, a.inputs, kernel, &window)?;
    channels.back(b, by_channels(b, x, kernel, bias, &window)?)
}

fn separable(b: &Lower, a: Depthwise) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let ([kernel, points], bias) = weights_and_bias(b, &a.weights, a.use_bias)?;
    let window = window(b, &a.kernel_size, &a.strides, a.dilation_rate, &a.padding, channels)?;
    let x = first(b, channels, a.inputs, kernel, &window)?;
    channels.back(b, separated(b, x, [kernel, points], bias, &window)?)
}

/// A convolution of each channel by itself, and one of all of them at each place.
pub(crate) fn separated(
    b: &GraphBuilder,
    x: Var,
    [kernel, points]: [Var; 2],
    bias: Option<Var>,
    window: &Window,
) -> Lowered<Var> {
    let x = by_channels(b, x, kernel, None, window)?;
    let ones = vec![1; window.kernel.len()];
    let (strides, dilations) = (ones.clone(), ones.clone());
    let point = Window { kernel: ones, strides, dilations, padding: Padding::Valid };
    conv::conv(b, x, conv::filter(b, points)?, bias, &point, 1)
}

/// The size of a transposed convolution's result: as large as the padding makes it, unless `output_padding` says it.
fn size_of(window: &Window, axis: usize, size: Option<i64>, more: Option<i64>) -> Option<i64> {
    let stride = window.strides[axis];
    let reach = window.reach(axis);
    let more_than = |size: i64, more: i64| size.checked_mul(stride)?.checked_add(more);
    match (more, &window.padding) {
        (None, Padding::Same) => more_than(size?, 0),
        (None, _) => more_than(size?, (reach - stride).max(0)),
        (Some(more), padding) => {
            let cut = if *padding == Padding::Same { 2 * (reach / 2) } else { 0 };
            more_than(size? - 1, (reach - cut).checked_add(more)?)
        }
    }
}

fn transpose(b: &Lower, a: Transpose) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let ([kernel], bias) = weights_and_bias(b, &a.weights, a.use_bias)?;
    let window = window(b, &a.kernel_size, &a.strides, a.dilation_rate, &a.padding, channels)?;
    let x = first(b, channels, a.inputs, kernel, &window)?;
    let y = transposed(b, x, kernel, bias, &window, a.output_padding.as_deref())?;
    channels.back(b, y)
}

/// A transposed convolution of `x` with channels first.
pub(crate) fn transposed(
    b: &GraphBuilder,
    x: Var,
    kernel: Var,
    bias: Option<Var>,
    window: &Window,
    output_padding: Option<&[i64]>,
) -> Lowered<Var> {
    window.check(b, x)?;
    for more in output_padding.unwrap_or_default() {
        count(b, "rows or columns", *more)?;
    }
    let shape = b.shape_of(x).unwrap_or_default();
    let mut borders = Borders::default();
    for axis in 0..window.kernel.len() {
        // What is cut off does not depend on the size; any will do where it is not known.
        let size = shape.get(axis + 2).and_then(Dim::known).unwrap_or(2).min(SIZE_MAX);
        let more = output_padding.and_then(|more| more.get(axis).copied());
        borders.axis(window, axis, Some(size), size_of(window, axis, Some(size), more));
    }
    conv::conv_transpose(b, x, conv::filter(b, kernel)?, bias, (window, &borders), 1)
}
