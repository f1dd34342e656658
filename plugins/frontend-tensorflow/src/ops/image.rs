//! Pictures: patches, colours, and transforms of places.

use super::create::number;
use super::resize_kernel::scale_and_translate;
use super::sample::{Pixels, SampleMode};
use super::shape::{DimSize, reshaped, shape_of, size};
use super::{Lower, RowContext, dtype_of, rank};
use crate::wire::dtype::ElementType;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::{Float, Int64};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::ir::window::{Padding, WindowAxis};
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Places of patches that are held in a constant.
const PLACES_MAX: i64 = 1 << 22;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "ExtractImagePatches"
            => |b, images: Var, ksizes: Vec<i64>, strides: Vec<i64>, rates: Vec<i64>, padding: String| {
            extract_patches(b, images, [&ksizes, &strides, &rates], &padding)
        };
        "ExtractVolumePatches" => |b, input: Var, ksizes: Vec<i64>, strides: Vec<i64>, padding: String| {
            extract_patches(b, input, [&ksizes, &strides, &[1; 5]], &padding)
        };
        "Dilation2D" => dilation;
        "ImageProjectiveTransformV2" => |b, a: Transform2| {
            let fill = b.constant(number(0.0, Float));
            transform(b, [a.images, a.transforms, fill], &a.output_shape, &a.interpolation, &a.fill_mode)
        };
        "ImageProjectiveTransformV3" => |b, a: Transform3| {
            let given = [a.images, a.transforms, a.fill_value];
            transform(b, given, &a.output_shape, &a.interpolation, &a.fill_mode)
        };
        "ScaleAndTranslate" => scale_and_translate;
    };
    super::color::rows(super::detection::rows(table))
}

arguments! {
    /// `Dilation2D`
    struct Dilation { input: Var, filter: Var, strides: Vec<i64>, rates: Vec<i64>, padding: String }
    /// `ImageProjectiveTransformV2`
    struct Transform2 {
        images: Var, transforms: Var, output_shape: Vec<i64>, dtype: ElementType, interpolation: String,
        fill_mode: String,
    }
    /// `ImageProjectiveTransformV3`
    struct Transform3 {
        images: Var, transforms: Var, output_shape: Vec<i64>, fill_value: Var, dtype: ElementType,
        interpolation: String, fill_mode: String,
    }
}

/// The windows of the spatial axes.
fn windows(
    b: &GraphBuilder,
    n: usize,
    [sizes, strides, rates]: [&[i64]; 3],
    padding: &str,
) -> Lowered<Vec<WindowAxis>> {
    let inside =
        |list: &[i64]| list.len() == n && list.iter().all(|x| (1..=PLACES_MAX).contains(x));
    if n < 3 || ![sizes, strides, rates].into_iter().all(inside) {
        let message = format!("Windows {sizes:?}, {strides:?}, {rates:?} do not fit {n} axes.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let padding = if padding == "SAME" { Padding::SameUpper } else { Padding::Explicit([0, 0]) };
    let window =
        |i: usize| WindowAxis { kernel: sizes[i], stride: strides[i], dilation: rates[i], padding };
    Ok((1..n - 1).map(window).collect())
}

/// `x` with an axis for the windows and one for what each holds, in the place of every spatial axis.
fn unfolded(
    b: &GraphBuilder,
    x: Var,
    windows: &[WindowAxis],
    border: Option<Operand>,
) -> Lowered<Var> {
    let n = rank(b, x)?;
    let mut pads = vec![0; 2 * n];
    let mut places = vec![];
    for (i, window) in windows.iter().enumerate() {
        let extent = window.reach().unwrap_or(i64::MAX);
        let own = b.shape_of(x).and_then(|dims| dims.get(i + 1)?.known());
        // Pads of windows at every cell are those of one cell.
        let any = (window.stride == 1 || window.padding == Padding::Explicit([0, 0])).then_some(1);
        let size = own.or(any).ok_or_else(|| {
            let message = "The sizes of pictures must be known to pad them for windows.";
            b.diagnostic(Code::LayerUnsupported, message)
        })?;
        let [before, behind] =
            window.pads(size, window.count(size, false).unwrap_or(0)).unwrap_or_default();
        (pads[i + 1], pads[n + i + 1]) = (before, behind);
        let steps = (0..window.kernel).map(|k| k * window.dilation).collect::<Vec<_>>();
        places.push(match own {
            Some(own) => {
                let count = window.count(own, false).unwrap_or(0);
                if count < 1 || count.saturating_mul(window.kernel) > PLACES_MAX {
                    let message =
                        format!("Windows of {extent} elements do not fit {own}, or are too many.");
                    return Err(b.diagnostic(Code::LayerUnsupported, message));
                }
                let cells =
                    (0..count).flat_map(|i| steps.iter().map(move |k| i * window.stride + k));
                let dims = [count as usize, window.kernel as usize];
                b.constant(Tensor::from_vec(dims, cells.collect::<Vec<_>>()))
            }
            None => {
                let at = i as i64 + 1;
                let own = b.squeeze(b.shape(x).start(at).end(at + 1).one()?).axes([0]).one()?;
                let end = b.add(own, before + behind - extent + 1)?;
                let first = b.range(0, end, window.stride).one()?;
                b.add(b.unsqueeze(first, [1])?, b.constant(Tensor::vector(steps)))?
            }
        });
    }
    let x = match pads.iter().all(|pad| *pad == 0) {
        true => x,
        false => b.pad(x, pads).constant_value(border).one()?,
    };
    let mut axes = places.into_iter().enumerate();
    axes.try_fold(x, |x, (i, places)| b.gather(x, places).axis(2 * i as i64 + 1).one())
}

/// What each window holds, one after the other on the last axis.
fn extract_patches(b: &Lower, x: Var, lists: [&[i64]; 3], padding: &str) -> Lowered<Var> {
    let n = rank(b, x)?;
    let windows = windows(b, n, lists, padding)?;
    let y = unfolded(b, x, &windows, None)?;
    let k = windows.len() as i64;
    let moved = (0..k).map(|i| 2 * i + 1).chain((0..k).map(|i| 2 * i + 2));
    let order: Vec<i64> = [0].into_iter().chain(moved).chain([2 * k + 1]).collect();
    let y = b.transpose(y).perm(order).one()?;
    let mut sizes =
        (0..=windows.len()).map(|axis| size(b, y, axis)).collect::<Lowered<Vec<_>>>()?;
    let cells = windows.iter().fold(1i64, |cells, window| cells.saturating_mul(window.kernel));
    let channels = b.shape_of(x).and_then(|dims| dims.last()?.known());
    sizes.push(DimSize::Known(channels.map_or(-1, |channels| channels.saturating_mul(cells))));
    reshaped(b, y, &shape_of(b, &sizes)?)
}

/// The largest sum of pixels and a filter in each window. What lies outside never counts.
fn dilation(b: &Lower, a: Dilation) -> Lowered<Var> {
    let dims = b.shape_of(a.filter).unwrap_or_default();
    let known = |axis: usize| dims.get(axis)?.known();
    let (Some(height), Some(width)) = (known(0), known(1)) else {
        return Err(b.diagnostic(Code::LayerUnsupported, "The sizes of the filter must be known."));
    };
    let sizes = [1, height, width, 1];
    let windows = windows(b, rank(b, a.input)?, [&sizes, &a.strides, &a.rates], &a.padding)?;
    let lowest = Operand::Tensor(number(f64::NEG_INFINITY, dtype_of(b, a.input)?));
    let y = unfolded(b, a.input, &windows, Some(lowest))?;
    let sums = b.add(y, b.unsqueeze(a.filter, [1])?)?;
    b.reduce_max(sums).axes([2, 4]).keepdims(0).one()
}

/// Pictures whose pixels come from places that a matrix says: `[a0, a1, a2, b0, b1, b2, c0, c1]` for each picture.
fn transform(
    b: &Lower,
    [images, transforms, fill]: [Var; 3],
    shape: &[i64],
    interpolation: &str,
    fill_mode: &str,
) -> Lowered<Var> {
    let &[height, width] = shape else {
        return Err(b.diagnostic(Code::LayerParameter, "A picture has a height and a width."));
    };
    let mode = match interpolation {
        "NEAREST" => SampleMode::Nearest,
        "BILINEAR" => SampleMode::Bilinear,
        other => {
            let message = format!("The interpolation `{}` is not known.", shown(other));
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
    };
    let dtype = dtype_of(b, images)?;
    let pixels = Pixels::from_var(b, b.cast(images, Float)?)?;
    let range = |n: i64, axes: [i64; 2]| {
        let items = (0..n.clamp(0, PLACES_MAX)).map(|i| i as f32).collect::<Vec<_>>();
        b.unsqueeze(b.constant(Tensor::vector(items)), axes)
    };
    let (y, x) = (range(height, [0, 2])?, range(width, [0, 1])?);
    let entry = |i: i64| b.unsqueeze(b.gather(transforms, i).axis(1).one()?, [1, 2]);
    let line = |i: i64| b.add(b.mul(x, entry(i)?)?, b.mul(y, entry(i + 1)?)?);
    let scale = b.add(line(6)?, 1.0)?;
    let place = |i: i64, size: Var| {
        let at = b.div(b.add(line(i)?, entry(i + 2)?)?, scale)?;
        mapped(b, at, size, fill_mode)
    };
    let (column, row) = (place(0, pixels.width)?, place(3, pixels.height)?);
    let count = b.squeeze(b.shape(images).start(0).end(1).one()?).axes([0]).one()?;
    let batch = b.unsqueeze(b.range(0, count, 1).one()?, [1, 2])?;
    let batch = b.cast(batch, Int64)?;
    let fill = b.cast(fill, Float)?;
    let found = pixels.sampled(b, [batch, row, column], mode, Some(fill))?;
    // A point without place is outside.
    let nowhere = b.unsqueeze(b.equal(scale, 0.0)?, [-1])?;
    b.cast(b.where_(nowhere, fill, found)?, dtype)
}

/// A place outside of the picture, as one inside.
fn mapped(b: &GraphBuilder, at: Var, size: Var, fill_mode: &str) -> Lowered<Var> {
    let last = b.sub(size, 1.0)?;
    let inside = |x: Var| b.max([b.min([x, last])?, b.mul(last, 0.0)?]);
    match fill_mode {
        "CONSTANT" | "" => Ok(at),
        "NEAREST" => inside(at),
        "REFLECT" => {
            let period = b.mul(size, 2.0)?;
            let turn = b.sub(at, b.mul(b.floor(b.div(at, period)?)?, period)?)?;
            let mirrored = b.sub(b.sub(period, turn)?, 1.0)?;
            inside(b.where_(b.less(turn, size)?, turn, mirrored)?)
        }
        "WRAP" => {
            let width = b.max([last, b.constant(number(1.0, Float))])?;
            let times = |x: Var| b.mul(size, b.floor(b.div(x, width)?)?);
            let below = b.add(at, b.add(times(b.neg(at)?)?, size)?)?;
            let beyond = b.sub(at, times(at)?)?;
            let outside = b.where_(b.less(at, 0.0)?, below, beyond)?;
            let is_inside = b.and(b.greater_or_equal(at, 0.0)?, b.less_or_equal(at, last)?)?;
            inside(b.where_(is_inside, at, outside)?)
        }
        other => {
            let message = format!("The fill mode `{}` is not known.", shown(other));
            Err(b.diagnostic(Code::LayerParameter, message))
        }
    }
}
