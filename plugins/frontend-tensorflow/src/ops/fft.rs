//! Fourier transforms.

use super::{Lower, RowContext, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::{Operand, Var};
use onnxd_plugin_sdk::formulas::complex::is;
use onnxd_plugin_sdk::formulas::fourier::{Fourier, transformed};
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "complex::FFT" | "complex::BatchFFT" => |b, input: Var| over(b, input, &last(1), Fourier::Forward);
        "complex::FFT2D" | "complex::BatchFFT2D" => |b, input: Var| over(b, input, &last(2), Fourier::Forward);
        "complex::FFT3D" | "complex::BatchFFT3D" => |b, input: Var| over(b, input, &last(3), Fourier::Forward);
        "complex::IFFT" | "complex::BatchIFFT" => |b, input: Var| over(b, input, &last(1), Fourier::Inverse);
        "complex::IFFT2D" | "complex::BatchIFFT2D" => |b, input: Var| over(b, input, &last(2), Fourier::Inverse);
        "complex::IFFT3D" | "complex::BatchIFFT3D" => |b, input: Var| over(b, input, &last(3), Fourier::Inverse);
        "RFFT" | "RFFT2D" | "RFFT3D" => |b, input: Var, fft_length: Vec<i64>| {
            over(b, input, &sized(&fft_length), Fourier::Real)
        };
        "complex::IRFFT" | "complex::IRFFT2D" | "complex::IRFFT3D" => |b, input: Var, fft_length: Vec<i64>| {
            over(b, input, &sized(&fft_length), Fourier::ToReal)
        };
        "complex::FFTND" => |b, a: Named| over(b, a.input, &a.dims(), Fourier::Forward);
        "complex::IFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Fourier::Inverse);
        "RFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Fourier::Real);
        "complex::IRFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Fourier::ToReal);
    };
    super::audio::rows(table)
}

arguments! {
    /// `FFTND`
    struct Named { input: Var, fft_length: Vec<i64>, axes: Vec<i64> }
}

/// An axis, counted from the last one, and the length of the transform if it is another than the axis has.
type Dims = Vec<(i64, Option<i64>)>;

fn last(n: i64) -> Dims {
    (-n..0).map(|axis| (axis, None)).collect()
}

fn sized(lengths: &[i64]) -> Dims {
    let n = lengths.len() as i64;
    (-n..0).zip(lengths.iter().map(|n| Some(*n))).collect()
}

impl Named {
    fn dims(&self) -> Dims {
        self.axes.iter().copied().zip(self.fft_length.iter().map(|n| Some(*n))).collect()
    }
}

/// Along several axes; the real one is the last of them.
pub(crate) fn over(b: &Lower, x: Var, dims: &[(i64, Option<i64>)], kind: Fourier) -> Lowered<Var> {
    if dims.is_empty() {
        return Ok(x);
    }
    let dims: Vec<_> = dims.iter().map(|(axis, n)| (*axis, n.map(Operand::Int))).collect();
    let signal = match is(b, x) {
        true => b.source.complex.pair(b, x)?,
        false => b.unsqueeze(x, [rank(b, x)? as i64])?,
    };
    let y = transformed(b, signal, &dims, kind, 0)?;
    match kind {
        Fourier::ToReal => Ok(y),
        _ => Ok(b.source.complex.of_pair(b, y)),
    }
}
