//! Layers and functions for pictures and sound.

use super::ops::nn::for_each;
use super::ops::promote::{bounded, floats};
use super::{count, window};
use crate::keras::dtype::dtype_of_word;
use crate::ops::conv;
use crate::ops::create::number;
use crate::ops::layout::{Channels, channels_first, channels_last};
use crate::ops::resize::{How, ResizeMode, resized};
use crate::ops::shape::{axis_of, transposed};
use crate::ops::{Lower, RowContext, dtype_of, rank, size_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::{Code, refuse, shown};
use onnxd_plugin_sdk::ir::DataType::{self, Float};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::{Lowered, Table};

/// Numbers of a patch, each of which has a filter of as many.
const CELLS_MAX: i64 = 1 << 12;

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "Resizing" => |b, a: Resizing| {
            let to = dtype_of(b, a.inputs)?;
            let size = [a.height, a.width];
            let fit = Fit::from_flags(a.crop_to_aspect_ratio, a.pad_to_aspect_ratio, a.fill_value);
            let y = resize(b, a.inputs, size, &a.interpolation, a.antialias, fit, &a.data_format)?;
            saturated(b, y, to)
        };
        "ops.Resize" => |b, a: Resize| {
            let [height, width] = a.size[..] else {
                return Err(b.wrong("A picture has two sizes."));
            };
            let fit = Fit::from_flags(a.crop_to_aspect_ratio, a.pad_to_aspect_ratio, a.fill_value);
            let format = a.data_format.as_deref().unwrap_or("channels_last");
            resize(b, a.images, [height, width], &a.interpolation, a.antialias, fit, format)
        };
        "CenterCrop" => center_crop;
        "AutoContrast" => auto_contrast;
        "ops.RGBToGrayscale" => |b, images: Var, data_format: Option<String>| {
            let format = data_format.as_deref().unwrap_or("channels_last");
            let channels = Channels::from_format(b, format)?;
            let axis = if channels == Channels::Last { -1 } else { -3 };
            let at = axis_of(b, images, axis)?;
            if size_of(b, images, at) == Some(1) {
                return Ok(images);
            }
            let to = dtype_of(b, images)?;
            let shares = Tensor::from_vec(vec![3], vec![0.2989f32, 0.587, 0.114]);
            let last = super::ops::shapes::moved(b, floats(b, images)?, &[axis], &[-1])?;
            let shares = b.cast(b.constant(shares), dtype_of(b, last)?)?;
            let y = b.reduce_sum(b.mul(last, shares)?).axes([-1]).keepdims(1).one()?;
            b.cast(super::ops::shapes::moved(b, y, &[-1], &[axis])?, to)
        };
        "ops.ExtractPatches" => extract_patches;
        "ops.CropImages" => crop_images;
        "ops.PadImages" => pad_images;
    }
}

arguments! {
    /// `Resizing(height, width, interpolation="bilinear", crop_to_aspect_ratio=False, pad_to_aspect_ratio=False,
    /// fill_mode="constant", fill_value=0.0, antialias=False, data_format=None)`
    struct Resizing {
        inputs: Var, height: i64, width: i64, interpolation: String = "bilinear", crop_to_aspect_ratio: bool = false,
        pad_to_aspect_ratio: bool = false, fill_mode: Option<String>, fill_value: f64 = 0.0, antialias: bool = false,
        data_format: String = "channels_last", dtype: Option<String>,
    }
    /// `Resize(images; size, interpolation="bilinear", antialias=False, crop_to_aspect_ratio=False,
    /// pad_to_aspect_ratio=False, fill_mode="constant", fill_value=0.0, data_format=None)`
    struct Resize {
        images: Var, size: Vec<i64>, interpolation: String = "bilinear", antialias: bool = false,
        crop_to_aspect_ratio: bool = false, pad_to_aspect_ratio: bool = false, fill_mode: Option<String>,
        fill_value: f64 = 0.0, data_format: Option<String>,
    }
    /// `CenterCrop(height, width, data_format=None)`
    struct CenterCrop {
        inputs: Var, height: i64, width: i64, data_format: String = "channels_last", dtype: String = "float32",
    }
    /// `AutoContrast(value_range=(0, 255))`
    struct AutoContrast {
        inputs: Var, value_range: Vec<f64>, data_format: Option<String>, dtype: String = "float32",
    }
    /// `ExtractPatches(images; size, strides=None, dilation_rate=1, padding="valid", data_format=None)`
    struct Patches {
        images: Var, size: Operand, strides: Operand = Operand::Absent, dilation_rate: Operand = 1i64,
        padding: String = "valid",
        data_format: Option<String>,
    }
    /// `CropImages(images; top_cropping=None, left_cropping=None, bottom_cropping=None, right_cropping=None,
    /// target_height=None, target_width=None, data_format=None)`
    struct Crop {
        images: Var, top_cropping: Option<i64>, left_cropping: Option<i64>, bottom_cropping: Option<i64>,
        right_cropping: Option<i64>, target_height: Option<i64>, target_width: Option<i64>,
        data_format: Option<String>,
    }
    /// `PadImages(images; top_padding=None, left_padding=None, bottom_padding=None, right_padding=None,
    /// target_height=None, target_width=None, data_format=None)`
    struct Pad {
        images: Var, top_padding: Option<i64>, left_padding: Option<i64>, bottom_padding: Option<i64>,
        right_padding: Option<i64>, target_height: Option<i64>, target_width: Option<i64>,
        data_format: Option<String>,
    }
}

/// What becomes of pictures of another shape.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fit {
    Stretched,
    Cropped,
    Padded(f64),
}

impl Fit {
    fn from_flags(crop: bool, pad: bool, value: f64) -> Fit {
        match (crop, pad) {
            (true, _) => Fit::Cropped,
            (_, true) => Fit::Padded(value),
            _ => Fit::Stretched,
        }
    }
}

fn unknown(b: &GraphBuilder) -> onnxd_plugin_sdk::diagnostics::Diagnostic {
    b.unsupported("The height and width of the pictures must be known here.")
}

/// `[batch, height, width, channels]`, and whether the batch is new.
fn batched(b: &GraphBuilder, x: Var, channels: Channels) -> Lowered<(Var, bool)> {
    let single = rank(b, x)? == 3;
    let x = if single { b.unsqueeze(x, [0])? } else { x };
    Ok((if channels == Channels::First { channels_last(b, x)? } else { x }, single))
}

fn unbatched(b: &GraphBuilder, x: Var, channels: Channels, single: bool) -> Lowered<Var> {
    let x = if channels == Channels::First { channels_first(b, x)? } else { x };
    if single { b.squeeze(x).axes([0]).one() } else { Ok(x) }
}

/// Height and width of pictures with channels last.
fn sizes(b: &GraphBuilder, x: Var) -> Lowered<[i64; 2]> {
    let size = |axis: usize| size_of(b, x, axis).ok_or_else(|| unknown(b));
    Ok([size(1)?, size(2)?])
}

fn resize(
    b: &Lower,
    x: Var,
    [height, width]: [i64; 2],
    interpolation: &str,
    antialias: bool,
    fit: Fit,
    format: &str,
) -> Lowered<Var> {
    let channels = Channels::from_format(b, format)?;
    let (height, width) = (count(b, "rows", height)?, count(b, "columns", width)?);
    let (mut x, single) = batched(b, x, channels)?;
    // Keras computes these sizes in 32 bits.
    let scaled = |n: i64, to: i64, by: i64| ((n.saturating_mul(to) as f32) / by as f32) as i64;
    match fit {
        Fit::Stretched => {}
        Fit::Cropped => {
            let [h, w] = sizes(b, x)?;
            let crop =
                [scaled(w, height, width).min(h).max(1), scaled(h, width, height).min(w).max(1)];
            let begin = [((h - crop[0]) as f32 / 2.0) as i64, ((w - crop[1]) as f32 / 2.0) as i64];
            x = b.slice(x, begin, [begin[0] + crop[0], begin[1] + crop[1]]).axes([1, 2]).one()?;
        }
        Fit::Padded(value) => {
            let [h, w] = sizes(b, x)?;
            let most = [scaled(w, height, width).max(h), scaled(h, width, height).max(w)];
            let more = [((most[0] - h) as f32 / 2.0) as i64, ((most[1] - w) as f32 / 2.0) as i64];
            if more != [0, 0] {
                let value = b.constant(number(value, dtype_of(b, x)?));
                x = b
                    .pad(x, [0, more[0], more[1], 0, 0, more[0], more[1], 0])
                    .constant_value(value)
                    .one()?;
            }
        }
    }
    let size = Operand::Ints(vec![height, width]);
    let half = |mode| How::new(mode, false, true);
    let y = match (interpolation, antialias) {
        ("nearest", _) => resized(b, x, &size, half(ResizeMode::Nearest))?,
        ("bilinear", false) => resized(b, floats(b, x)?, &size, half(ResizeMode::Linear))?,
        // Runtimes compute few forms of it.
        ("bicubic", false) if sizes(b, x).is_err() => {
            resized(b, floats(b, x)?, &size, half(ResizeMode::Cubic))?
        }
        _ => {
            let [h, w] = sizes(b, x)?;
            let Some(kernel) = ResampleKernel::from_word(interpolation) else {
                let message = format!("The interpolation `{}` is not known.", shown(interpolation));
                return Err(b.unsupported(message));
            };
            count(b, "weights of rows", h.saturating_mul(height))?;
            count(b, "weights of columns", w.saturating_mul(width))?;
            let x = channels_first(b, floats(b, x)?)?;
            let rows = b.constant(kernel.weights(h, height, antialias));
            let columns = b.constant(kernel.weights(w, width, antialias));
            let columns = transposed(b, columns, &[1, 0])?;
            channels_last(b, b.mat_mul(rows, b.mat_mul(x, columns)?)?)?
        }
    };
    unbatched(b, y, channels, single)
}

/// Steps between two cells of TensorFlow's table of cubic weights.
const TABLE_STEPS: f64 = 1024.0;

/// What a new pixel is made of: a function of the distance to old ones.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ResampleKernel {
    Area,
    Triangle,
    Cubic,
    Mitchell,
    Gaussian,
    Lanczos(f64),
}

impl ResampleKernel {
    fn from_word(word: &str) -> Option<ResampleKernel> {
        Some(match word {
            "area" => ResampleKernel::Area,
            "bilinear" => ResampleKernel::Triangle,
            "bicubic" => ResampleKernel::Cubic,
            "mitchellcubic" => ResampleKernel::Mitchell,
            "gaussian" => ResampleKernel::Gaussian,
            "lanczos3" => ResampleKernel::Lanczos(3.0),
            "lanczos5" => ResampleKernel::Lanczos(5.0),
            _ => return None,
        })
    }

    fn radius(self) -> f64 {
        match self {
            ResampleKernel::Area | ResampleKernel::Triangle => 1.0,
            ResampleKernel::Cubic | ResampleKernel::Mitchell => 2.0,
            ResampleKernel::Gaussian => 1.5,
            ResampleKernel::Lanczos(radius) => radius,
        }
    }

    fn at(self, x: f64) -> f64 {
        let x = x.abs();
        let sinc = |x: f64| if x < 1e-9 { 1.0 } else { x.sin() / x };
        let pi = std::f64::consts::PI;
        match self {
            ResampleKernel::Area | ResampleKernel::Triangle => (1.0 - x).max(0.0),
            ResampleKernel::Cubic if x >= 2.0 => 0.0,
            ResampleKernel::Cubic if x >= 1.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            ResampleKernel::Cubic => (1.5 * x - 2.5) * x * x + 1.0,
            ResampleKernel::Mitchell if x >= 2.0 => 0.0,
            ResampleKernel::Mitchell if x >= 1.0 => {
                (((-7.0 / 18.0) * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
            }
            ResampleKernel::Mitchell => ((7.0 / 6.0) * x - 2.0) * x * x + 8.0 / 9.0,
            ResampleKernel::Gaussian if x >= 1.5 => 0.0,
            ResampleKernel::Gaussian => (-x * x / (2.0 * 0.5 * 0.5)).exp(),
            ResampleKernel::Lanczos(radius) if x > radius => 0.0,
            ResampleKernel::Lanczos(radius) => sinc(pi * x) * sinc(pi * x / radius),
        }
    }

    /// Row `i` has the shares that the old cells have in the new cell `i`.
    fn weights(self, from: i64, to: i64, antialias: bool) -> Tensor {
        let step = from as f64 / to.max(1) as f64;
        let wide = if antialias { step.max(1.0) } else { 1.0 };
        let mut all = vec![];
        for new in 0..to {
            let (begin, end) = (new as f64 * step, (new + 1) as f64 * step);
            let exact = (new as f64 + 0.5) * step;
            // Without antialiasing, TensorFlow reads cubic weights off a table.
            let middle = match self {
                ResampleKernel::Cubic if !antialias => {
                    ((exact - 0.5) * TABLE_STEPS).round_ties_even() / TABLE_STEPS + 0.5
                }
                _ => exact,
            };
            let reach = self.radius() * wide;
            let first = ((middle - reach - 0.5).ceil() as i64).max(0);
            let last = ((middle + reach - 0.5).floor() as i64).min(from - 1);
            let share = |old: i64| match self {
                ResampleKernel::Area => {
                    (end.min(old as f64 + 1.0) - begin.max(old as f64)).max(0.0)
                }
                _ if old < first || old > last => 0.0,
                _ => self.at((old as f64 + 0.5 - middle) / wide),
            };
            let row: Vec<f64> = (0..from).map(share).collect();
            let sum: f64 = row.iter().sum();
            all.extend(row.iter().map(|x| (x / sum) as f32));
        }
        Tensor::from_vec(vec![to.max(0) as usize, from.max(0) as usize], all)
    }
}

/// Floats as integers of a type, rounded and without wrapping.
fn saturated(b: &GraphBuilder, x: Var, to: DataType) -> Lowered<Var> {
    if to.is_float() || dtype_of(b, x)? == to {
        return b.cast(x, to);
    }
    bounded(b, b.round(x)?, to)
}

fn center_crop(b: &Lower, a: CenterCrop) -> Lowered<Var> {
    let to = dtype_of_word(&a.dtype).unwrap_or(Float);
    let x = b.cast(a.inputs, to)?;
    let channels = Channels::from_format(b, &a.data_format)?;
    let (pictures, single) = batched(b, x, channels)?;
    count(b, "rows", a.height)?;
    count(b, "columns", a.width)?;
    let Ok([h, w]) = sizes(b, pictures) else {
        // The sizes are known when the model runs.
        let shape = b.shape(pictures).start(1).end(3).one()?;
        let more = b.sub(shape, vec![a.height, a.width])?;
        let more = b.where_(b.less(more, 0)?, b.sub(more, 1)?, more)?;
        let begin = b.div(more, 2)?;
        let y =
            b.slice(pictures, begin, b.add(begin, vec![a.height, a.width])?).axes([1, 2]).one()?;
        return unbatched(b, y, channels, single);
    };
    let more = [h - a.height, w - a.width];
    if more[0] < 0 || more[1] < 0 {
        let size = [a.height, a.width];
        return b.cast(resize(b, x, size, "bilinear", false, Fit::Cropped, &a.data_format)?, to);
    }
    let begin = [more[0] / 2, more[1] / 2];
    let y =
        b.slice(pictures, begin, [begin[0] + a.height, begin[1] + a.width]).axes([1, 2]).one()?;
    unbatched(b, y, channels, single)
}

/// The darkest and the lightest pixel of each channel become the ends of the range.
fn auto_contrast(b: &Lower, a: AutoContrast) -> Lowered<Var> {
    let [first, last] = a.value_range[..] else {
        return Err(b.wrong("A range has two ends."));
    };
    let x = b.cast(a.inputs, dtype_of_word(&a.dtype).unwrap_or(Float))?;
    let wide = b.mul(b.div(b.sub(x, first)?, last - first)?, 255.0)?;
    let low = b.reduce_min(wide).axes([1, 2]).keepdims(1).one()?;
    let high = b.reduce_max(wide).axes([1, 2]).keepdims(1).one()?;
    let scale = b.div(255.0, b.sub(high, low)?)?;
    let y = b.add(b.mul(wide, scale)?, b.mul(b.neg(low)?, scale)?)?;
    let y = b.clip(y).min(0.0).max(255.0).one()?;
    let y = b.add(b.mul(b.div(y, 255.0)?, last - first)?, first)?;
    b.where_(b.is_nan(y)?, x, y)
}

/// What windows see, as channels: a convolution with filters of a single one each.
fn extract_patches(b: &Lower, a: Patches) -> Lowered<Var> {
    let channels = Channels::from_format(b, a.data_format.as_deref().unwrap_or("channels_last"))?;
    let (x, single) = batched(b, a.images, channels)?;
    let x = channels_first(b, x)?;
    let count = size_of(b, x, 1);
    let Some(count) = count.filter(|_| rank(b, x).is_ok_and(|n| n == 4)) else {
        return Err(b.unsupported("Patches are taken of pictures with known channels."));
    };
    let size = for_each(b, &a.size, 2)?;
    let strides = if matches!(a.strides, Operand::Absent) {
        size.clone()
    } else {
        for_each(b, &a.strides, 2)?
    };
    let window =
        window(b, &size, &strides, Some(for_each(b, &a.dilation_rate, 2)?), &a.padding, channels)?;
    let cells = size[0].saturating_mul(size[1]).saturating_mul(count);
    refuse!(!(1..=CELLS_MAX).contains(&cells) =>
        b.diagnostic(Code::SourceLimit, format!("A patch has {cells} numbers, not at most {CELLS_MAX}.")));
    let mut filters = vec![0f32; (cells * cells) as usize];
    for cell in 0..cells {
        let (place, channel) = (cell / count, cell % count);
        filters[(cell * cells + channel * size[0] * size[1] + place) as usize] = 1.0;
    }
    let dims = [cells, count, size[0], size[1]].map(|n| n as usize).to_vec();
    let w = b.cast(b.constant(Tensor::from_vec(dims, filters)), dtype_of(b, x)?)?;
    let y = channels_last(b, conv::conv(b, x, w, None, &window, 1)?)?;
    unbatched(b, y, channels, single)
}

/// How much is before and behind, of two of three numbers; `total` is both for a size of the result.
fn borders(
    b: &GraphBuilder,
    all: [Option<i64>; 3],
    total: impl Fn(i64) -> i64,
) -> Lowered<[i64; 2]> {
    for n in all.into_iter().flatten() {
        count(b, "rows or columns", n)?;
    }
    let found = match all {
        [Some(before), Some(behind), _] => Some([before, behind]),
        [Some(before), None, Some(size)] => Some([before, total(size) - before]),
        [None, Some(behind), Some(size)] => Some([total(size) - behind, behind]),
        _ => None,
    };
    found.filter(|found| found.iter().all(|n| *n >= 0)).ok_or_else(|| {
        let message = "Two of three sizes must be given, and none may be negative.";
        b.wrong(message)
    })
}

fn crop_images(b: &Lower, a: Crop) -> Lowered<Var> {
    let channels = Channels::from_format(b, a.data_format.as_deref().unwrap_or("channels_last"))?;
    let (x, single) = batched(b, a.images, channels)?;
    let [h, w] = sizes(b, x)?;
    let rows = borders(b, [a.top_cropping, a.bottom_cropping, a.target_height], |size| h - size)?;
    let columns = borders(b, [a.left_cropping, a.right_cropping, a.target_width], |size| w - size)?;
    let end = [h - rows[1], w - columns[1]];
    refuse!(end[0] < rows[0] || end[1] < columns[0] => b.wrong("More is cropped than there is."));
    let y = b.slice(x, [rows[0], columns[0]], end).axes([1, 2]).one()?;
    unbatched(b, y, channels, single)
}

fn pad_images(b: &Lower, a: Pad) -> Lowered<Var> {
    let channels = Channels::from_format(b, a.data_format.as_deref().unwrap_or("channels_last"))?;
    let (x, single) = batched(b, a.images, channels)?;
    let [h, w] = sizes(b, x)?;
    let rows = borders(b, [a.top_padding, a.bottom_padding, a.target_height], |size| size - h)?;
    let columns = borders(b, [a.left_padding, a.right_padding, a.target_width], |size| size - w)?;
    let y = b.pad(x, [0, rows[0], columns[0], 0, 0, rows[1], columns[1], 0]).one()?;
    unbatched(b, y, channels, single)
}
