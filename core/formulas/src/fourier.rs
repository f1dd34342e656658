//! Fourier transforms. A signal has its real and imaginary parts along a last axis, which is single for real numbers.

use crate::complex::ComplexParts;
use crate::{dtype_of, vector};
use onnxd_build::{GraphBuilder, Operand, Result, Var};
use onnxd_diagnostics::{Code, shown};
use onnxd_ir::Reals;
use std::f64::consts::TAU;

/// Longest transform that is written as a product with a matrix.
const LENGTH_MAX: i64 = 4096;

/// Which transform.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fourier {
    Forward,
    /// Its inverse, which is divided by the length.
    Inverse,
    /// Of real numbers, the half that says all.
    Real,
    /// The inverse of that, which has no axis of parts.
    ToReal,
}

/// An axis, which may be counted from the last one before the parts, and the length of the transform if it is another
/// than the axis has.
pub type Along = (i64, Option<Operand>);

/// Along several axes; the real one is the last of them. The result is divided by the root of all lengths, `power`
/// times.
///
/// # Errors
/// `N0203` if sizes are not known that have to be; `N0204` if there is no such axis.
pub fn transformed(
    b: &GraphBuilder,
    signal: Var,
    along: &[Along],
    kind: Fourier,
    power: i32,
) -> Result<Var> {
    let count = axes(b, signal)? - 1;
    let mut all = Vec::new();
    for (axis, length) in along {
        let at = if *axis < 0 { axis + count } else { *axis };
        if !(0..count).contains(&at) {
            let message = "A transform goes along an axis that the tensor does not have.";
            return Err(b.diagnostic(Code::LayerParameter, message));
        }
        all.push((at, length.clone()));
    }
    let Some((last, rest)) = all.split_last() else { return Ok(signal) };
    let factor = if power == 0 { None } else { Some(factor(b, signal, &all, kind, power)?) };
    let inner = match kind {
        Fourier::Real => Fourier::Forward,
        Fourier::ToReal => Fourier::Inverse,
        other => other,
    };
    let mut y = signal;
    if kind != Fourier::ToReal {
        y = one(b, y, last, kind)?;
    }
    for along in rest {
        y = one(b, y, along, inner)?;
    }
    if kind == Fourier::ToReal {
        y = to_real(b, y, last)?;
    }
    match factor {
        Some(factor) => b.mul(y, factor),
        None => Ok(y),
    }
}

fn axes(b: &GraphBuilder, x: Var) -> Result<i64> {
    let rank = b.rank_of(x).filter(|rank| *rank >= 1).ok_or_else(|| {
        let message = format!("The number of axes of `{}` is not known.", shown(&b.name_of(x)));
        b.diagnostic(Code::LayerUnsupported, message)
    })?;
    Ok(rank as i64)
}

fn size(b: &GraphBuilder, x: Var, axis: i64) -> Option<i64> {
    b.shape_of(x)?.get(axis as usize)?.known()
}

fn known(b: &GraphBuilder, length: &Operand) -> Option<i64> {
    match length {
        Operand::Int(n) => Some(*n),
        Operand::Var(v) => match b.ints_of(*v)?[..] {
            [n] => Some(n),
            _ => None,
        },
        _ => None,
    }
}

/// The number of elements along an axis that a transform reads or gives, if it is known.
fn length_of(b: &GraphBuilder, x: Var, (axis, length): &Along, kind: Fourier) -> Option<i64> {
    match length {
        Some(length) => known(b, length),
        None if kind == Fourier::ToReal => size(b, x, *axis).map(|m| 2 * (m - 1)),
        None => size(b, x, *axis),
    }
}

/// One over the root of all lengths, as a power.
fn factor(b: &GraphBuilder, x: Var, all: &[Along], kind: Fourier, power: i32) -> Result<Var> {
    let exponent = -f64::from(power) / 2.0;
    let mut number = 1.0;
    let mut others = None;
    for (i, along) in all.iter().enumerate() {
        let is_last = i + 1 == all.len();
        let kind = if is_last { kind } else { Fourier::Forward };
        if let Some(n) = length_of(b, x, along, kind) {
            number *= (n as f64).powf(exponent);
            continue;
        }
        let (axis, length) = along;
        let n = match length {
            Some(length) => length.clone(),
            None => b.squeeze(b.shape(x).start(*axis).end(axis + 1).one()?).axes([0]).one()?.into(),
        };
        let n = b.pow(b.cast(n, dtype_of(b, x)?)?, exponent)?;
        others = Some(match others {
            Some(others) => b.mul(others, n)?,
            None => n,
        });
    }
    match others {
        Some(others) => b.mul(others, number),
        None => crate::number(b, x, number),
    }
}

/// The transform along one axis. DFT wants an axis before it.
fn one(b: &GraphBuilder, x: Var, along: &Along, kind: Fourier) -> Result<Var> {
    if b.opset() < 17 {
        return by_matrix(b, x, along, kind);
    }
    let (axis, length) = along;
    let single = axes(b, x)? == 2;
    let (signal, at) = if single { (b.unsqueeze(x, [0])?, axis + 1) } else { (x, *axis) };
    let call = b.dft(signal).axis(at).dft_length(length.clone());
    let y = call.onesided(kind == Fourier::Real).inverse(kind == Fourier::Inverse).one()?;
    if single { b.squeeze(y).axes([0]).one() } else { Ok(y) }
}

/// `x` with so many elements along an axis: the first ones, or zeros behind them.
fn fitted(b: &GraphBuilder, x: Var, axis: i64, length: i64) -> Result<Var> {
    let longer = |by: i64| {
        let rank = axes(b, x)? as usize;
        let mut pads = vec![0; 2 * rank];
        pads[rank + axis as usize] = by;
        b.pad(x, pads).one()
    };
    match size(b, x, axis) {
        Some(own) if own == length => Ok(x),
        Some(own) if own < length => longer(length - own),
        Some(_) => b.slice(x, [0], [length]).axes([axis]).one(),
        None => b.slice(longer(length)?, [0], [length]).axes([axis]).one(),
    }
}

/// Before opset 17: a product with cosines and one with sines.
fn by_matrix(b: &GraphBuilder, x: Var, along: &Along, kind: Fourier) -> Result<Var> {
    let axis = along.0;
    let Some(n) = length_of(b, x, along, kind).filter(|n| (1..=LENGTH_MAX).contains(n)) else {
        let message = format!(
            "Transforms of unknown length, or of more than {LENGTH_MAX} elements, exist from opset 17 on."
        );
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let x = fitted(b, x, axis, n)?;
    let bins = if kind == Fourier::Real { n / 2 + 1 } else { n };
    let matrix = |f: fn(f64) -> f64| {
        let (sign, scale) =
            if kind == Fourier::Inverse { (1.0, 1.0 / n as f64) } else { (-1.0, 1.0) };
        let angle = move |i: i64, k: i64| sign * TAU * ((i * k) % n) as f64 / n as f64;
        let cells = (0..n).flat_map(|i| (0..bins).map(move |k| scale * f(angle(i, k))));
        let reals = Reals { dims: vec![n as usize, bins as usize], values: cells.collect() };
        Ok(b.constant(reals.to_tensor(dtype_of(b, x)?).expect("reals of a float type")))
    };
    let (cosines, sines) = (matrix(f64::cos)?, matrix(f64::sin)?);
    let count = axes(b, x)?;
    let mut order: Vec<i64> = (0..count - 1).collect();
    order.swap(axis as usize, count as usize - 2);
    let exchanged = |x: Var| match axis == count - 2 {
        true => Ok(x),
        false => b.transpose(x).perm(&order).one(),
    };
    let part = |i: i64| exchanged(b.gather(x, i).axis(count - 1).one()?);
    let re = part(0)?;
    let mut out = [b.mat_mul(re, cosines)?, b.mat_mul(re, sines)?];
    if size(b, x, count - 1) != Some(1) {
        let im = part(1)?;
        out[0] = b.sub(out[0], b.mat_mul(im, sines)?)?;
        out[1] = b.add(out[1], b.mat_mul(im, cosines)?)?;
    }
    let back = |part: Var| b.unsqueeze(exchanged(part)?, [count - 1]);
    b.concat([back(out[0])?, back(out[1])?]).axis(count - 1).one()
}

/// The other half of the numbers is the conjugate of those that are given, in the opposite order.
fn to_real(b: &GraphBuilder, x: Var, along: &Along) -> Result<Var> {
    let axis = along.0;
    let Some(n) = length_of(b, x, along, Fourier::ToReal).filter(|n| *n > 0) else {
        let message = "The size of an inverse transform to real numbers must be known.";
        return Err(b.diagnostic(Code::LayerUnsupported, message));
    };
    let half = n / 2 + 1;
    let given = fitted(b, x, axis, half)?;
    let last = axes(b, x)? - 1;
    let mut other = b.slice(given, [n - half], [0]).axes([axis]).steps([-1]).one()?;
    if size(b, x, last) != Some(1) {
        other = b.mul(other, vector(b, x, vec![1.0, -1.0])?)?;
    }
    let whole = b.concat([given, other]).axis(axis).one()?;
    let y = one(b, whole, &(axis, None), Fourier::Inverse)?;
    b.gather(y, 0i64).axis(last).one()
}

/// Kernels of a convolution whose channels are the spectrum of what they cover: cosines of each frequency, then sines
/// the other way round, `[2 * bins, 1, count]`, in the type of `x`. `points` is the length of the transform, and
/// `weight` says by frequency and place what a kernel is multiplied with.
///
/// # Errors
/// `N0204` if the type is not known.
pub fn waves(
    b: &GraphBuilder,
    x: Var,
    [bins, count, points]: [i64; 3],
    weight: impl Fn(i64, i64) -> f64,
) -> Result<Var> {
    let mut values = Vec::with_capacity((2 * bins * count) as usize);
    for wave in [f64::cos, |angle: f64| -angle.sin()] as [fn(f64) -> f64; 2] {
        for k in 0..bins {
            let at = |i: i64| weight(k, i) * wave(TAU * ((k * i) % points) as f64 / points as f64);
            values.extend((0..count).map(at));
        }
    }
    let reals = Reals { dims: vec![2 * bins as usize, 1, count as usize], values };
    Ok(b.constant(reals.to_tensor(dtype_of(b, x)?).expect("reals of a float type")))
}

/// Spectra of pieces of `[batch, 1, time]` that begin every `stride` places, by [`waves`] of so many frequencies:
/// `[batch, bins, pieces]` each.
///
/// # Errors
/// Those of the builder.
pub fn spectra(
    b: &GraphBuilder,
    x: Var,
    waves: Var,
    [bins, stride]: [i64; 2],
) -> Result<ComplexParts> {
    let y = b.conv(x, waves).strides([stride]).one()?;
    let parts = b.split(y).split([bins, bins]).axis(1).list(2)?;
    Ok([parts[0], parts[1]])
}

#[cfg(test)]
mod tests;
