//! Pooling with windows of one size, and what undoes it.

use super::conv::{batched, both_sides, per_axis, steps_per_axis};
use super::dtype::{dtype_of, operand};
use super::pad::zeros_around;
use super::sizes::{product, rank, size, sizes, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Call, Operand, Var, op};
use onnxd_plugin_sdk::ir::DataType::{self, Double, Float, Int8, Uint8};
use onnxd_plugin_sdk::ir::Dim;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = table
        .refused("aten::fractional_max_pool2d", FRACTIONAL)
        .refused("aten::fractional_max_pool3d", FRACTIONAL);
    super::rows! { table;
        "aten::max_pool1d" => |b, a: Max| max_pool(b, a, 1);
        "aten::max_pool2d" => |b, a: Max| max_pool(b, a, 2);
        "aten::max_pool3d" => |b, a: Max| max_pool(b, a, 3);
        "aten::mkldnn_max_pool2d" => |b, a: Max| max_pool(b, a, 2);
        "aten::mkldnn_max_pool3d" => |b, a: Max| max_pool(b, a, 3);
        "aten::quantized_max_pool1d" => |b, a: Max| max_pool(b, a, 1);
        "aten::quantized_max_pool2d" => |b, a: Max| max_pool(b, a, 2);
        "aten::quantized_max_pool3d" => |b, a: Max| max_pool(b, a, 3);
        "aten::max_pool1d_with_indices" => |b, a: Max| max_pool_with_indices(b, a, 1);
        "aten::max_pool2d_with_indices" => |b, a: Max| max_pool_with_indices(b, a, 2);
        "aten::max_pool3d_with_indices" => |b, a: Max| max_pool_with_indices(b, a, 3);
        "aten::avg_pool1d" => |b, a: Average| avg_pool(b, a, 1);
        "aten::avg_pool2d" => |b, a: Average| avg_pool(b, a, 2);
        "aten::avg_pool3d" => |b, a: Average| avg_pool(b, a, 3);
        "aten::max_unpool2d" => |b, a: Unpool| max_unpool(b, a, 2);
        "aten::max_unpool3d" => |b, a: Unpool| max_unpool(b, a, 3);
    }
}

const FRACTIONAL: &str = "its windows are chosen at random";

arguments! {
    /// `max_pool2d`
    struct Max {
        input: Var, kernel_size: Vec<i64>, stride: Vec<i64>, padding: Vec<i64>,
        dilation: Vec<i64>, ceil_mode: bool,
    }
    /// `avg_pool2d`
    struct Average {
        input: Var, kernel_size: Vec<i64>, stride: Vec<i64>, padding: Vec<i64>, ceil_mode: bool,
        count_include_pad: bool, divisor_override: Option<i64>,
    }
    /// `max_unpool3d`; in two dimensions without the last two.
    struct Unpool {
        input: Var, indices: Var, output_size: Vec<Value>,
        stride: Option<Vec<i64>>, padding: Option<Vec<i64>>,
    }
}

/// Windows over the last axes.
struct Windows {
    kernel: Vec<i64>,
    stride: Vec<i64>,
    padding: Vec<i64>,
    dilation: Vec<i64>,
    ceil: bool,
}

impl Windows {
    fn new(b: &Lower, n: usize, lists: [&[i64]; 4], ceil: bool) -> Lowered<Windows> {
        let [kernel, stride, padding, dilation] = lists;
        let kernel = steps_per_axis(b, kernel, n)?;
        let stride = if stride.is_empty() { kernel.clone() } else { steps_per_axis(b, stride, n)? };
        let (padding, dilation) = (per_axis(b, padding, n)?, steps_per_axis(b, dilation, n)?);
        Ok(Windows { kernel, stride, padding, dilation, ceil })
    }

    /// What a last window reads beyond the padding at the end of each axis. A window that starts beyond the input is
    /// none. For a size that is not known, it is room for the last window of any size, and for no other one.
    fn beyond(&self, b: &Lower, x: Var) -> Vec<i64> {
        let n = self.kernel.len();
        if !self.ceil {
            return vec![0; n];
        }
        let shape = b.shape_of(x).unwrap_or_default();
        let spatial = &shape[shape.len().saturating_sub(n)..];
        let beyond = |i: usize| {
            let stride = self.stride[i].max(1);
            let (pad, reach) = (self.padding[i], self.dilation[i] * (self.kernel[i] - 1) + 1);
            let more = match spatial.get(i).and_then(Dim::known) {
                Some(size) => {
                    let steps = (size + 2 * pad - reach + stride - 1).div_euclid(stride);
                    let steps = if steps * stride >= size + pad { steps - 1 } else { steps };
                    steps * stride + reach - size - 2 * pad
                }
                None => (stride - 1).min(reach - 1 - pad),
            };
            more.max(0)
        };
        (0..n).map(beyond).collect()
    }

    fn fits(&self, more: &[i64]) -> bool {
        let ends = self.padding.iter().zip(more).map(|(pad, more)| pad + more);
        ends.zip(&self.kernel).all(|(end, kernel)| end < *kernel)
    }

    /// Pads that make the windows those of torch, and whether ONNX has to find the last window.
    fn pads(&self, b: &Lower, x: Var) -> (Vec<i64>, bool) {
        let more = self.beyond(b, x);
        // Pads must be smaller than windows, which do not count their dilation.
        if !self.fits(&more) {
            return (both_sides(&self.padding), true);
        }
        let ends = self.padding.iter().zip(&more).map(|(pad, more)| pad + more);
        (self.padding.iter().copied().chain(ends).collect(), false)
    }
}

/// The input in a type that ONNX takes, and the type of the result.
fn poolable(b: &Lower, x: Var) -> Lowered<(Var, DataType)> {
    let dtype = dtype_of(b, x)?;
    let x = match dtype {
        Int8 | Uint8 if b.opset() >= 12 => x,
        d if d.is_float() => x,
        Int8 | Uint8 => b.cast(x, Float)?,
        _ => b.cast(x, Double)?,
    };
    Ok((x, dtype))
}

fn max_pool(b: &Lower, a: Max, n: usize) -> Lowered<Var> {
    let lists = [&a.kernel_size[..], &a.stride, &a.padding, &a.dilation];
    let windows = Windows::new(b, n, lists, a.ceil_mode)?;
    let (x, dtype) = poolable(b, a.input)?;
    let [y] = batched(b, x, n, |x| Ok([max_call(b, x, &windows).one()?]))?;
    b.cast(y, dtype)
}

fn max_call<'b>(b: &'b Lower, x: Var, windows: &Windows) -> Call<'b, op::MaxPool> {
    let (pads, ceil) = windows.pads(b, x);
    let dilated = windows.dilation.iter().any(|d| *d != 1).then_some(&windows.dilation);
    let call = b.max_pool(x).kernel_shape(&windows.kernel).strides(&windows.stride).pads(pads);
    call.dilations(dilated).ceil_mode(ceil.then_some(1))
}

/// ONNX counts the positions of maxima over the whole tensor, torch within each channel.
fn max_pool_with_indices(b: &Lower, a: Max, n: usize) -> Lowered<[Var; 2]> {
    let lists = [&a.kernel_size[..], &a.stride, &a.padding, &a.dilation];
    let windows = Windows::new(b, n, lists, a.ceil_mode)?;
    let (x, dtype) = poolable(b, a.input)?;
    let [y, at] = batched(b, x, n, |x| {
        let [y, at] = max_call(b, x, &windows).outputs()?;
        Ok([y, b.mod_(at, plane(b, x, n)?).one()?])
    })?;
    Ok([b.cast(y, dtype)?, at])
}

/// The number of elements of a channel.
pub(super) fn plane(b: &Lower, x: Var, n: usize) -> Lowered<Operand> {
    let rank = rank(b, x)?;
    let spatial = (rank.saturating_sub(n)..rank).map(|axis| size(b, x, axis));
    super::sizes::scalar(b, &product(b, &spatial.collect::<Lowered<Vec<_>>>()?)?)
}

fn avg_pool(b: &Lower, a: Average, n: usize) -> Lowered<Var> {
    let lists = [&a.kernel_size[..], &a.stride, &a.padding, &[1]];
    let windows = Windows::new(b, n, lists, a.ceil_mode)?;
    let (x, dtype) = poolable(b, a.input)?;
    let padded = windows.padding.iter().any(|pad| *pad != 0);
    let [y] = batched(b, x, n, |x| {
        let (mut pads, ceil) = windows.pads(b, x);
        let more = windows.beyond(b, x).iter().any(|m| *m != 0);
        let mut x = x;
        let mut count = (a.count_include_pad && padded) || a.divisor_override.is_some();
        // The padding counts, and what a last window reads beyond it does not.
        if more && count && a.divisor_override.is_none() {
            x = zeros_around(b, x, &windows.padding)?;
            pads.iter_mut()
                .zip(both_sides(&windows.padding))
                .for_each(|(pad, given)| *pad -= given);
            count = false;
        }
        let call = b.average_pool(x).kernel_shape(&windows.kernel).strides(&windows.stride);
        let call = call.ceil_mode(ceil.then_some(1)).count_include_pad(count.then_some(1));
        Ok([call.pads(pads).one()?])
    })?;
    let y = match a.divisor_override {
        Some(divisor) => {
            let all: i64 = windows.kernel.iter().product();
            b.mul(y, all as f64 / divisor as f64)?
        }
        None => y,
    };
    b.cast(y, dtype)
}

/// Values at their positions within each channel; the rest is 0.
fn max_unpool(b: &Lower, a: Unpool, n: usize) -> Lowered<Var> {
    let dtype = dtype_of(b, a.input)?;
    let outer = rank(b, a.input)?.saturating_sub(n);
    let mut shape = sizes(b, a.input)?;
    shape.truncate(outer);
    let leading = shape.clone();
    shape.extend(a.output_size.iter().cloned());
    let mut flat = leading.clone();
    flat.push(product(b, &a.output_size)?);
    let rows: Vec<i64> = vec![0; outer].into_iter().chain([-1]).collect();
    let (x, at) = (b.reshape(a.input, &rows).one()?, b.reshape(a.indices, &rows).one()?);
    let zero = operand(b, &Value::Int(0), dtype)?;
    let zeros = b.expand(zero, vector(b, &flat)?)?;
    let all = b.scatter_elements(zeros, at, x).axis(outer as i64).one()?;
    b.reshape(all, vector(b, &shape)?).one()
}
