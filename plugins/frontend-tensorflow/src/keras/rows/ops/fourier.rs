//! Fourier transforms. Keras has complex numbers as their two parts.

use super::promote::floats;
use crate::ops::complex::{conjugate, of_parts, parts};
use crate::ops::create::{filled, number};
use crate::ops::fft::over;
use crate::ops::{Lower, RowContext, dtype_of};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::formulas::complex;
use onnxd_plugin_sdk::formulas::fourier::Fourier;
use onnxd_plugin_sdk::lower::{Lowered, Table};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = crate::ops::rows! { table;
        "ops.RFFT" => |b, a: Real| {
            parts(b, over(b, floats(b, a.x)?, &[(-1, a.fft_length)], Fourier::Real)?)
        };
        "ops.FFT" => |b, a: Complex| transformed(b, &a, &[(-1, None)], Fourier::Forward);
        "ops.FFT2" => |b, a: Complex| transformed(b, &a, &[(-2, None), (-1, None)], Fourier::Forward);
        "ops.IFFT2" => |b, a: Complex| transformed(b, &a, &[(-2, None), (-1, None)], Fourier::Inverse);
        "ops.IRFFT" => |b, a: Complex| {
            over(b, of_both(b, &a)?, &[(-1, a.fft_length)], Fourier::ToReal)
        };
    };
    complex_parts(table)
}

/// Complex tensors and their parts. Those of real tensors are known.
fn complex_parts(table: Table<RowContext>) -> Table<RowContext> {
    crate::ops::rows! { table;
        "complex::ops.Real" => |b, x: Var| Ok(parts(b, x)?[0]);
        "complex::ops.Imag" => |b, x: Var| Ok(parts(b, x)?[1]);
        "ops.Imag" => |b, x: Var| zeros(b, x);
        "complex::ops.Abs" | "complex::ops.Absolute" => |b: &Lower, x: Var| b.source.complex.length(b, x);
        "complex::ops.Angle" => |b, x: Var| complex::angle(b, parts(b, x)?);
        "ops.Angle" => |b, x: Var| {
            let x = floats(b, x)?;
            let half = b.constant(number(std::f64::consts::PI, dtype_of(b, x)?));
            b.where_(b.less(x, 0)?, half, zeros(b, x)?)
        };
        "complex::ops.Conj" | "complex::ops.Conjugate" => |b, x: Var| conjugate(b, x);
        "ops.ViewAsComplex" => |b: &Lower, x: Var| Ok(b.source.complex.of_pair(b, floats(b, x)?));
        "complex::ops.ViewAsReal" => |b: &Lower, x: Var| b.source.complex.pair(b, x);
        "ops.ViewAsReal" => |b, x: Var| {
            let x = floats(b, x)?;
            b.concat([b.unsqueeze(x, [-1])?, b.unsqueeze(zeros(b, x)?, [-1])?]).axis(-1).one()
        };
    }
}

fn zeros(b: &Lower, x: Var) -> Lowered<Var> {
    filled(b, b.shape(x).one()?, 0, dtype_of(b, x)?)
}

arguments! {
    /// `RFFT(x; fft_length=None)`
    struct Real { x: Var, fft_length: Option<i64> }
    /// `FFT(x)`
    struct Complex { x: Vec<Var>, fft_length: Option<i64> }
}

fn of_both(b: &Lower, a: &Complex) -> Lowered<Var> {
    match a.x[..] {
        [real, imaginary] => of_parts(b, [floats(b, real)?, floats(b, imaginary)?]),
        _ => Err(b.wrong("A complex tensor has two parts.")),
    }
}

fn transformed(
    b: &Lower,
    a: &Complex,
    dims: &[(i64, Option<i64>)],
    kind: Fourier,
) -> Lowered<[Var; 2]> {
    parts(b, over(b, of_both(b, a)?, dims, kind)?)
}
