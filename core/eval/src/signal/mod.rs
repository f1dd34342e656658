//! Fourier transforms, and the windows and filters used with them.

mod fft;
#[cfg(test)]
mod tests;

use crate::call::{KernelCall, KernelRow, one, raw, scalar};
use crate::dims;
use crate::fault::{Fault, Outcome};
use crate::reals::{reals, stored};
use fft::{Complex, FftPlan};
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor};
use std::f64::consts::{LN_10, PI};

pub(crate) const ROWS: &[KernelRow] = &[
    raw("BlackmanWindow", |call| window(call, [0.42, -0.5, 0.08])),
    raw("DFT", dft),
    raw("HammingWindow", |call| window(call, [25.0 / 46.0, -21.0 / 46.0, 0.0])),
    raw("HannWindow", |call| window(call, [0.5, -0.5, 0.0])),
    raw("MelWeightMatrix", mel_weight_matrix),
    raw("STFT", stft),
];

/// A length given by an input.
fn length(x: &Tensor) -> Outcome<usize> {
    let found = scalar(x)?;
    refuse!(found < 0.0 || found.fract() != 0.0 => "{found} is not a length");
    Ok(found as usize)
}

fn output_dtype(call: &KernelCall) -> Outcome<DataType> {
    let number = call.int("output_datatype", 1)?;
    let dtype = i32::try_from(number).ok().and_then(DataType::from_number);
    dtype.ok_or_else(|| Fault::invalid(format!("{number} is not an element type")))
}

/// `c0 + c1 cos(2 pi n / N) + c2 cos(4 pi n / N)`; N is one less where the window is symmetric.
fn window(call: &KernelCall, c: [f64; 3]) -> Outcome<Vec<Tensor>> {
    let size = length(call.x(0)?)?;
    let dtype = output_dtype(call)?;
    call.room(DataType::Double, &[size])?;
    let period = if call.flag("periodic", true)? { size as f64 } else { size as f64 - 1.0 };
    let mut y = vec![0f64; size];
    for (n, v) in y.iter_mut().enumerate() {
        let angle = 2.0 * PI * n as f64 / period;
        *v = c[0] + c[1] * angle.cos() + c[2] * (2.0 * angle).cos();
    }
    one(stored(dtype, &[size], y)?)
}

/// Triangular filters that are evenly spaced on the mel scale: `[dft_length / 2 + 1, bins]`.
fn mel_weight_matrix(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (bins, dft_length) = (length(call.x(0)?)?, length(call.x(1)?)?);
    let [rate, low, high] = [2, 3, 4].map(|i| call.x(i).and_then(scalar));
    let (rate, low, high) = (rate?, low?, high?);
    let dtype = output_dtype(call)?;
    let dims = [dft_length / 2 + 1, bins];
    let mut y = vec![0f64; call.room(DataType::Double, &dims)?];
    let mel = |hertz: f64| 2595.0 * (hertz / 700.0).ln_1p() / LN_10;
    let step = (mel(high) - mel(low)) / (bins as f64 + 2.0);
    let edge = |i: usize| -> Outcome<usize> {
        let hertz = 700.0 * ((i as f64 * step + mel(low)) / 2595.0 * LN_10).exp_m1();
        let at = ((dft_length as f64 + 1.0) * hertz / rate).floor();
        let inside = at >= 0.0 && at <= dims[0] as f64;
        let outside = || Fault::invalid(format!("frequency {hertz} Hz is outside the spectrum"));
        if inside { Ok(at as usize) } else { Err(outside()) }
    };
    for bin in 0..bins {
        let (left, centre, right) = (edge(bin)?, edge(bin + 1)?, edge(bin + 2)?);
        let rising = centre.saturating_sub(left);
        let falling = right.saturating_sub(centre);
        for j in left..=centre.min(dims[0] - 1) {
            y[j * bins + bin] = if rising == 0 { 1.0 } else { (j - left) as f64 / rising as f64 };
        }
        for j in centre..right {
            y[j * bins + bin] = (right - j) as f64 / falling as f64;
        }
    }
    one(stored(dtype, &dims, y)?)
}

/// The transform of one line; the inverse divides by the length. A one-sided inverse completes the
/// spectrum by its conjugate.
fn transformed(plan: &FftPlan, mut line: Vec<Complex>, inverse: bool, half: bool) -> Vec<Complex> {
    let n = plan.length();
    let given = line.len();
    line.resize(n, Complex::default());
    if inverse && half {
        for k in n / 2 + 1..n {
            line[k] = line[n - k].conjugate();
        }
        // The imaginary parts that a real signal cannot have do not count.
        let lone = [Some(0), (n.is_multiple_of(2) && n / 2 < given).then_some(n / 2)];
        lone.into_iter().flatten().filter(|k| *k < n).for_each(|k| line[k].im = 0.0);
    }
    if inverse {
        line.iter_mut().for_each(|v| *v = v.conjugate());
    }
    plan.run(&mut line);
    if inverse {
        let by = (n as f64).recip();
        line.iter_mut().for_each(|v| *v = Complex { re: v.re * by, im: -v.im * by });
    }
    line
}

/// The axis was an attribute (1 by default) before opset 20, then an input (-2 by default).
fn dft(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    let parts = x.dims().last().copied().unwrap_or(0);
    refuse!(x.rank() < 2 || !(1..=2).contains(&parts) => "{x:?} is neither real nor complex");
    let axis = match call.opt(2) {
        Some(axis) => scalar(axis)? as i64,
        None => call.int("axis", if call.opset < 20 { 1 } else { -2 })?,
    };
    let axis = dims::axis(axis, x.rank())?;
    refuse!(axis + 1 == x.rank() => "the axis of real and imaginary parts is not transformed");
    let (inverse, half) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let size = x.dims()[axis];
    let n = match call.opt(1) {
        Some(n) => length(n)?,
        None if inverse && half => 2 * size.saturating_sub(1),
        None => size,
    };
    refuse!(n == 0 => "a transform of length 0 is not defined");
    let mut y_dims = x.dims().to_vec();
    y_dims[axis] = if half && !inverse { n / 2 + 1 } else { n };
    y_dims[x.rank() - 1] = if half && inverse { 1 } else { 2 };
    let parts_out = y_dims[x.rank() - 1];
    let mut y = vec![0f64; call.room(DataType::Double, &y_dims)?];
    call.room(DataType::Double, &[n, 16])?;
    let plan = FftPlan::new(n);
    let values = reals(x)?;
    let (outer, _, inner) = dims::around(&x.dims()[..x.rank() - 1], axis);
    let used = size.min(n);
    for (o, i) in (0..outer).flat_map(|o| (0..inner).map(move |i| (o, i))) {
        let mut line = vec![Complex::default(); used];
        for (t, v) in line.iter_mut().enumerate() {
            let at = ((o * size + t) * inner + i) * parts;
            v.re = values[at];
            v.im = if parts == 2 { values[at + 1] } else { 0.0 };
        }
        let found = transformed(&plan, line, inverse, half);
        for (t, v) in found.iter().take(y_dims[axis]).enumerate() {
            let at = ((o * y_dims[axis] + t) * inner + i) * parts_out;
            y[at] = v.re;
            if parts_out == 2 {
                y[at + 1] = v.im;
            }
        }
    }
    one(stored(x.dtype(), &y_dims, y)?)
}

/// The transforms of windowed frames: `[batch, frames, frequencies, 2]`.
fn stft(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let x = call.x(0)?;
    // ONNX Runtime and the reference evaluator take real signals without the last axis, too.
    let (batch, signal, parts) = match *x.dims() {
        [batch, signal] => (batch, signal, 1),
        [batch, signal, parts @ 1..=2] => (batch, signal, parts),
        _ => return Err(Fault::invalid(format!("{x:?} is not a batch of signals"))),
    };
    let step = length(call.x(1)?)?;
    let window = call.opt(2).map(reals).transpose()?;
    let given = call.opt(3).map(length).transpose()?;
    let n = given.or(window.as_ref().map(Vec::len)).unwrap_or(signal);
    refuse!(n == 0 || n > signal || step == 0 || window.as_ref().is_some_and(|w| w.len() != n) =>
        "frames of {n}, step {step}, do not fit {x:?}");
    let frames = 1 + (signal - n) / step;
    let bins = if call.flag("onesided", true)? { n / 2 + 1 } else { n };
    let y_dims = [batch, frames, bins, 2];
    let mut y = Vec::with_capacity(call.room(DataType::Double, &y_dims)?);
    let plan = FftPlan::new(n);
    let values = reals(x)?;
    for at in 0..batch * frames {
        let start = at / frames * signal + at % frames * step;
        let mut line = vec![Complex::default(); n];
        for (t, v) in line.iter_mut().enumerate() {
            let weight = window.as_ref().map_or(1.0, |w| w[t]);
            v.re = values[(start + t) * parts] * weight;
            v.im = if parts == 2 { values[(start + t) * 2 + 1] * weight } else { 0.0 };
        }
        let found = transformed(&plan, line, false, false);
        found.iter().take(bins).for_each(|v| y.extend([v.re, v.im]));
    }
    one(stored(x.dtype(), &y_dims, y)?)
}
