//! Fourier transforms.

use super::complex::conjugate;
use super::dtype::{dtype_of, operand, to_float};
use super::layout::rolled;
use super::pad::padded_by;
use super::sizes::{axis, known, plus, rank, scalar, size};
use super::{Lower, RowContext};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::formulas::complex::is;
use onnxd_plugin_sdk::formulas::fourier::{Fourier, spectra, transformed, waves};
use onnxd_plugin_sdk::ir::Attr;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<RowContext>) -> Table<RowContext> {
    let table = super::rows! { table;
        "aten::fft_fft" | "complex::fft_fft" => |b, a: One| one(b, &a, Fourier::Forward);
        "aten::fft_ifft" | "complex::fft_ifft" => |b, a: One| one(b, &a, Fourier::Inverse);
        "aten::fft_rfft" => |b, a: One| one(b, &a, Fourier::Real);
        "aten::fft_irfft" | "complex::fft_irfft" => |b, a: One| one(b, &a, Fourier::ToReal);
        "aten::fft_fft2" | "aten::fft_fftn" | "complex::fft_fft2" | "complex::fft_fftn" => |b, a: Many| {
            many(b, &a, Fourier::Forward)
        };
        "aten::fft_ifft2" | "aten::fft_ifftn" | "complex::fft_ifft2" | "complex::fft_ifftn" =>
            |b, a: Many| many(b, &a, Fourier::Inverse);
        "aten::fft_rfft2" | "aten::fft_rfftn" => |b, a: Many| many(b, &a, Fourier::Real);
        "aten::fft_irfft2" | "aten::fft_irfftn" | "complex::fft_irfft2" | "complex::fft_irfftn" =>
            |b, a: Many| many(b, &a, Fourier::ToReal);
    };
    super::rows! { table;
        "aten::_fft_r2c" => |b, input: Var, dim: Vec<i64>, normalization: i64, onesided: bool| {
            let kind = if onesided { Fourier::Real } else { Fourier::Forward };
            by_number(b, input, &dim, normalization, kind, None)
        };
        "complex::_fft_c2c" => |b, input: Var, dim: Vec<i64>, normalization: i64, forward: bool| {
            let kind = if forward { Fourier::Forward } else { Fourier::Inverse };
            by_number(b, input, &dim, normalization, kind, None)
        };
        "complex::_fft_c2r" => |b, input: Var, dim: Vec<i64>, normalization: i64, last_dim_size: Value| {
            by_number(b, input, &dim, normalization, Fourier::ToReal, Some(&last_dim_size))
        };
        "aten::stft" => stft;
        "aten::fft_hfft" | "complex::fft_hfft" => |b, a: One| hermitian(b, &a);
        "aten::fft_ihfft" => |b, a: One| inverse_hermitian(b, &a);
        "aten::fft_fftshift" => |b, a: Shift| shifted(b, &a, false);
        "aten::fft_ifftshift" => |b, a: Shift| shifted(b, &a, true);
    }
}

arguments! {
    /// `fft_rfft`
    struct One { input: Var, n: Option<Value>, dim: i64, norm: Option<String> }
    /// `fft_fftn`
    struct Many { input: Var, s: Option<Vec<Value>>, dim: Option<Vec<i64>>, norm: Option<String> }
    /// `fft_fftshift`
    struct Shift { input: Var, dim: Option<Vec<i64>> }
    /// `stft.center`
    struct Stft {
        input: Var, n_fft: i64, hop_length: Option<i64>, win_length: Option<i64>, window: Option<Var>,
        center: Option<bool>, pad_mode: Option<String>, normalized: bool, onesided: Option<bool>,
        return_complex: Option<bool>, align_to_window: Option<bool>,
    }
}

/// What a transform is multiplied with: the root of 1 over its length as a power. ONNX divides inverse ones by it.
fn power(b: &Lower, kind: Fourier, norm: Option<&str>) -> Lowered<i32> {
    let inverse = matches!(kind, Fourier::Inverse | Fourier::ToReal);
    Ok(match (norm.unwrap_or("backward"), inverse) {
        ("backward", _) => 0,
        ("ortho", false) => 1,
        ("ortho", true) => -1,
        ("forward", false) => 2,
        ("forward", true) => -2,
        _ => {
            return Err(b.diagnostic(Code::LayerParameter, "The norm of a transform is not known."));
        }
    })
}

fn one(b: &Lower, a: &One, kind: Fourier) -> Lowered<Var> {
    let power = power(b, kind, a.norm.as_deref())?;
    over(b, a.input, &[(a.dim, a.n.as_ref())], kind, power)
}

/// Of the half of a signal that says all, as its inverse is of the half of a spectrum.
fn hermitian(b: &Lower, a: &One) -> Lowered<Var> {
    let x = if is(b, a.input) { conjugate(b, a.input)? } else { a.input };
    let power = -2 - power(b, Fourier::ToReal, a.norm.as_deref())?;
    over(b, x, &[(a.dim, a.n.as_ref())], Fourier::ToReal, power)
}

fn inverse_hermitian(b: &Lower, a: &One) -> Lowered<Var> {
    let power = 2 - power(b, Fourier::Real, a.norm.as_deref())?;
    conjugate(b, over(b, a.input, &[(a.dim, a.n.as_ref())], Fourier::Real, power)?)
}

/// Half of each axis moves to the other end: the lower half is the larger one, or back.
fn shifted(b: &Lower, a: &Shift, back: bool) -> Lowered<Var> {
    let all = || (0..rank(b, a.input).unwrap_or(0) as i64).collect();
    let dims = a.dim.clone().unwrap_or_else(all);
    dims.into_iter().try_fold(a.input, |x, dim| {
        let dim = axis(b, x, dim)?;
        let n = size(b, x, dim)?;
        let n = if back { plus(b, &n, &Value::Int(1))? } else { n };
        rolled(b, x, dim, &halved(b, &n)?)
    })
}

/// Half of a size, rounded down.
fn halved(b: &Lower, n: &Value) -> Lowered<Value> {
    match known(b, n) {
        Some(n) => Ok(Value::Int(n / 2)),
        None => Ok(Value::Var(b.div(scalar(b, n)?, 2i64)?)),
    }
}

fn many(b: &Lower, a: &Many, kind: Fourier) -> Lowered<Var> {
    let rank = rank(b, a.input)? as i64;
    let count = a.s.as_ref().map_or(rank, |s| s.len() as i64);
    let dims = a.dim.clone().unwrap_or_else(|| (rank - count..rank).collect());
    let lengths = |i: usize| a.s.as_ref().and_then(|s| s.get(i)).filter(|n| **n != Value::Int(-1));
    let power = power(b, kind, a.norm.as_deref())?;
    let all: Vec<_> = (0..dims.len()).map(|i| (dims[i], lengths(i))).collect();
    over(b, a.input, &all, kind, power)
}

/// Along several axes; the real one is the last of them.
fn over(
    b: &Lower,
    x: Var,
    dims: &[(i64, Option<&Value>)],
    kind: Fourier,
    power: i32,
) -> Lowered<Var> {
    if dims.is_empty() {
        return Ok(x);
    }
    let along = |(dim, n): &(i64, Option<&Value>)| {
        let length = n.map(|n| scalar(b, n)).transpose()?;
        Ok((axis(b, x, *dim)? as i64, length))
    };
    let dims = dims.iter().map(along).collect::<Lowered<Vec<_>>>()?;
    let signal = match is(b, x) {
        true => b.source.complex.pair(b, x)?,
        false => b.unsqueeze(to_float(b, x)?, [rank(b, x)? as i64])?,
    };
    let y = transformed(b, signal, &dims, kind, power)?;
    match kind {
        Fourier::ToReal => Ok(y),
        _ => Ok(b.source.complex.of_pair(b, y)),
    }
}

/// As ATen's own operators count norms: 0 for none, 1 for the root of the length, 2 for the length.
fn by_number(
    b: &Lower,
    x: Var,
    dims: &[i64],
    normalization: i64,
    kind: Fourier,
    last: Option<&Value>,
) -> Lowered<Var> {
    let inverse = matches!(kind, Fourier::Inverse | Fourier::ToReal);
    let power = normalization as i32 - if inverse { 2 } else { 0 };
    let count = dims.len();
    let all: Vec<_> =
        dims.iter().enumerate().map(|(i, d)| (*d, last.filter(|_| i + 1 == count))).collect();
    over(b, x, &all, kind, power)
}

/// The window of a transform of `n` elements, of which it covers `width` in the middle; all of them alike without one.
pub(super) fn window(
    b: &Lower,
    window: Option<Var>,
    (n, width): (i64, i64),
    dtype: onnxd_plugin_sdk::ir::DataType,
) -> Lowered<Var> {
    let left = (n - width) / 2;
    let window = match window {
        Some(window) => b.cast(window, dtype)?,
        None => b.expand(operand(b, &Value::Int(1), dtype)?, [width])?,
    };
    match width == n {
        true => Ok(window),
        false => b.pad(window, [left, n - width - left]).one(),
    }
}

/// Numbers in the kernels of a convolution that transforms.
pub(super) const KERNELS_MAX: i64 = 1 << 26;

fn stft(b: &Lower, a: Stft) -> Lowered<Var> {
    let wrong = |message: &str| Err(b.diagnostic(Code::LayerUnsupported, message));
    if is(b, a.input) {
        return wrong("Spectra of short times are converted for real signals only.");
    }
    let single_signal = rank(b, a.input)? == 1;
    let mut x = if single_signal { b.unsqueeze(a.input, [0])? } else { a.input };
    if a.center == Some(true) {
        x = padded_by(b, x, a.n_fft / 2, a.pad_mode.as_deref().unwrap_or("reflect"))?;
    }
    let (n, width) = (a.n_fft, a.win_length.unwrap_or(a.n_fft));
    let window = window(b, a.window, (n, width), dtype_of(b, x)?)?;
    let hop = a.hop_length.unwrap_or(n / 4);
    let onesided = a.onesided.unwrap_or(true);
    let mut y = if b.opset() >= 17 {
        let call = b.stft(b.unsqueeze(x, [2])?, hop).window(window).frame_length(n);
        // ONNX's own inference takes another default than the operator.
        let y = call.attrs([("onesided", Attr::Int(i64::from(onesided)))]).one()?;
        b.transpose(y).perm([0, 2, 1, 3]).one()?
    } else {
        let bins = if onesided { n / 2 + 1 } else { n };
        if n < 1 || hop < 1 || n.saturating_mul(2 * bins) > KERNELS_MAX {
            return wrong("The spectra have too many frequencies, or none.");
        }
        let kernels = b.mul(waves(b, x, [bins, n, n], |_, _| 1.0)?, window)?;
        let parts = spectra(b, b.unsqueeze(x, [1])?, kernels, [bins, hop])?;
        b.concat([b.unsqueeze(parts[0], [3])?, b.unsqueeze(parts[1], [3])?]).axis(3).one()?
    };
    if single_signal {
        y = b.squeeze(y).axes([0]).one()?;
    }
    if a.normalized {
        y = b.mul(y, operand(b, &Value::Float((n as f64).powf(-0.5)), dtype_of(b, y)?)?)?;
    }
    if a.return_complex == Some(true) { Ok(b.source.complex.of_pair(b, y)) } else { Ok(y) }
}
