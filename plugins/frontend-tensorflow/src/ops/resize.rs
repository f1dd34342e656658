//! Sizes of pictures.

use super::layout::{channels_first, channels_last};
use super::resize_kernel::CELLS_MAX;
use super::shape::{DimSize, int64s, shape_of, size};
use super::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::build::{GraphBuilder, Operand, Var};
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::DataType::{Double, Float, Int8, Int32, Uint8};
use onnxd_plugin_sdk::ir::{Dim, Tensor};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    super::rows! { table;
        "ResizeBilinear" => |b, images: Var, size: Operand, align_corners: bool, half_pixel_centers: bool| {
            let x = floats(b, images)?;
            resized(b, x, &size, How::new(ResizeMode::Linear, align_corners, half_pixel_centers))
        };
        "ResizeNearestNeighbor" => |b, images: Var, size: Operand, align_corners: bool, half_pixel_centers: bool| {
            resized(b, images, &size, How::new(ResizeMode::Nearest, align_corners, half_pixel_centers))
        };
        "ResizeBicubic" => |b, images: Var, size: Operand, align_corners: bool, half_pixel_centers: bool| {
            let x = floats(b, images)?;
            resized(b, x, &size, How::new(ResizeMode::Cubic, align_corners, half_pixel_centers))
        };
        "ResizeArea" => area(images, size, align_corners);
    }
}

/// What a new pixel is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ResizeMode {
    Nearest,
    Linear,
    Cubic,
}

/// How places of new pixels are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SamplePositions {
    /// Corners meet corners.
    Corners,
    /// Pixels have their places in the middle.
    Middle,
    /// Pixels have their places at the corner.
    Corner,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) mode: ResizeMode,
    pub(crate) places: SamplePositions,
}

impl How {
    pub(crate) fn new(mode: ResizeMode, align_corners: bool, half_pixel_centers: bool) -> How {
        let places = match (align_corners, half_pixel_centers) {
            (true, _) => SamplePositions::Corners,
            (_, true) => SamplePositions::Middle,
            _ => SamplePositions::Corner,
        };
        How { mode, places }
    }
}

/// Bilinear and bicubic pictures, and means of areas, are floats of 32 bits, whatever the pixels are.
fn floats(b: &GraphBuilder, x: Var) -> Lowered<Var> {
    b.cast(x, Float)
}

/// Pictures `[batch, height, width, channels]` of another height and width.
pub(crate) fn resized(b: &GraphBuilder, x: Var, to: &Operand, how: How) -> Lowered<Var> {
    let dtype = dtype_of(b, x)?;
    let computed = match dtype {
        Float | Uint8 | Int8 | Int32 => dtype,
        d if d.is_float() || d.bits() < 32 => Float,
        _ => Double,
    };
    let x = channels_first(b, b.cast(x, computed)?)?;
    let call = match factors(b, x, to) {
        Some(factors) => b.resize(x).scales(&factors[..]),
        None => b.resize(x).sizes(all_sizes(b, x, to)?),
    };
    let call = match how.places {
        SamplePositions::Corners => call.coordinate_transformation_mode("align_corners"),
        SamplePositions::Middle => call.coordinate_transformation_mode("half_pixel"),
        SamplePositions::Corner => call.coordinate_transformation_mode("asymmetric"),
    };
    let call = match (how.mode, how.places) {
        (ResizeMode::Nearest, SamplePositions::Corner) => {
            call.mode("nearest").nearest_mode("floor")
        }
        (ResizeMode::Nearest, _) => call.mode("nearest").nearest_mode("round_prefer_ceil"),
        (ResizeMode::Linear, _) => call.mode("linear"),
        (ResizeMode::Cubic, SamplePositions::Middle) => {
            call.mode("cubic").cubic_coeff_a(-0.5).exclude_outside(1)
        }
        (ResizeMode::Cubic, _) => call.mode("cubic").cubic_coeff_a(-0.75),
    };
    channels_last(b, b.cast(call.one()?, dtype)?)
}

/// How much larger each axis of `x` becomes, which has channels first: where its batch is not known, and the numbers
/// give the new sizes exactly. ONNX Runtime loads no models that name the axes of sizes between Transposes.
fn factors(b: &GraphBuilder, x: Var, to: &Operand) -> Option<Vec<f32>> {
    let Operand::Ints(to) = int64s(b, to).ok()? else { return None };
    let dims = b.shape_of(x)?;
    if dims.iter().all(|dim| dim.known().is_some()) {
        return None;
    }
    let factor = |(dim, to): (&Dim, &i64)| {
        let from = dim.known().filter(|from| *from > 0)? as f32;
        let factor = *to as f32 / from;
        // Products are rounded to one type or the other.
        let exact = (from * factor).floor() == *to as f32
            && (f64::from(from) * f64::from(factor)).floor() == *to as f64;
        exact.then_some(factor)
    };
    let spatial = dims.iter().skip(2).zip(&to).map(factor).collect::<Option<Vec<f32>>>()?;
    (spatial.len() + 2 == dims.len()).then(|| [vec![1.0, 1.0], spatial].concat())
}

/// Sizes of all axes of `x`, which has channels first.
fn all_sizes(b: &GraphBuilder, x: Var, to: &Operand) -> Lowered<Operand> {
    let to = match int64s(b, to)? {
        Operand::Ints(to) => to.into_iter().map(DimSize::Known).collect(),
        // A height and a width, also where nothing says that they are two.
        Operand::Var(to) if b.dims_of(to).is_some() => vec![DimSize::Computed(to)],
        Operand::Var(to) => vec![DimSize::Computed(b.reshape(to, [2]).one()?)],
        _ => vec![],
    };
    shape_of(b, &[vec![size(b, x, 0)?, size(b, x, 1)?], to].concat())
}

/// Each new pixel is the mean of the area that it covers: a product with weights along each axis.
fn area(b: &Lower, images: Var, size: Vec<i64>, align_corners: bool) -> Lowered<Var> {
    let x = channels_first(b, floats(b, images)?)?;
    let dims = b.shape_of(x).unwrap_or_default();
    let known = |axis: usize| dims.get(axis)?.known();
    let (Some(height), Some(width), &[to_height, to_width]) = (known(2), known(3), &size[..])
    else {
        let message = "The sizes of pictures must be known to take means of areas.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let fits = |from: i64, to: i64| from > 0 && to > 0 && from.saturating_mul(to) <= CELLS_MAX;
    if !fits(height, to_height) || !fits(width, to_width) {
        let message =
            format!("Areas of {height} by {width} pixels do not become {to_height} by {to_width}.");
        return Err(b.diagnostic(Code::LayerParameter, message));
    }
    let rows = b.constant(weights(height, to_height, align_corners));
    let columns = super::linear::swapped(b, b.constant(weights(width, to_width, align_corners)))?;
    channels_last(b, b.mat_mul(rows, b.mat_mul(x, columns)?)?)
}

/// Row `i` has the shares that the old cells have in the new cell `i`.
fn weights(from: i64, to: i64, align_corners: bool) -> Tensor {
    let scale = match align_corners && to > 1 {
        true => (from - 1) as f64 / (to - 1) as f64,
        false => from as f64 / to as f64,
    };
    let share = |new: i64, old: i64| {
        // One cell is all that there is.
        if scale == 0.0 {
            return 1.0;
        }
        let (begin, end) = (new as f64 * scale, (new + 1) as f64 * scale);
        // Behind the border is the last cell again.
        let last = if old == from - 1 { end.max(from as f64) } else { (old + 1) as f64 };
        ((end.min(last) - begin.max(old as f64)).max(0.0) / scale) as f32
    };
    let all = (0..to).flat_map(|new| (0..from).map(move |old| share(new, old)));
    Tensor::from_vec(vec![to as usize, from as usize], all.collect())
}
