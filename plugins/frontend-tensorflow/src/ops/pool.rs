//! Pooling and patches.

use super::conv::{Padding, Window, unless_ones};
use super::layout::Channels;
use super::{Lower, RowContext, dtype_of};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::DataType::{Double, Float, Int8, Uint8};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "MaxPool" | "MaxPoolV2" | "MaxPool3D" => max;
        "AvgPool" => |b, value: Var, ksize: Vec<i64>, strides: Vec<i64>, padding: String, data_format: String| {
            average(b, value, &ksize, &strides, &padding, &data_format)
        };
        "AvgPool3D" => |b, input: Var, ksize: Vec<i64>, strides: Vec<i64>, padding: String, data_format: String| {
            average(b, input, &ksize, &strides, &padding, &data_format)
        };
        "MaxPoolWithArgmax" => with_argmax;
    }
}

arguments! {
    /// `MaxPool`
    struct Max {
        input: Var, ksize: Vec<i64>, strides: Vec<i64>, padding: String, explicit_paddings: Option<Vec<i64>>,
        data_format: String,
    }
    /// `MaxPoolWithArgmax`
    struct WithArgmax {
        input: Var, ksize: Vec<i64>, strides: Vec<i64>, targmax: ElementType, padding: String,
        include_batch_in_index: bool,
    }
}

/// The largest elements under windows. A window over channels has them as one more spatial axis.
fn max(b: &Lower, a: Max) -> Lowered<Var> {
    let channels = Channels::from_format(b, &a.data_format)?;
    let explicit = a.explicit_paddings.unwrap_or_default();
    let padding = Padding::from_word(b, &a.padding, &explicit, channels)?;
    let over_channels = channels == Channels::Last && a.ksize.last().is_some_and(|n| *n != 1);
    if over_channels {
        let window = Window {
            kernel: a.ksize[1..].to_vec(),
            strides: a.strides.get(1..).unwrap_or_default().to_vec(),
            dilations: vec![1; a.ksize.len() - 1],
            padding,
        };
        let y = max_pool(b, b.unsqueeze(a.input, [1])?, &window)?;
        return b.squeeze(y).axes([1]).one();
    }
    let window = window(channels, &a.ksize, &a.strides, padding);
    channels.back(b, max_pool(b, channels.first(b, a.input)?, &window)?)
}

fn window(channels: Channels, ksize: &[i64], strides: &[i64], padding: Padding) -> Window {
    let kernel = channels.spatial(ksize);
    Window { strides: channels.spatial(strides), dilations: vec![1; kernel.len()], kernel, padding }
}

/// The largest elements under windows over `x` with channels first.
pub(crate) fn max_pool(b: &GraphBuilder, x: Var, window: &Window) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        Int8 | Uint8 => dtype,
        d if d.is_float() => d,
        d if d.bits() < 32 => Float,
        _ => Double,
    };
    let pads = window.pads(b, x)?;
    let (pads, auto_pad) = pads.attributes();
    let call = b.max_pool(b.cast(x, computed)?).kernel_shape(&window.kernel).pads(pads);
    let y = call.auto_pad(auto_pad).strides(unless_ones(&window.strides)).one()?;
    b.cast(y, dtype)
}

/// Means under windows over `x` with channels first; what is around the input does not count.
pub(crate) fn average_pool(b: &GraphBuilder, x: Var, window: &Window) -> Lowered<Var> {
    let pads = window.pads(b, x)?;
    let (pads, auto_pad) = pads.attributes();
    let call = b.average_pool(x).kernel_shape(&window.kernel).pads(pads).auto_pad(auto_pad);
    call.strides(unless_ones(&window.strides)).one()
}

fn average(
    b: &Lower,
    x: Var,
    ksize: &[i64],
    strides: &[i64],
    padding: &str,
    format: &str,
) -> Lowered<Var> {
    let channels = Channels::from_format(b, format)?;
    let window = window(channels, ksize, strides, Padding::from_word(b, padding, &[], channels)?);
    channels.back(b, average_pool(b, channels.first(b, x)?, &window)?)
}

/// ONNX counts places with channels first over the whole tensor, TensorFlow with channels last, without the batch
/// unless it is asked for.
fn with_argmax(b: &Lower, a: WithArgmax) -> Lowered<[Var; 2]> {
    let channels = Channels::Last;
    let window =
        window(channels, &a.ksize, &a.strides, Padding::from_word(b, &a.padding, &[], channels)?);
    let x = channels.first(b, a.input)?;
    let pads = window.pads(b, x)?;
    let (pads, auto_pad) = pads.attributes();
    let call = b.max_pool(x).kernel_shape(&window.kernel).pads(pads).auto_pad(auto_pad);
    let [y, at] = call.strides(unless_ones(&window.strides)).outputs()?;
    let shape = b.shape(x).one()?;
    let size = |axis: i64| b.gather(shape, axis).axis(0).one();
    let (count, plane) = (size(1)?, b.mul(size(2)?, size(3)?)?);
    let (place, above) = (b.mod_(at, plane).one()?, b.div(at, plane)?);
    let channel = b.mod_(above, count).one()?;
    let mut index = b.add(b.mul(place, count)?, channel)?;
    if a.include_batch_in_index {
        let sample = b.div(above, count)?;
        index = b.add(index, b.mul(sample, b.mul(plane, count)?)?)?;
    }
    Ok([channels.back(b, y)?, b.cast(channels.back(b, index)?, a.targmax.0)?])
}
