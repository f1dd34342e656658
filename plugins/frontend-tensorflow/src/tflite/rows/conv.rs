//! Convolutions, their transposes, and pools. Pictures have channels last.

use super::size_of;
use crate::ops::conv::{Borders, Padding, Window, conv, conv_transpose, element, filter, sizes};
use crate::ops::layout::{Channels, channels_first, channels_last};
use crate::ops::pool::{average_pool, max_pool};
use crate::ops::shape::transposed;
use crate::ops::{Lower, RowContext, rows};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(super) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    rows! { table;
        "CONV_2D" => conv_2d;
        "DEPTHWISE_CONV_2D" => depthwise;
        "TRANSPOSE_CONV" => transpose_conv;
        "CONV_3D" => conv_3d;
        "CONV_3D_TRANSPOSE" => conv_3d_transpose;
        "AVERAGE_POOL_2D" => |b, a: Pool| pooled(b, &a, |b, x, window| average_pool(b, x, window));
        "MAX_POOL_2D" => |b, a: Pool| pooled(b, &a, |b, x, window| max_pool(b, x, window));
        "L2_POOL_2D" => |b, a: Pool| {
            pooled(b, &a, |b, x, window| b.sqrt(average_pool(b, b.mul(x, x)?, window)?))
        };
    }
}

arguments! {
    /// `CONV_2D(input, filter, bias?)`: the filter is `[out, h, w, in]`.
    struct Conv2d {
        input: Var, filter: Var, bias: Option<Var>, padding: String, stride_w: i64, stride_h: i64,
        dilation_w_factor: i64 = 1, dilation_h_factor: i64 = 1, depth_multiplier: i64 = 0,
    }
    /// `TRANSPOSE_CONV(output_shape, weights, input, bias?)`: the filter is `[out, h, w, in]`.
    struct TransposeConv {
        output_shape: Var, weights: Var, input: Var, bias: Option<Var>, padding: String, stride_w: i64,
        stride_h: i64,
    }
    /// `CONV_3D(input, filter, bias?)`: the filter is `[d, h, w, in, out]`.
    struct Conv3d {
        input: Var, filter: Var, bias: Option<Var>, padding: String, stride_d: i64, stride_w: i64, stride_h: i64,
        dilation_d_factor: i64 = 1, dilation_w_factor: i64 = 1, dilation_h_factor: i64 = 1,
    }
    /// `CONV_3D_TRANSPOSE(output_shape, filter, input, bias?)`: the filter is `[d, h, w, out, in]`.
    struct Conv3dTranspose {
        output_shape: Var, filter: Var, input: Var, bias: Option<Var>, padding: String, stride_d: i64,
        stride_w: i64, stride_h: i64, dilation_d_factor: i64 = 1, dilation_w_factor: i64 = 1,
        dilation_h_factor: i64 = 1,
    }
    /// `AVERAGE_POOL_2D(input)`
    struct Pool {
        input: Var, padding: String, stride_w: i64, stride_h: i64, filter_width: i64, filter_height: i64,
    }
}

fn window(
    b: &Lower,
    kernel: &[i64],
    strides: &[i64],
    dilations: &[i64],
    padding: &str,
) -> Lowered<Window> {
    Ok(Window {
        kernel: kernel.to_vec(),
        strides: strides.to_vec(),
        dilations: dilations.to_vec(),
        padding: Padding::from_word(b, padding, &[], Channels::Last)?,
    })
}

impl Conv2d {
    fn window(&self, b: &Lower, kernel: &[i64]) -> Lowered<Window> {
        let strides = [self.stride_h, self.stride_w];
        let dilations = [self.dilation_h_factor, self.dilation_w_factor];
        window(b, kernel, &strides, &dilations, &self.padding)
    }
}

fn conv_2d(b: &Lower, a: Conv2d) -> Lowered<Var> {
    let [_, h, w, inputs] = filter_2d(b, a.filter)?;
    let x = channels_first(b, a.input)?;
    let group = size_of(b, x, 1).map_or(1, |channels| channels / inputs.max(1));
    let filter = transposed(b, a.filter, &[0, 3, 1, 2])?;
    channels_last(b, conv(b, x, filter, a.bias, &a.window(b, &[h, w])?, group)?)
}

/// The filter `[1, h, w, out]` has one input for each of its outputs.
fn depthwise(b: &Lower, a: Conv2d) -> Lowered<Var> {
    let [_, h, w, outputs] = filter_2d(b, a.filter)?;
    let x = channels_first(b, a.input)?;
    let known = || (a.depth_multiplier > 0).then(|| outputs / a.depth_multiplier);
    let Some(group) = size_of(b, x, 1).or_else(known) else {
        let message = "The number of channels is not known, nor how many filters each has.";
        return Err(b.unsupported(message));
    };
    let filter = transposed(b, a.filter, &[3, 0, 1, 2])?;
    channels_last(b, conv(b, x, filter, a.bias, &a.window(b, &[h, w])?, group)?)
}

/// The sizes of a filter of pictures.
fn filter_2d(b: &Lower, w: Var) -> Lowered<[i64; 4]> {
    let dims = sizes(b, w)?;
    dims.as_slice().try_into().map_err(|_| {
        let message = format!("The filter must have 4 axes, found {}.", dims.len());
        b.wrong(message)
    })
}

fn transpose_conv(b: &Lower, a: TransposeConv) -> Lowered<Var> {
    let [_, h, w, _] = filter_2d(b, a.weights)?;
    let window = window(b, &[h, w], &[a.stride_h, a.stride_w], &[1, 1], &a.padding)?;
    let filter = transposed(b, a.weights, &[3, 0, 1, 2])?;
    transposed_by(b, [a.input, filter, a.output_shape], a.bias, &window)
}

/// A transposed convolution by a filter of ONNX whose result has known sizes.
fn transposed_by(
    b: &Lower,
    [x, filter, output_shape]: [Var; 3],
    bias: Option<Var>,
    window: &Window,
) -> Lowered<Var> {
    let x = channels_first(b, x)?;
    let mut borders = Borders::default();
    for axis in 0..window.kernel.len() {
        borders.axis(window, axis, size_of(b, x, axis + 2), element(b, output_shape, axis + 1));
    }
    channels_last(b, conv_transpose(b, x, filter, bias, (window, &borders), 1)?)
}

fn conv_3d(b: &Lower, a: Conv3d) -> Lowered<Var> {
    let dims = sizes(b, a.filter)?;
    let strides = [a.stride_d, a.stride_h, a.stride_w];
    let dilations = [a.dilation_d_factor, a.dilation_h_factor, a.dilation_w_factor];
    let window = window(b, &dims[..dims.len().min(3)], &strides, &dilations, &a.padding)?;
    let x = channels_first(b, a.input)?;
    let inputs = dims.get(3).copied().unwrap_or(1).max(1);
    let group = size_of(b, x, 1).map_or(1, |channels| channels / inputs);
    channels_last(b, conv(b, x, filter(b, a.filter)?, a.bias, &window, group)?)
}

fn conv_3d_transpose(b: &Lower, a: Conv3dTranspose) -> Lowered<Var> {
    let dims = sizes(b, a.filter)?;
    let strides = [a.stride_d, a.stride_h, a.stride_w];
    let dilations = [a.dilation_d_factor, a.dilation_h_factor, a.dilation_w_factor];
    let window = window(b, &dims[..dims.len().min(3)], &strides, &dilations, &a.padding)?;
    transposed_by(b, [a.input, filter(b, a.filter)?, a.output_shape], a.bias, &window)
}

fn pooled(b: &Lower, a: &Pool, pool: fn(&Lower, Var, &Window) -> Lowered<Var>) -> Lowered<Var> {
    let kernel = [a.filter_height, a.filter_width];
    let window = window(b, &kernel, &[a.stride_h, a.stride_w], &[1, 1], &a.padding)?;
    channels_last(b, pool(b, channels_first(b, a.input)?, &window)?)
}
