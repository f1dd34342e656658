//! Fourier transforms as sums, and windows by their formulas.

use crate::case::{Case, FLOATS, case};
use crate::dice::Dice;
use crate::nd::{Nd, put, reals};
use onnxd_ir::{DataType, Tensor};
use std::f64::consts::PI;

properties! {
    dft: "DFT";
    stft: "STFT";
    window: "HannWindow", "HammingWindow", "BlackmanWindow";
    mel_weight_matrix: "MelWeightMatrix";
}

use DataType::*;

fn scalar(d: &mut Dice, n: usize) -> Tensor {
    if d.coin() { Tensor::scalar(n as i64) } else { Tensor::scalar(n as i32) }
}

/// Element `k` of the transform of length `n` of a line of complex numbers, which is cut or filled
/// with zeros.
fn coefficient(line: &[(f64, f64)], n: usize, k: usize, inverse: bool) -> (f64, f64) {
    let (mut re, mut im) = (0.0, 0.0);
    for (t, (a, b)) in line.iter().take(n).enumerate() {
        let turn = 2.0 * PI * ((k * t) % n) as f64 / n as f64;
        let (s, c) = if inverse { turn.sin_cos() } else { (-turn).sin_cos() };
        re += a * c - b * s;
        im += a * s + b * c;
    }
    let by = if inverse { n as f64 } else { 1.0 };
    (re / by, im / by)
}

fn dft(op: &str, d: &mut Dice) -> Option<Case> {
    let rank = 2 + d.below(3);
    let mut dims: Vec<usize> = (0..rank).map(|_| 1 + d.below(6)).collect();
    let opset = d.pick(&[20, 17]);
    let axis = d.below(rank - 1);
    let spelt = if d.coin() { axis as i64 - rank as i64 } else { axis as i64 };
    let spelt = if opset < 20 { axis as i64 } else { spelt };
    let inverse = d.coin();
    let half = !inverse && d.coin();
    let complex = !half && d.coin();
    dims[rank - 1] = if complex { 2 } else { 1 };
    let dtype = d.pick(&[Float, Double]);
    let length = d.coin().then(|| 1 + d.below(9));
    let x = d.tensor(dtype, &dims);
    let xs = reals(&x);
    let n = length.unwrap_or(dims[axis]);
    let mut out = put(&put(&dims, axis, n), rank - 1, 2);
    if half {
        out[axis] = n / 2 + 1;
    }
    let y = Nd::fill(&out, |o| {
        let part = |t: usize, p: usize| xs.at(&put(&put(o, axis, t), rank - 1, p));
        let line: Vec<(f64, f64)> =
            (0..dims[axis]).map(|t| (part(t, 0), if complex { part(t, 1) } else { 0.0 })).collect();
        let (re, im) = coefficient(&line, n, o[axis], inverse);
        if o[rank - 1] == 0 { re } else { im }
    });
    let default = if opset < 20 { 1 } else { rank - 2 };
    let given = axis != default || d.coin();
    let mut case = case(op, opset)
        .attr_if(inverse || d.coin(), "inverse", inverse)
        .attr_if(half || d.coin(), "onesided", half)
        .input(&x)
        .maybe(length.map(|n| scalar(d, n)).as_ref());
    if opset < 20 {
        case = case.attr_if(given, "axis", spelt);
    } else {
        case = case.maybe(given.then(|| Tensor::scalar(spelt)).as_ref());
    }
    let sums = vec![40.0; y.v.len()];
    Some(case.near(dtype, y, &sums))
}

fn stft(op: &str, d: &mut Dice) -> Option<Case> {
    let (batch, signal) = (1 + d.below(2), 1 + d.below(12));
    let half = d.coin();
    let parts = if !half && d.coin() { 2 } else { 1 };
    let n = 1 + d.below(signal);
    let step = 1 + d.below(4);
    let dtype = d.pick(&[Float, Double]);
    let x = d.tensor(dtype, &[batch, signal, parts]);
    let window = d.coin().then(|| d.tensor(dtype, &[n]));
    let named = window.is_none() || d.coin();
    let (xs, ws) = (reals(&x), window.as_ref().map(reals));
    let frames = (signal - n) / step + 1;
    let bins = if half { n / 2 + 1 } else { n };
    let y = Nd::fill(&[batch, frames, bins, 2], |o| {
        let line: Vec<(f64, f64)> = (0..n)
            .map(|t| {
                let gain = ws.as_ref().map_or(1.0, |w| w.v[t]);
                let part = |p: usize| gain * xs.at(&[o[0], o[1] * step + t, p]);
                (part(0), if parts == 2 { part(1) } else { 0.0 })
            })
            .collect();
        let (re, im) = coefficient(&line, n, o[2], false);
        if o[3] == 0 { re } else { im }
    });
    // Real signals may lack the last axis.
    let lacking = parts == 1 && d.coin();
    let short =
        lacking.then(|| Tensor::new(dtype, vec![batch, signal], x.bytes().clone()).unwrap());
    let given = short.as_ref().unwrap_or(&x);
    let case = case(op, 17).attr_if(!half || d.coin(), "onesided", half).input(given);
    let case = case.input(&scalar(d, step)).maybe(window.as_ref());
    let case = case.maybe(named.then(|| scalar(d, n)).as_ref());
    let sums = vec![200.0; y.v.len()];
    Some(case.near(dtype, y, &sums))
}

fn window(op: &str, d: &mut Dice) -> Option<Case> {
    let n = 2 + d.below(12);
    let periodic = d.coin();
    let dtype = d.pick(FLOATS);
    let over = if periodic { n as f64 } else { n as f64 - 1.0 };
    let y = Nd::fill(&[n], |o| {
        let turn = |times: f64| (times * PI * o[0] as f64 / over).cos();
        match op {
            "HannWindow" => 0.5 - 0.5 * turn(2.0),
            "HammingWindow" => 25.0 / 46.0 - 21.0 / 46.0 * turn(2.0),
            _ => 0.42 - 0.5 * turn(2.0) + 0.08 * turn(4.0),
        }
    });
    let case = case(op, 17)
        .attr_if(!periodic || d.coin(), "periodic", periodic)
        .attr_if(dtype != Float || d.coin(), "output_datatype", i64::from(dtype.number()))
        .input(&scalar(d, n));
    Some(case.near(dtype, y, &vec![1.0; n]))
}

fn mel_weight_matrix(op: &str, d: &mut Dice) -> Option<Case> {
    let (bins, length) = (1 + d.below(6), 8 + d.below(40));
    let rate = d.pick(&[8000usize, 16000]);
    let (low, high) = (d.pick(&[0.0f32, 120.0]), rate as f32 / 2.0);
    let dtype = d.pick(&[Float, Double]);
    let mel = |hertz: f64| 2595.0 * (1.0 + hertz / 700.0).log10();
    let hertz = |mel: f64| 700.0 * (10f64.powf(mel / 2595.0) - 1.0);
    let (first, last) = (mel(f64::from(low)), mel(f64::from(high)));
    let places: Vec<f64> = (0..bins + 2)
        .map(|i| first + i as f64 * (last - first) / (bins + 2) as f64)
        .map(|m| (length + 1) as f64 * hertz(m) / rate as f64)
        .collect();
    if places[1..].iter().any(|p| (p - p.round()).abs() < 1e-3) {
        return None;
    }
    let edges: Vec<i64> = places.iter().map(|p| p.floor() as i64).collect();
    let y = Nd::fill(&[length / 2 + 1, bins], |o| {
        let (j, left, centre, right) = (o[0] as i64, edges[o[1]], edges[o[1] + 1], edges[o[1] + 2]);
        if j == centre && (left == centre || right > centre || j >= left) {
            1.0
        } else if (left..centre).contains(&j) {
            (j - left) as f64 / (centre - left) as f64
        } else if (centre..right).contains(&j) {
            (right - j) as f64 / (right - centre) as f64
        } else {
            0.0
        }
    });
    let case = case(op, 17)
        .attr_if(dtype != Float || d.coin(), "output_datatype", i64::from(dtype.number()))
        .input(&scalar(d, bins))
        .input(&scalar(d, length))
        .input(&scalar(d, rate))
        .input(&Tensor::scalar(low))
        .input(&Tensor::scalar(high));
    Some(case.rounded(dtype, y))
}
