//! Images at given points, and as columns of their windows.

use super::conv::{CELLS_MAX, batched, per_axis, steps_per_axis};
use super::dtype::dtype_of;
use super::pad::zeros_around;
use super::shape::unsupported;
use super::sizes::{known, plus, scalar, size, times, vector};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "aten::grid_sampler" | "aten::grid_sampler_2d" | "aten::grid_sampler_3d"
            | "aten::_grid_sampler_2d_cpu_fallback" => grid_sampler;
        "aten::affine_grid_generator" => affine_grid;
        "aten::im2col" => |b, a: Columns| Ok(batched(b, a.input, 2, |x| Ok([im2col(b, x, &a)?]))?[0]);
        "aten::col2im" => col2im;
    }
}

arguments! {
    /// `grid_sampler`
    struct Grid {
        input: Var, grid: Var, interpolation_mode: i64, padding_mode: i64, align_corners: bool,
    }
    /// `affine_grid_generator`
    struct Affine { theta: Var, size: Vec<Value>, align_corners: bool }
    /// `im2col`; `col2im` also has the size of the image.
    struct Columns {
        input: Var, output_size: Option<Vec<Value>>, kernel_size: Vec<i64>, dilation: Vec<i64>,
        padding: Vec<i64>, stride: Vec<i64>,
    }
}

fn grid_sampler(b: &Lower, a: Grid) -> Lowered<Var> {
    let new = b.opset() >= 20;
    let mode = match (a.interpolation_mode, new) {
        (0, true) => "linear",
        (0, false) => "bilinear",
        (1, _) => "nearest",
        (2, true) => "cubic",
        (2, false) => "bicubic",
        _ => return Err(b.diagnostic(Code::LayerParameter, "The interpolation mode is not known.")),
    };
    let padding = match a.padding_mode {
        0 => "zeros",
        1 => "border",
        2 => "reflection",
        _ => return Err(b.diagnostic(Code::LayerParameter, "The padding mode is not known.")),
    };
    if b.opset() < 16 {
        let message = "Images are sampled at points from opset 16 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    if b.rank_of(a.input).is_some_and(|rank| rank != 4) && !new {
        let message = "Volumes are sampled from opset 20 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message).until_opset(20));
    }
    let call = b.grid_sample(a.input, a.grid).mode(mode).padding_mode(padding);
    call.align_corners(a.align_corners).one()
}

fn affine_grid(b: &Lower, a: Affine) -> Lowered<Var> {
    if b.opset() >= 20 {
        let call = b.affine_grid(a.theta, vector(b, &a.size)?);
        return call.align_corners(a.align_corners).one();
    }
    let n = a.size.len().saturating_sub(2);
    let spatial = a.size.get(2..).unwrap_or_default();
    let dtype = dtype_of(b, a.theta)?;
    // Coordinates x, y, z of each pixel, and 1; x runs along the last axis.
    let mut parts = vec![];
    for (axis, size) in spatial.iter().enumerate().rev() {
        let count = scalar(b, size)?;
        let steps = b.cast(b.range(0i64, count.clone(), 1i64).one()?, dtype)?;
        let count = b.cast(count, dtype)?;
        let along = match a.align_corners {
            true => b.sub(
                b.div(b.mul(steps, 2.0)?, b.max([b.sub(count, 1.0)?, one(b, dtype)?])?)?,
                1.0,
            )?,
            false => b.sub(b.div(b.add(b.mul(steps, 2.0)?, 1.0)?, count)?, 1.0)?,
        };
        let behind: Vec<i64> = (1..=(n - 1 - axis) as i64 + 1).collect();
        let along = b.unsqueeze(along, behind)?;
        let shape: Vec<Value> = spatial.iter().cloned().chain([Value::Int(1)]).collect();
        parts.push(b.expand(along, vector(b, &shape)?)?);
    }
    let shape: Vec<Value> = spatial.iter().cloned().chain([Value::Int(1)]).collect();
    parts.push(b.expand(one(b, dtype)?, vector(b, &shape)?)?);
    let points = b.reshape(b.concat(parts).axis(-1).one()?, [-1, n as i64 + 1]).one()?;
    let all = b.mat_mul(points, b.transpose(a.theta).perm([0, 2, 1]).one()?)?;
    let batch = a.size.first().cloned().unwrap_or(Value::Int(1));
    let shape: Vec<Value> =
        [batch].into_iter().chain(spatial.iter().cloned()).chain([Value::Int(n as i64)]).collect();
    b.reshape(all, vector(b, &shape)?).one()
}

fn one(b: &Lower, dtype: onnxd_plugin_sdk::ir::DataType) -> Lowered<Var> {
    super::dtype::operand(b, &Value::Int(1), dtype)
}

/// `[batch, channels, height, width]` as `[batch, channels * window, windows]`.
fn im2col(b: &Lower, x: Var, a: &Columns) -> Lowered<Var> {
    let [kernel, dilation, stride] =
        [&a.kernel_size, &a.dilation, &a.stride].map(|list| steps_per_axis(b, list, 2));
    let (kernel, dilation, stride) = (kernel?, dilation?, stride?);
    let padding = per_axis(b, &a.padding, 2)?;
    let mut y = zeros_around(b, x, &padding)?;
    for i in 0..2 {
        let reach = dilation[i] * (kernel[i] - 1);
        let padded = plus(b, &size(b, x, 2 + i)?, &Value::Int(2 * padding[i] - reach))?;
        let windows = known(b, &padded).map_or(1, |n| n.max(0) / stride[i] + 1);
        if windows.saturating_mul(kernel[i]) > CELLS_MAX {
            return Err(unsupported(b, "There are too many cells in all windows."));
        }
        let offsets: Vec<i64> = (0..kernel[i]).map(|k| k * dilation[i]).collect();
        let index = match known(b, &padded) {
            Some(n) => {
                let starts: Vec<i64> = (0..n).step_by(stride[i] as usize).collect();
                let all = offsets.iter().flat_map(|o| starts.iter().map(move |s| s + o)).collect();
                b.constant(Tensor::from_vec(vec![offsets.len(), starts.len()], all))
            }
            None => {
                let starts = b.range(0i64, scalar(b, &padded)?, stride[i]).one()?;
                b.add(b.unsqueeze(b.constant(Tensor::vector(offsets)), [1])?, starts)?
            }
        };
        // The first axis that was taken apart is two by now.
        y = b.gather(y, index).axis(2 + 2 * i as i64).one()?;
    }
    let y = b.transpose(y).perm([0, 1, 2, 4, 3, 5]).one()?;
    let rows = times(b, &size(b, x, 1)?, &Value::Int(kernel.iter().product()))?;
    b.reshape(y, vector(b, &[Value::Int(0), rows, Value::Int(-1)])?).one()
}

fn col2im(b: &Lower, a: Columns) -> Lowered<Var> {
    if b.opset() < 18 {
        let message = "Windows are put together from opset 18 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let [kernel, dilation, stride] =
        [&a.kernel_size, &a.dilation, &a.stride].map(|list| steps_per_axis(b, list, 2));
    let (kernel, dilation, stride) = (kernel?, dilation?, stride?);
    let padding = per_axis(b, &a.padding, 2)?;
    let image = match a.output_size.unwrap_or_default().as_slice() {
        [one] => vec![one.clone(), one.clone()],
        all => all.to_vec(),
    };
    let image = vector(b, &image)?;
    let [y] = batched(b, a.input, 1, |x| {
        let call = b.col2_im(x, image, kernel).dilations(dilation).strides(stride);
        Ok([call.pads(super::conv::both_sides(&padding)).one()?])
    })?;
    Ok(y)
}
