//! Fourier transforms and windows.

use super::Rules;
use super::site::{InferContext, Shapes, axis, first_of, minus, one, plus, show, times, unknown};
use super::symbolic::floor;
use crate::{Dim, Shape};
use onnxd_diagnostics::refuse;

pub(super) const RULES: Rules = &[
    ("BlackmanWindow", window),
    ("DFT", dft),
    ("HammingWindow", window),
    ("HannWindow", window),
    ("MelWeightMatrix", mel_weight_matrix),
    ("STFT", stft),
];

const ONE: Dim = Dim::Known(1);
const TWO: Dim = Dim::Known(2);

/// Frequencies of a real signal of `length`.
fn half(length: &Dim) -> Dim {
    plus(&floor(length, &TWO), &ONE)
}

/// The only element of input `i`, a size.
fn length(site: &InferContext<'_>, i: usize) -> Dim {
    first_of(site, i).filter(|n| !matches!(n, Dim::Known(..0))).unwrap_or(Dim::Unknown)
}

fn window(site: &InferContext<'_>) -> Shapes {
    one(vec![length(site, 0)])
}

fn dft(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let rank = shape.len();
    let [.., parts] = shape else { return Err("the input is a scalar".to_owned()) };
    refuse!(rank < 2 || !matches!(parts.known(), None | Some(1 | 2)) =>
        "{} is neither real nor complex", show(shape));
    let (inverse, half_only) = (site.int("inverse", 0) != 0, site.int("onesided", 0) != 0);
    let mut out = shape.to_vec();
    out[rank - 1] = Dim::Known(if inverse && half_only { 1 } else { 2 });
    let at = match site.opset {
        ..20 => Some(site.int("axis", 1)),
        _ if site.has(2) => first_of(site, 2).and_then(|d| d.known()),
        _ => Some(-2),
    };
    let Some(at) = at else {
        // Any axis but the last may change.
        let unchanged = !half_only && !site.has(1);
        let other = |i: usize, d: Dim| if unchanged || i + 1 == rank { d } else { Dim::Unknown };
        return one(out.into_iter().enumerate().map(|(i, d)| other(i, d)).collect::<Shape>());
    };
    let at = axis(at, rank)?;
    refuse!(at + 1 == rank => "the axis of real and imaginary parts is not transformed");
    let full = match (site.has(1), inverse && half_only) {
        (true, _) => length(site, 1),
        (false, true) => times(&TWO, &minus(&shape[at], &ONE)),
        (false, false) => shape[at].clone(),
    };
    out[at] = if half_only && !inverse { half(&full) } else { full };
    one(out)
}

fn stft(site: &InferContext<'_>) -> Shapes {
    let Some(signal) = site.shape(0) else { return unknown() };
    let [batch, samples, ..] = signal else {
        return Err(format!("the signal {} has no batch axis", show(signal)));
    };
    let frame = match site.shape(2) {
        _ if site.has(3) => length(site, 3),
        Some([size]) => size.clone(),
        _ => Dim::Unknown,
    };
    let step = length(site, 1);
    let frames = match (&step, minus(samples, &frame)) {
        (Dim::Known(..1), _) => return Err("the step between frames is not positive".to_owned()),
        (_, Dim::Known(..0)) => {
            return Err(format!("the signal {} is shorter than a frame", show(signal)));
        }
        (step, room) => plus(&floor(&room, step), &ONE),
    };
    let bins = if site.int("onesided", 1) != 0 { half(&frame) } else { frame };
    one(vec![batch.clone(), frames, bins, TWO])
}

fn mel_weight_matrix(site: &InferContext<'_>) -> Shapes {
    one(vec![half(&length(site, 1)), length(site, 0)])
}
