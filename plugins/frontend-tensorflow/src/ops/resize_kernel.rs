//! Pictures of another size by kernels: a product with weights along each axis.

use super::Lower;
use super::layout::{channels_first, channels_last};
use super::linear::swapped;
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::DataType::Float;
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Lowered;
use std::f64::consts::PI;

/// Cells of a matrix of weights.
pub(crate) const CELLS_MAX: i64 = 1 << 24;

arguments! {
    /// `ScaleAndTranslate`
    pub(crate) struct Scaled {
        images: Var, size: Vec<i64>, scale: Var, translation: Var, kernel_type: String, antialias: bool,
    }
}

/// How much a pixel counts at a distance, and from where on it does not.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ResizeKernel {
    Lanczos(f64),
    Gaussian,
    Box,
    Triangle,
    KeysCubic,
    MitchellCubic,
}

impl ResizeKernel {
    fn from_name(name: &str) -> Option<ResizeKernel> {
        Some(match name {
            "lanczos1" => ResizeKernel::Lanczos(1.0),
            "lanczos3" => ResizeKernel::Lanczos(3.0),
            "lanczos5" => ResizeKernel::Lanczos(5.0),
            "gaussian" => ResizeKernel::Gaussian,
            "box" => ResizeKernel::Box,
            "triangle" => ResizeKernel::Triangle,
            "keyscubic" => ResizeKernel::KeysCubic,
            "mitchellcubic" => ResizeKernel::MitchellCubic,
            _ => return None,
        })
    }

    fn radius(self) -> f64 {
        match self {
            ResizeKernel::Lanczos(radius) => radius,
            ResizeKernel::Gaussian => 1.5,
            ResizeKernel::Box => 0.5,
            ResizeKernel::Triangle => 1.0,
            ResizeKernel::KeysCubic | ResizeKernel::MitchellCubic => 2.0,
        }
    }

    fn at(self, x: f64) -> f64 {
        match self {
            ResizeKernel::Box if x == 0.5 => 0.5,
            ResizeKernel::Lanczos(radius) if x > radius => 0.0,
            ResizeKernel::Lanczos(_) if x < 1e-3 => 1.0,
            ResizeKernel::Lanczos(r) => r * (PI * x).sin() * (PI * x / r).sin() / (PI * PI * x * x),
            _ if x >= self.radius() => 0.0,
            ResizeKernel::Gaussian => (-x * x / (2.0 * 0.5 * 0.5)).exp(),
            ResizeKernel::Box => 1.0,
            ResizeKernel::Triangle => 1.0 - x,
            ResizeKernel::KeysCubic if x >= 1.0 => ((-0.5 * x + 2.5) * x - 4.0) * x + 2.0,
            ResizeKernel::KeysCubic => (1.5 * x - 2.5) * x * x + 1.0,
            ResizeKernel::MitchellCubic if x >= 1.0 => {
                ((-7.0 / 18.0 * x + 2.0) * x - 10.0 / 3.0) * x + 16.0 / 9.0
            }
            ResizeKernel::MitchellCubic => (7.0 / 6.0 * x - 2.0) * x * x + 8.0 / 9.0,
        }
    }
}

/// One axis of a transform.
pub(crate) struct ScaledAxis {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) scale: f64,
    pub(crate) translation: f64,
}

impl ScaledAxis {
    /// Row `i` has the shares of the old pixels in the new pixel `i`.
    pub(crate) fn weights(&self, kernel: ResizeKernel, antialias: bool) -> Tensor {
        let inverse = 1.0 / self.scale;
        let wide = if antialias { inverse.max(1.0) } else { 1.0 };
        let row = |i: i64| {
            let at = (i as f64 + 0.5) * inverse - inverse * self.translation;
            let reach = kernel.radius() * wide;
            let mut row = vec![0.0; self.from as usize];
            if at < 0.0 || at > self.from as f64 {
                return row;
            }
            let first = ((at - reach - 0.5).ceil() as i64).clamp(0, self.from - 1);
            let last = ((at + reach - 0.5).floor() as i64).clamp(0, self.from - 1);
            for old in first..=last {
                row[old as usize] = kernel.at(((old as f64 + 0.5 - at) / wide).abs());
            }
            let total: f64 = row.iter().sum();
            if total.abs() >= 1000.0 * f64::from(f32::MIN_POSITIVE) {
                row.iter_mut().for_each(|share| *share /= total);
            }
            row
        };
        let cells = (0..self.to).flat_map(row).map(|share| share as f32);
        Tensor::from_vec([self.to as usize, self.from as usize], cells.collect::<Vec<_>>())
    }
}

pub(crate) fn scale_and_translate(b: &Lower, a: Scaled) -> Lowered<Var> {
    let Some(kernel) = ResizeKernel::from_name(&a.kernel_type) else {
        let message = format!("The kernel `{}` is not known.", shown(&a.kernel_type));
        return Err(b.diagnostic(Code::LayerParameter, message));
    };
    let reals = |v: Var| b.constant_of(v).and_then(|t| t.to_reals()).map(|reals| reals.values);
    let x = channels_first(b, b.cast(a.images, Float)?)?;
    let dims = b.shape_of(x).unwrap_or_default();
    let (Some(scale), Some(translation)) = (reals(a.scale), reals(a.translation)) else {
        let message = "The scale and the translation must be constants.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let axis = |i: usize| {
        let axis = ScaledAxis {
            from: dims.get(i + 2)?.known()?,
            to: *a.size.get(i)?,
            scale: *scale.get(i)?,
            translation: *translation.get(i)?,
        };
        let sane = axis.scale > 0.0 && axis.scale.is_finite() && axis.translation.is_finite();
        (sane && axis.from > 0 && axis.to >= 0 && axis.from.saturating_mul(axis.to) <= CELLS_MAX)
            .then_some(axis)
    };
    let (Some(height), Some(width)) = (axis(0), axis(1)) else {
        let message = "The sizes of pictures must be known to weigh their pixels.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let rows = b.constant(height.weights(kernel, a.antialias));
    let columns = swapped(b, b.constant(width.weights(kernel, a.antialias)))?;
    channels_last(b, b.mat_mul(rows, b.mat_mul(x, columns)?)?)
}
