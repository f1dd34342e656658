//! Quantization between `float` and 8-bit integers, the case that models are full of, in one pass.

use super::ScaleLayout;
use crate::parallel::{fill_parts, vectorized};
use onnxd_ir::{DataType, Tensor};

/// Scales and zero points, and which elements they belong to.
pub(super) struct Parameters<'a> {
    pub(super) layout: &'a ScaleLayout,
    pub(super) scales: &'a [f32],
    pub(super) zeros: &'a [i64],
}

/// Fills a run of the result, told where it begins and its scale and zero point.
type Fill<'a, T> = dyn Fn(usize, &mut [T], (f32, i32)) + Sync + 'a;

impl Parameters<'_> {
    /// `float` to `int8` or `uint8`.
    pub(super) fn quantize(&self, dims: &[usize], x: &[f32], dtype: DataType) -> Option<Tensor> {
        let mut y = vec![0u8; x.len()];
        let shift = if dtype == DataType::Int8 { -128 } else { 0 };
        self.each(&mut y, &|first, y, (s, z)| quantize_run(&x[first..], (s, z, shift), y))?;
        match dtype {
            DataType::Uint8 => Some(Tensor::from_vec(dims, y)),
            DataType::Int8 => Some(Tensor::from_vec(dims, bytemuck::cast_vec::<u8, i8>(y))),
            _ => None,
        }
    }

    /// `int8` or `uint8` to `float`.
    pub(super) fn dequantize(&self, x: &Tensor) -> Option<Tensor> {
        let mut y = vec![0f32; x.len()];
        match x.dtype() {
            DataType::Uint8 => self.dequantize_all(&x.as_slice::<u8>()?, &mut y)?,
            DataType::Int8 => self.dequantize_all(&x.as_slice::<i8>()?, &mut y)?,
            _ => return None,
        }
        Some(Tensor::from_vec(x.dims(), y))
    }

    fn dequantize_all<T: IntoI32>(&self, x: &[T], y: &mut [f32]) -> Option<()> {
        if let ScaleLayout::PerAxis(size, inner @ 1..RUN_MIN) = *self.layout {
            // Rows are long where runs are not, as with a matrix that has a scale for each column.
            let repeated = |i: usize| std::iter::repeat_n(i, inner);
            let scales: Vec<f32> = (0..size).flat_map(repeated).map(|i| self.scales[i]).collect();
            let zero = |i: usize| i32::try_from(self.zeros[i]).ok();
            let zeros: Vec<i32> = (0..size).flat_map(repeated).map(zero).collect::<Option<_>>()?;
            let row = scales.len().max(1);
            fill_parts(y, row, 1, &|first, part| {
                for (y, x) in part.chunks_mut(row).zip(x[first..].chunks(row)) {
                    dequantize_row(x, &scales, &zeros, y);
                }
            });
            return Some(());
        }
        self.each(y, &|first, y, (s, z)| dequantize_run(&x[first..], s, z, y))
    }

    /// Fills `y` run by run, where a run has one scale and zero point. `None` if the runs are too
    /// short to be worth it.
    fn each<T: Send>(&self, y: &mut [T], f: &Fill<T>) -> Option<()> {
        let of = |k: usize| Some((self.scales[k], i32::try_from(self.zeros[k]).ok()?));
        let all: Vec<(f32, i32)> = (0..self.scales.len()).map(of).collect::<Option<_>>()?;
        match *self.layout {
            ScaleLayout::PerTensor => fill_parts(y, 1, 1, &|first, part| f(first, part, all[0])),
            ScaleLayout::PerAxis(size, inner) if inner >= RUN_MIN => {
                fill_parts(y, inner, 1, &|first, part| {
                    for (i, run) in part.chunks_mut(inner).enumerate() {
                        let at = first / inner + i;
                        f(at * inner, run, all[at % size]);
                    }
                });
            }
            _ => return None,
        }
        Some(())
    }
}

/// Elements that a run has at least.
const RUN_MIN: usize = 8;

vectorized! {
    /// `shift` is the smallest value of the type, which is stored as its low byte.
    fn quantize_run(x: &[f32], parameters: (f32, i32, i32), y: &mut [u8]) {
        let (scale, zero, shift) = parameters;
        // Limits are integers, so it makes no difference to clamp before rounding.
        let (low, high) = ((shift - zero) as f32, (shift + 255 - zero) as f32);
        for (y, x) in y.iter_mut().zip(x) {
            let quotient = x / scale;
            let q = (quotient.clamp(low, high) + ROUNDER).to_bits().wrapping_add(zero as u32);
            *y = if quotient.is_nan() { 0 } else { q as u8 };
        }
    }
}

/// A `float` plus this is rounded to an integer, ties to even, which stands in the low bits.
const ROUNDER: f32 = 12_582_912.0;

vectorized! {
    fn dequantize_run<T: IntoI32>(x: &[T], scale: f32, zero: i32, y: &mut [f32]) {
        for (y, x) in y.iter_mut().zip(x) {
            *y = (x.wide() - zero) as f32 * scale;
        }
    }
}

vectorized! {
    fn dequantize_row<T: IntoI32>(x: &[T], scales: &[f32], zeros: &[i32], y: &mut [f32]) {
        for ((y, x), (scale, zero)) in y.iter_mut().zip(x).zip(scales.iter().zip(zeros)) {
            *y = (x.wide() - zero) as f32 * scale;
        }
    }
}

/// An 8-bit integer.
trait IntoI32: Copy + Sync {
    fn wide(self) -> i32;
}

impl IntoI32 for u8 {
    fn wide(self) -> i32 {
        i32::from(self)
    }
}

impl IntoI32 for i8 {
    fn wide(self) -> i32 {
        i32::from(self)
    }
}
