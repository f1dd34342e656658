//! Fourier transforms.

use super::complex::{is, of_pair, pair, parts};
use super::operands::Input;
use super::{Lower, Source, of, rank};
use onnxd_plugin_sdk::arguments;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::diagnostics::Code;
use onnxd_plugin_sdk::ir::Reals;
use onnxd_plugin_sdk::lower::{Lowered, Table};
use std::f64::consts::PI;

/// Longest transform that is written as a product with a matrix.
const LENGTH_MAX: i64 = 4096;

pub(crate) fn rows(table: Table<Source>) -> Table<Source> {
    let table = super::rows! { table;
        "complex::FFT" | "complex::BatchFFT" => |b, a: Input| over(b, a.input, &last(1), Kind::Forward);
        "complex::FFT2D" | "complex::BatchFFT2D" => |b, a: Input| over(b, a.input, &last(2), Kind::Forward);
        "complex::FFT3D" | "complex::BatchFFT3D" => |b, a: Input| over(b, a.input, &last(3), Kind::Forward);
        "complex::IFFT" | "complex::BatchIFFT" => |b, a: Input| over(b, a.input, &last(1), Kind::Inverse);
        "complex::IFFT2D" | "complex::BatchIFFT2D" => |b, a: Input| over(b, a.input, &last(2), Kind::Inverse);
        "complex::IFFT3D" | "complex::BatchIFFT3D" => |b, a: Input| over(b, a.input, &last(3), Kind::Inverse);
        "RFFT" | "RFFT2D" | "RFFT3D" => |b, a: Sized| over(b, a.input, &sized(&a.fft_length), Kind::Real);
        "complex::IRFFT" | "complex::IRFFT2D" | "complex::IRFFT3D" => |b, a: Sized| {
            over(b, a.input, &sized(&a.fft_length), Kind::ToReal)
        };
        "complex::FFTND" => |b, a: Named| over(b, a.input, &a.dims(), Kind::Forward);
        "complex::IFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Kind::Inverse);
        "RFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Kind::Real);
        "complex::IRFFTND" => |b, a: Named| over(b, a.input, &a.dims(), Kind::ToReal);
    };
    super::audio::rows(table)
}

arguments! {
    /// `RFFT(input, fft_length; Treal: type = float, Tcomplex: type = complex64) -> output`
    struct Sized { input: Var, fft_length: Vec<i64> }
    /// `FFTND(input, fft_length, axes; Tcomplex: type = complex64) -> output`
    struct Named { input: Var, fft_length: Vec<i64>, axes: Vec<i64> }
}

#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    Forward,
    Inverse,
    /// Of real numbers, the half that says all.
    Real,
    /// The inverse of that.
    ToReal,
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
pub(crate) fn over(b: &Lower, x: Var, dims: &[(i64, Option<i64>)], kind: Kind) -> Lowered<Var> {
    let n = rank(b, x)? as i64;
    let wrapped = |(axis, length): &(i64, Option<i64>)| {
        let at = if *axis < 0 { axis + n } else { *axis };
        let message = "A transform goes along an axis that the tensor does not have.";
        match (0..n).contains(&at) {
            true => Ok((at, *length)),
            false => Err(b.diagnostic(Code::LayerParameter, message)),
        }
    };
    let dims = dims.iter().map(wrapped).collect::<Lowered<Vec<_>>>()?;
    let Some(((last, length), rest)) = dims.split_last() else { return Ok(x) };
    let (inner, before) = match kind {
        Kind::Real => (Kind::Forward, true),
        Kind::ToReal => (Kind::Inverse, false),
        other => (other, true),
    };
    let mut signal = match is(b, x) {
        true => pair(b, x)?,
        false => b.unsqueeze(x, [n])?,
    };
    if before {
        signal = transformed(b, signal, *last, *length, kind)?;
    }
    for (axis, length) in rest {
        signal = transformed(b, signal, *axis, *length, inner)?;
    }
    match kind {
        Kind::ToReal => to_real(b, of_pair(b, signal)?, *last, *length),
        _ => of_pair(b, signal),
    }
}

/// Numbers along an axis of `signal`, whose last axis holds one part or both. DFT wants an axis before.
fn transformed(b: &Lower, x: Var, axis: i64, length: Option<i64>, kind: Kind) -> Lowered<Var> {
    if b.opset() < 17 {
        return by_matrix(b, x, axis, length, kind);
    }
    let single = rank(b, x)? == 2;
    let (signal, at) = if single { (b.unsqueeze(x, [0])?, axis + 1) } else { (x, axis) };
    let call = b.dft(signal).axis(at).dft_length(length);
    let y = call.onesided(kind == Kind::Real).inverse(kind == Kind::Inverse).one()?;
    if single { b.squeeze(y).axes([0]).one() } else { Ok(y) }
}

/// `x` with so many elements along an axis: the first ones, or zeros behind them.
fn fitted(b: &Lower, x: Var, axis: i64, length: i64) -> Lowered<Var> {
    let own = b.shape_of(x).and_then(|dims| dims.get(axis as usize)?.known());
    match own {
        Some(own) if own == length => Ok(x),
        Some(own) if own < length => {
            let mut pads = vec![0; 2 * rank(b, x)?];
            let at = pads.len() / 2 + axis as usize;
            pads[at] = length - own;
            b.pad(x, pads).one()
        }
        Some(_) => b.slice(x, [0], [length]).axes([axis]).one(),
        None => {
            let mut pads = vec![0; 2 * rank(b, x)?];
            let at = pads.len() / 2 + axis as usize;
            pads[at] = length;
            b.slice(b.pad(x, pads).one()?, [0], [length]).axes([axis]).one()
        }
    }
}

/// Before opset 17: a product with cosines and one with sines.
fn by_matrix(b: &Lower, x: Var, axis: i64, length: Option<i64>, kind: Kind) -> Lowered<Var> {
    let own = b.shape_of(x).and_then(|dims| dims.get(axis as usize)?.known());
    let Some(n) = length.or(own).filter(|n| (1..=LENGTH_MAX).contains(n)) else {
        let message = format!(
            "Transforms of unknown length, or of more than {LENGTH_MAX} elements, exist from opset 17 on."
        );
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let x = fitted(b, x, axis, n)?;
    let bins = if kind == Kind::Real { n / 2 + 1 } else { n };
    let matrix = |f: fn(f64) -> f64| {
        let sign = if kind == Kind::Inverse { 1.0 } else { -1.0 };
        let scale = if kind == Kind::Inverse { 1.0 / n as f64 } else { 1.0 };
        let angle = move |i: i64, k: i64| sign * 2.0 * PI * ((i * k) % n) as f64 / n as f64;
        let cells = (0..n).flat_map(|i| (0..bins).map(move |k| scale * f(angle(i, k))));
        let reals = Reals { dims: vec![n as usize, bins as usize], values: cells.collect() };
        Ok(b.constant(reals.to_tensor(of(b, x)?).expect("reals of a float type")))
    };
    let (cosines, sines) = (matrix(f64::cos)?, matrix(f64::sin)?);
    let count = rank(b, x)? as i64;
    let mut order: Vec<i64> = (0..count - 1).collect();
    order.swap(axis as usize, count as usize - 2);
    let part = |i: i64| {
        let part = b.gather(x, i).axis(count - 1).one()?;
        super::shape::transposed(b, part, &order)
    };
    let both = b.shape_of(x).and_then(|dims| dims.last()?.known()) == Some(2);
    let re = part(0)?;
    let mut out = [b.mat_mul(re, cosines)?, b.mat_mul(re, sines)?];
    if both {
        let im = part(1)?;
        out[0] = b.sub(out[0], b.mat_mul(im, sines)?)?;
        out[1] = b.add(out[1], b.mat_mul(im, cosines)?)?;
    }
    let back = |part: Var| b.unsqueeze(super::shape::transposed(b, part, &order)?, [count - 1]);
    b.concat([back(out[0])?, back(out[1])?]).axis(count - 1).one()
}

/// The other half of the numbers is the conjugate of those that are given, in the opposite order.
fn to_real(b: &Lower, x: Var, axis: i64, length: Option<i64>) -> Lowered<Var> {
    let own = b.shape_of(x).and_then(|dims| dims.get(axis as usize)?.known());
    let Some(n) = length.or(own.map(|m| 2 * (m - 1))).filter(|n| *n > 0) else {
        let message = "The size of an inverse transform to real numbers must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let half = n / 2 + 1;
    let whole = |part: Var, mirror: fn(&Lower, Var) -> Lowered<Var>| {
        let part = fitted(b, part, axis, half)?;
        let other = b.slice(part, [n - half], [0]).axes([axis]).steps([-1]).one()?;
        let other = mirror(b, other)?;
        b.unsqueeze(b.concat([part, other]).axis(axis).one()?, [rank(b, part)? as i64])
    };
    let [re, im] = parts(b, x)?;
    let both = [whole(re, |_, x| Ok(x))?, whole(im, |b, x| b.neg(x))?];
    let last = rank(b, both[0])? as i64 - 1;
    let both = b.concat(both).axis(last).one()?;
    let y = transformed(b, both, axis, None, Kind::Inverse)?;
    b.gather(y, 0).axis(last).one()
}
