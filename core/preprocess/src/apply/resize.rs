//! Bilinear resizing as OpenCV does it: bytes with weights of 11 bits, everything else in single precision.

use super::picture::room;
use crate::{Depth, Picture, PictureFault, Sizing};

/// What a weight of 1 is for bytes.
const ONE: f32 = 2048.0;

/// One sample of the result: the places of two samples and their weights.
struct Tap {
    at: [usize; 2],
    weights: [f32; 2],
}

/// For an axis of `from` samples that becomes one of `to`. In a row, what lies beyond the ends takes the last sample
/// alone (`alone`); in a column it takes it twice.
fn taps(from: usize, to: usize, alone: bool) -> Vec<Tap> {
    let scale = 1.0 / (to as f64 / from as f64);
    let tap = |i: usize| {
        let centre = ((i as f64 + 0.5) * scale - 0.5) as f32;
        let first = centre.floor();
        let mut second = centre - first;
        let last = from as i64 - 1;
        let first = first as i64;
        if alone && (first < 0 || first >= last) {
            second = 0.0;
        }
        let at = [first, first + 1].map(|i| i.clamp(0, last) as usize);
        Tap { at, weights: [1.0 - second, second] }
    };
    (0..to).map(tap).collect()
}

pub(crate) fn resize(
    picture: &Picture,
    wanted: [usize; 2],
    sizing: Sizing,
) -> Result<Picture, PictureFault> {
    let [width, height] = sizes(picture, wanted, sizing);
    room(width, height, picture.channels)?;
    // The rows between the two directions may be more than either picture has.
    room(width, picture.height, picture.channels)?;
    let halves = [width, height].map(|n| n.checked_mul(2));
    let samples = if halves == [Some(picture.width), Some(picture.height)] {
        halved(picture, [width, height])
    } else {
        bilinear(picture, [width, height])
    };
    Ok(Picture { width, height, samples, ..*picture })
}

/// The sizes that the picture gets.
fn sizes(picture: &Picture, [width, height]: [usize; 2], sizing: Sizing) -> [usize; 2] {
    let ratios = (width as f64 / picture.width as f64, height as f64 / picture.height as f64);
    let ratio = match sizing {
        Sizing::Exact => return [width, height],
        Sizing::Fit => ratios.0.min(ratios.1),
        Sizing::Fill => ratios.0.max(ratios.1),
    };
    [picture.width, picture.height].map(|n| (ratio * n as f64) as usize)
}

/// Exactly half the size: the mean of four samples.
fn halved(picture: &Picture, [width, height]: [usize; 2]) -> Vec<f32> {
    let mut samples = Vec::with_capacity(width * height * picture.channels);
    for y in 0..height {
        for x in 0..width {
            let [a, b] = [0, 1].map(|i| picture.pixel(2 * x + i, 2 * y));
            let [c, d] = [0, 1].map(|i| picture.pixel(2 * x + i, 2 * y + 1));
            samples.extend((0..picture.channels).map(|i| {
                let sum = a[i] + b[i] + c[i] + d[i];
                match picture.depth {
                    Depth::Float => sum * 0.25,
                    _ => ((sum + 2.0) / 4.0).floor(),
                }
            }));
        }
    }
    samples
}

fn bilinear(picture: &Picture, [width, height]: [usize; 2]) -> Vec<f32> {
    let bytes = picture.depth == Depth::Byte;
    let scaled = |mut taps: Vec<Tap>| {
        if bytes {
            let weights = taps.iter_mut().flat_map(|tap| &mut tap.weights);
            weights.for_each(|w| *w = (*w * ONE).round_ties_even());
        }
        taps
    };
    let columns = scaled(taps(picture.width, width, true));
    let rows = scaled(taps(picture.height, height, false));
    let row = |y: usize| -> Vec<f32> {
        let blend = |tap: &Tap| {
            let [a, b] = tap.at.map(|x| picture.pixel(x, y));
            let [s, t] = tap.weights;
            a.iter().zip(b).map(move |(a, b)| a * s + b * t).collect::<Vec<f32>>()
        };
        columns.iter().flat_map(blend).collect()
    };
    // Neighbouring rows of the result blend the same rows of the picture.
    let mut kept: [(usize, Vec<f32>); 2] = [(usize::MAX, vec![]), (usize::MAX, vec![])];
    let mut samples = Vec::with_capacity(width * height * picture.channels);
    for tap in &rows {
        for y in tap.at {
            if kept.iter().all(|(known, _)| *known != y) {
                // The one that this row does not need.
                let free = usize::from(tap.at.contains(&kept[0].0));
                kept[free] = (y, row(y));
            }
        }
        let find = |y: usize| &kept[usize::from(kept[0].0 != y)].1;
        let [s, t] = tap.weights;
        let blended = find(tap.at[0]).iter().zip(find(tap.at[1]));
        samples.extend(blended.map(|(a, b)| match bytes {
            true => byte([*a, *b], [s, t]),
            false => Picture::rounded(picture.depth, a * s + b * t),
        }));
    }
    samples
}

/// Blends two sums of 19 bits with weights of 11 bits, as processors with products of 16 bits do.
fn byte(sums: [f32; 2], weights: [f32; 2]) -> f32 {
    let part = |i: usize| (weights[i] as i32 * (sums[i] as i32 >> 4)) >> 16;
    ((part(0) + part(1) + 2) >> 2).clamp(0, 255) as f32
}
