//! Fourier transforms.

use super::complex::{is, of_pair, of_parts, pair, parts};
use super::dtype::{of, operand, to_float};
use super::layout::rolled;
use super::pad::padded_by;
use super::sizes::{axis, known, known_size, plus, rank, scalar, size};
use super::{Lower, Source};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::Attr;
use onnxd_plugin_sdk::lower::{Lowered, Table, Value};

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = rows! { table;
        "aten::fft_fft" | "complex::fft_fft" => |b, a: One| one(b, &a, Kind::Forward);
        "aten::fft_ifft" | "complex::fft_ifft" => |b, a: One| one(b, &a, Kind::Inverse);
        "aten::fft_rfft" => |b, a: One| one(b, &a, Kind::Real);
        "aten::fft_irfft" | "complex::fft_irfft" => |b, a: One| one(b, &a, Kind::ToReal);
        "aten::fft_fft2" | "aten::fft_fftn" | "complex::fft_fft2" | "complex::fft_fftn" => |b, a: Many| {
            many(b, &a, Kind::Forward)
        };
        "aten::fft_ifft2" | "aten::fft_ifftn" | "complex::fft_ifft2" | "complex::fft_ifftn" =>
            |b, a: Many| many(b, &a, Kind::Inverse);
        "aten::fft_rfft2" | "aten::fft_rfftn" => |b, a: Many| many(b, &a, Kind::Real);
        "aten::fft_irfft2" | "aten::fft_irfftn" | "complex::fft_irfft2" | "complex::fft_irfftn" =>
            |b, a: Many| many(b, &a, Kind::ToReal);
    };
    rows! { table;
        "aten::_fft_r2c" => |b, a: R2c| {
            let kind = if a.onesided { Kind::Real } else { Kind::Forward };
            by_number(b, a.input, &a.dim, a.normalization, kind, None)
        };
        "complex::_fft_c2c" => |b, a: C2c| {
            let kind = if a.forward { Kind::Forward } else { Kind::Inverse };
            by_number(b, a.input, &a.dim, a.normalization, kind, None)
        };
        "complex::_fft_c2r" => |b, a: C2r| {
            by_number(b, a.input, &a.dim, a.normalization, Kind::ToReal, Some(&a.last_dim_size))
        };
        "aten::stft" => stft;
        "aten::fft_hfft" | "complex::fft_hfft" => |b, a: One| hermitian(b, &a);
        "aten::fft_ihfft" => |b, a: One| inverse_hermitian(b, &a);
        "aten::fft_fftshift" => |b, a: Shift| shifted(b, &a, false);
        "aten::fft_ifftshift" => |b, a: Shift| shifted(b, &a, true);
    }
}

arguments! {
    /// `fft_rfft(Tensor self, SymInt? n=None, int dim=-1, str? norm=None)`
    struct One { input: Var, n: Option<Value>, dim: i64, norm: Option<String> }
    /// `fft_fftn(Tensor self, SymInt[1]? s=None, int[1]? dim=None, str? norm=None)`
    struct Many { input: Var, s: Option<Vec<Value>>, dim: Option<Vec<i64>>, norm: Option<String> }
    /// `fft_fftshift(Tensor self, int[1]? dim=None)`
    struct Shift { input: Var, dim: Option<Vec<i64>> }
    /// `_fft_r2c(Tensor self, int[] dim, int normalization, bool onesided)`
    struct R2c { input: Var, dim: Vec<i64>, normalization: i64, onesided: bool }
    /// `_fft_c2c(Tensor self, SymInt[] dim, int normalization, bool forward)`
    struct C2c { input: Var, dim: Vec<i64>, normalization: i64, forward: bool }
    /// `_fft_c2r(Tensor self, int[] dim, int normalization, SymInt last_dim_size)`
    struct C2r { input: Var, dim: Vec<i64>, normalization: i64, last_dim_size: Value }
    /// `stft.center(Tensor self, int n_fft, int? hop_length=None, int? win_length=None, Tensor? window=None,
    /// bool center=True, str pad_mode="reflect", bool normalized=False, bool? onesided=None,
    /// bool? return_complex=None, bool? align_to_window=None)`
    struct Stft {
        input: Var, n_fft: i64, hop_length: Option<i64>, win_length: Option<i64>, window: Option<Var>,
        center: Option<bool>, pad_mode: Option<String>, normalized: bool, onesided: Option<bool>,
        return_complex: Option<bool>, align_to_window: Option<bool>,
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Kind {
    Forward,
    Inverse,
    /// Of real numbers, the half that says all.
    Real,
    /// The inverse of that.
    ToReal,
}

/// What a transform is multiplied with: the root of 1 over its length as a power. ONNX divides inverse ones by it.
fn power(b: &Lower, kind: Kind, norm: Option<&str>) -> Lowered<i32> {
    let inverse = matches!(kind, Kind::Inverse | Kind::ToReal);
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

fn one(b: &Lower, a: &One, kind: Kind) -> Lowered<Var> {
    let power = power(b, kind, a.norm.as_deref())?;
    let dim = axis(b, a.input, a.dim)?;
    along(b, a.input, dim, a.n.as_ref(), kind, power)
}

/// Of the half of a signal that says all, as its inverse is of the half of a spectrum.
fn hermitian(b: &Lower, a: &One) -> Lowered<Var> {
    let x = if is(b, a.input) { conjugate(b, a.input)? } else { a.input };
    let power = -2 - power(b, Kind::ToReal, a.norm.as_deref())?;
    along(b, x, axis(b, x, a.dim)?, a.n.as_ref(), Kind::ToReal, power)
}

fn inverse_hermitian(b: &Lower, a: &One) -> Lowered<Var> {
    let power = 2 - power(b, Kind::Real, a.norm.as_deref())?;
    let dim = axis(b, a.input, a.dim)?;
    conjugate(b, along(b, a.input, dim, a.n.as_ref(), Kind::Real, power)?)
}

fn conjugate(b: &Lower, x: Var) -> Lowered<Var> {
    let [re, im] = parts(b, x)?;
    of_parts(b, [re, b.neg(im)?])
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

fn many(b: &Lower, a: &Many, kind: Kind) -> Lowered<Var> {
    let rank = rank(b, a.input)? as i64;
    let count = a.s.as_ref().map_or(rank, |s| s.len() as i64);
    let dims = a.dim.clone().unwrap_or_else(|| (rank - count..rank).collect());
    let lengths = |i: usize| a.s.as_ref().and_then(|s| s.get(i)).filter(|n| **n != Value::Int(-1));
    let power = power(b, kind, a.norm.as_deref())?;
    let all: Vec<_> = (0..dims.len()).map(|i| (dims[i], lengths(i))).collect();
    over(b, a.input, &all, kind, power)
}

/// Along several axes; the real one is the last of them.
fn over(b: &Lower, x: Var, dims: &[(i64, Option<&Value>)], kind: Kind, power: i32) -> Lowered<Var> {
    let Some(((last, length), rest)) = dims.split_last() else { return Ok(x) };
    let last = axis(b, x, *last)?;
    let inner = match kind {
        Kind::Real => Kind::Forward,
        Kind::ToReal => Kind::Inverse,
        other => other,
    };
    let mut y = x;
    if kind != Kind::ToReal {
        y = along(b, y, last, *length, kind, power)?;
    }
    for (dim, length) in rest {
        let dim = axis(b, y, *dim)?;
        y = along(b, y, dim, *length, inner, power)?;
    }
    if kind == Kind::ToReal {
        y = along(b, y, last, *length, kind, power)?;
    }
    Ok(y)
}

/// As ATen's own operators count norms: 0 for none, 1 for the root of the length, 2 for the length.
fn by_number(
    b: &Lower,
    x: Var,
    dims: &[i64],
    normalization: i64,
    kind: Kind,
    last: Option<&Value>,
) -> Lowered<Var> {
    let inverse = matches!(kind, Kind::Inverse | Kind::ToReal);
    let power = normalization as i32 - if inverse { 2 } else { 0 };
    let count = dims.len();
    let all: Vec<_> =
        dims.iter().enumerate().map(|(i, d)| (*d, last.filter(|_| i + 1 == count))).collect();
    over(b, x, &all, kind, power)
}

/// Along one axis, of `n` elements if that is given.
fn along(b: &Lower, x: Var, dim: usize, n: Option<&Value>, kind: Kind, power: i32) -> Lowered<Var> {
    if b.opset() < 17 {
        let message = "Fourier transforms exist from opset 17 on.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    if kind == Kind::ToReal {
        return to_real(b, x, dim, n, power);
    }
    let signal = match is(b, x) {
        true => pair(b, x)?,
        false => {
            let x = to_float(b, x)?;
            b.unsqueeze(x, [rank(b, x)? as i64])?
        }
    };
    let given = n.map(|n| scalar(b, n)).transpose()?;
    let y = transformed(b, signal, dim, given, kind)?;
    if power == 0 {
        return of_pair(b, y);
    }
    let length = match n {
        Some(n) => n.clone(),
        None => size(b, x, dim)?,
    };
    of_pair(b, scaled(b, y, &length, power)?)
}

/// DFT, which wants an axis before those of the signal.
fn transformed(
    b: &Lower,
    x: Var,
    dim: usize,
    length: Option<onnxd_plugin_sdk::build::Operand>,
    kind: Kind,
) -> Lowered<Var> {
    let single = rank(b, x)? == 2;
    let (signal, axis) = if single { (b.unsqueeze(x, [0])?, dim + 1) } else { (x, dim) };
    let call = b.dft(signal).axis(axis as i64).dft_length(length);
    let call = call.onesided(kind == Kind::Real).inverse(kind == Kind::Inverse);
    let y = call.one()?;
    if single { b.squeeze(y).axes([0]).one() } else { Ok(y) }
}

/// `x / n^(power / 2)`
fn scaled(b: &Lower, x: Var, n: &Value, power: i32) -> Lowered<Var> {
    if power == 0 {
        return Ok(x);
    }
    let exponent = -f64::from(power) / 2.0;
    let dtype = of(b, x)?;
    if let Some(n) = known(b, n) {
        return b.mul(x, operand(b, &Value::Float((n as f64).powf(exponent)), dtype)?);
    }
    let n = b.cast(scalar(b, n)?, dtype)?;
    b.mul(x, b.pow(n, exponent)?)
}

/// The other half of the numbers is the conjugate of those that are given, in the opposite order.
fn to_real(b: &Lower, x: Var, dim: usize, n: Option<&Value>, power: i32) -> Lowered<Var> {
    let message = "The size of an inverse transform to real numbers must be known.";
    let unknown = || b.diagnostic(Code::LayerUnsupported, message);
    let m = known_size(b, x, dim);
    let n = match n {
        Some(n) => known(b, n).ok_or_else(unknown)?,
        None => 2 * (m.ok_or_else(unknown)? - 1),
    };
    let at = dim as i64;
    let [re, im] = if is(b, x) {
        parts(b, x)?
    } else {
        let re = to_float(b, x)?;
        [re, b.mul(re, 0.0)?]
    };
    let (half, m) = (n / 2 + 1, m.ok_or_else(unknown)?);
    let fitted = |part: Var| match half.cmp(&m) {
        std::cmp::Ordering::Less => b.slice(part, [0], [half]).axes([at]).one(),
        std::cmp::Ordering::Equal => Ok(part),
        std::cmp::Ordering::Greater => {
            let mut pads = vec![0; 2 * rank(b, part)?];
            let axes = pads.len() / 2;
            pads[axes + dim] = half - m;
            b.pad(part, pads).one()
        }
    };
    let mirrored = |part: Var| b.slice(part, [n - half], [0]).axes([at]).steps([-1]).one();
    let (re, im) = (fitted(re)?, fitted(im)?);
    let re = b.concat([re, mirrored(re)?]).axis(at).one()?;
    let im = b.concat([im, b.neg(mirrored(im)?)?]).axis(at).one()?;
    let last = rank(b, re)? as i64;
    let both = b.concat([b.unsqueeze(re, [last])?, b.unsqueeze(im, [last])?]).axis(last).one()?;
    let y = transformed(b, both, dim, None, Kind::Inverse)?;
    scaled(b, b.gather(y, 0i64).axis(last).one()?, &Value::Int(n), power)
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

fn stft(b: &Lower, a: Stft) -> Lowered<Var> {
    if b.opset() < 17 || is(b, a.input) {
        let message = "Spectra of short times exist from opset 17 on, of real numbers.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    }
    let single_signal = rank(b, a.input)? == 1;
    let mut x = if single_signal { b.unsqueeze(a.input, [0])? } else { a.input };
    if a.center == Some(true) {
        x = padded_by(b, x, a.n_fft / 2, a.pad_mode.as_deref().unwrap_or("reflect"))?;
    }
    let dtype = of(b, x)?;
    let width = a.win_length.unwrap_or(a.n_fft);
    let window = window(b, a.window, (a.n_fft, width), dtype)?;
    let hop = a.hop_length.unwrap_or(a.n_fft / 4);
    let signal = b.unsqueeze(x, [2])?;
    let call = b.stft(signal, hop).window(window).frame_length(a.n_fft);
    // ONNX's own inference takes another default than the operator.
    let onesided = Attr::Int(i64::from(a.onesided.unwrap_or(true)));
    let y = call.attrs([("onesided", onesided)]).one()?;
    let mut y = b.transpose(y).perm([0, 2, 1, 3]).one()?;
    if single_signal {
        y = b.squeeze(y).axes([0]).one()?;
    }
    if a.normalized {
        y = scaled(b, y, &Value::Int(a.n_fft), 1)?;
    }
    if a.return_complex == Some(true) { of_pair(b, y) } else { Ok(y) }
}
