//! Windows that are taken out of pictures, put together again, or moved over them the other way round.

use super::nn::{filter_sizes, for_each, window};
use super::shapes::list;
use crate::keras::rows::{conv, count};
use crate::ops::layout::Channels;
use crate::ops::shape::{DimSize, size, sized};
use crate::ops::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::refuse;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "ops.ConvTranspose" => |b, a: Transpose| {
            let channels = Channels::from_format(b, a.data_format.as_deref().unwrap_or("channels_last"))?;
            let sizes = filter_sizes(b, a.inputs, a.kernel)?;
            let n = sizes.len() - 2;
            let window = window(b, &sizes[..n], [&a.strides, &a.dilation_rate], &a.padding, channels)?;
            let more = match list(b, &a.output_padding)? {
                more if more.is_empty() => None,
                _ => Some(for_each(b, &a.output_padding, n)?),
            };
            let x = channels.first(b, a.inputs)?;
            channels.back(b, conv::transposed(b, x, a.kernel, None, &window, more.as_deref())?)
        };
        "ops.Unfold" => unfold;
        "ops.Fold" => fold;
    }
}

arguments! {
    /// `ConvTranspose(inputs, kernel; strides=1, padding="valid", output_padding=None, data_format=None,
    /// dilation_rate=1)`
    struct Transpose {
        inputs: Var, kernel: Var, strides: Operand = 1i64, padding: String = "valid",
        output_padding: Operand = Operand::Absent, data_format: Option<String>, dilation_rate: Operand = 1i64,
    }
    /// `Unfold(x; kernel_size, dilation=1, padding=0, stride=1)`
    struct Unfold {
        x: Var, kernel_size: Operand, dilation: Operand = 1i64, padding: Operand = 0i64, stride: Operand = 1i64,
    }
    /// `Fold(x; output_size, kernel_size, dilation=1, padding=0, stride=1)`
    struct Fold {
        x: Var, output_size: Operand, kernel_size: Operand, dilation: Operand = 1i64, padding: Operand = 0i64,
        stride: Operand = 1i64,
    }
}

/// The sizes, dilations, borders and steps of windows over two axes.
fn grid(b: &GraphBuilder, all: [&Operand; 4]) -> Lowered<[Vec<i64>; 4]> {
    let lists = all.map(|x| for_each(b, x, 2));
    let [kernel, dilation, padding, stride] = lists;
    let all = [kernel?, dilation?, padding?, stride?];
    for (i, list) in all.iter().enumerate() {
        for n in list {
            // Only borders may be empty.
            refuse!(count(b, "steps of a window", *n)? == 0 && i != 2 =>
                b.wrong("A window has a size or step of 0."));
        }
    }
    Ok(all)
}

/// `[batch, channels * window, windows]`, picture by picture.
fn unfold(b: &Lower, a: Unfold) -> Lowered<Var> {
    let [kernel, dilation, padding, stride] =
        grid(b, [&a.kernel_size, &a.dilation, &a.padding, &a.stride])?;
    let size_of = |axis: usize| b.shape_of(a.x).filter(|s| s.len() == 4)?.get(axis)?.known();
    let (Some(depth), Some(height), Some(width)) = (size_of(1), size_of(2), size_of(3)) else {
        return Err(b.unsupported("Windows are taken of pictures with known sizes."));
    };
    let wide: [i64; 2] = std::array::from_fn(|i| [height, width][i].saturating_add(2 * padding[i]));
    let steps: [i64; 2] = std::array::from_fn(|i| {
        let reach = dilation[i].saturating_mul(kernel[i] - 1);
        ((wide[i] - reach - 1).div_euclid(stride[i]) + 1).max(0)
    });
    let cells = kernel[0] * kernel[1];
    let windows = steps[0].saturating_mul(steps[1]);
    count(b, "places of windows", cells.saturating_mul(windows))?;
    let x = match padding[..] {
        [0, 0] => a.x,
        _ => {
            let borders = [0, 0, padding[0], padding[1]];
            b.pad(a.x, [borders, borders].concat()).one()?
        }
    };
    let mut at = vec![];
    for cell in 0..cells {
        let (row, column) = (cell / kernel[1] * dilation[0], cell % kernel[1] * dilation[1]);
        let place = |i: i64| {
            let (down, right) = (i / steps[1] * stride[0], i % steps[1] * stride[1]);
            (row + down).saturating_mul(wide[1]).saturating_add(column + right)
        };
        at.extend((0..windows).map(place));
    }
    let dims = [cells as usize, windows as usize];
    let rest = size(b, x, 0)?;
    let flat = [rest, DimSize::Known(depth), DimSize::Known(wide[0].saturating_mul(wide[1]))];
    let flat = sized(b, x, &flat)?;
    let seen = b.gather(flat, b.constant(Tensor::from_vec(dims, at))).axis(2).one()?;
    let shape = [rest, DimSize::Known(depth.saturating_mul(cells)), DimSize::Known(windows)];
    sized(b, seen, &shape)
}

/// Windows that overlap add up.
fn fold(b: &Lower, a: Fold) -> Lowered<Var> {
    refuse!(b.opset() < 18 => b.unsupported("Windows are put together from opset 18 on."));
    let [kernel, dilation, padding, stride] =
        grid(b, [&a.kernel_size, &a.dilation, &a.padding, &a.stride])?;
    let image = for_each(b, &a.output_size, 2)?;
    for n in &image {
        count(b, "rows or columns", *n)?;
    }
    let pads = [&padding[..], &padding].concat();
    b.col2_im(a.x, image, kernel).dilations(dilation).strides(stride).pads(pads).one()
}
