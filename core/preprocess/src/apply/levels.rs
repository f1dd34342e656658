//! Levels: what follows from the samples of the picture itself.

use crate::{Depth, Norm, Picture, PictureFault, ThresholdOperation, fault};

/// What the largest sample of a depth stands for.
fn largest(depth: Depth) -> f64 {
    match depth {
        Depth::Byte => 255.0,
        Depth::Word => 65535.0,
        Depth::Float => 1.0,
    }
}

fn range<'a>(samples: impl Iterator<Item = &'a f32>) -> (f64, f64) {
    let (least, most) = samples
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(least, most), v| (least.min(*v), most.max(*v)));
    (f64::from(least), f64::from(most))
}

/// The range `[min, max]` becomes that of the depth; what lies beyond it is clipped. A bound that is
/// not above 0 is the picture's own.
pub(crate) fn clip_range(mut picture: Picture, min: f64, max: f64) -> Picture {
    let (least, most) = range(picture.samples.iter());
    let (min, max) = (if min > 0.0 { min } else { least }, if max > 0.0 { max } else { most });
    let scale = if max > min { largest(picture.depth) / (max - min) } else { 0.0 };
    scaled(picture.depth, picture.samples.iter_mut(), scale, -min * scale);
    if picture.depth == Depth::Float {
        picture.samples.iter_mut().for_each(|v| *v = v.clamp(0.0, 1.0));
    }
    picture
}

/// As OpenCV converts samples: in single precision.
fn scaled<'a>(depth: Depth, samples: impl Iterator<Item = &'a mut f32>, scale: f64, shift: f64) {
    let (scale, shift) = (scale as f32, shift as f32);
    samples.for_each(|v| *v = Picture::rounded(depth, v.mul_add(scale, shift)));
}

/// Numbers of OpenCV's `normalize`; all samples together, or each channel by itself.
pub(crate) fn normalize(
    mut picture: Picture,
    norm: Norm,
    value: f64,
    [min, max]: [f64; 2],
    per_channel: bool,
) -> Picture {
    let (depth, channels) = (picture.depth, picture.channels);
    let full = largest(depth);
    let groups = if per_channel { channels } else { 1 };
    for group in 0..groups {
        let own = || picture.samples.iter().skip(group).step_by(groups);
        let parts = || own().map(|v| (f64::from(*v) / full).abs());
        let by = |norm: f64| if norm > f64::EPSILON { value / norm / full } else { 0.0 };
        let (scale, shift) = match norm {
            Norm::MinMax => {
                let (least, most) = range(own());
                let (low, high) = (min.min(max) * full, min.max(max) * full);
                let wide = most - least > f64::EPSILON;
                let scale = if wide { (high - low) / (most - least) } else { 0.0 };
                (scale, low - least * scale)
            }
            Norm::L1 => (by(parts().sum()), 0.0),
            Norm::L2 => (by(parts().map(|v| v * v).sum::<f64>().sqrt()), 0.0),
            Norm::Linf => (by(parts().fold(0.0, f64::max)), 0.0),
        };
        let own = picture.samples.iter_mut().skip(group).step_by(groups);
        match norm {
            Norm::MinMax => scaled(depth, own, scale, shift),
            // In double precision.
            _ => own.for_each(|v| *v = (f64::from(*v) * scale) as f32),
        }
    }
    let depth = if norm == Norm::MinMax { depth } else { Depth::Float };
    Picture { depth, ..picture }
}

/// Numbers of OpenCV's `threshold`, channel by channel.
pub(crate) fn threshold(
    mut picture: Picture,
    threshold: f64,
    otsu: bool,
    operation: ThresholdOperation,
    max: f64,
) -> Result<Picture, PictureFault> {
    let (depth, channels) = (picture.depth, picture.channels);
    if otsu && depth != Depth::Byte {
        return Err(fault("Otsu's method needs samples of 8 bits"));
    }
    for channel in 0..channels {
        let own = picture.samples.iter().skip(channel).step_by(channels);
        let limit = match (otsu, depth) {
            (true, _) => otsu_threshold(&histogram(own)),
            (false, Depth::Float) => threshold as f32,
            (false, _) => threshold.floor() as f32,
        };
        let (max, cut) = (Picture::rounded(depth, max as f32), Picture::rounded(depth, limit));
        for sample in picture.samples.iter_mut().skip(channel).step_by(channels) {
            let above = *sample > limit;
            *sample = match operation {
                ThresholdOperation::Binary => {
                    if above {
                        max
                    } else {
                        0.0
                    }
                }
                ThresholdOperation::BinaryInverted => {
                    if above {
                        0.0
                    } else {
                        max
                    }
                }
                ThresholdOperation::Truncate => {
                    if above {
                        cut
                    } else {
                        *sample
                    }
                }
                ThresholdOperation::ToZero => {
                    if above {
                        *sample
                    } else {
                        0.0
                    }
                }
                ThresholdOperation::ToZeroInverted => {
                    if above {
                        0.0
                    } else {
                        *sample
                    }
                }
            };
        }
    }
    Ok(picture)
}

/// How often each byte occurs.
pub(crate) fn histogram<'a>(samples: impl Iterator<Item = &'a f32>) -> [u32; 256] {
    let mut counts = [0; 256];
    samples.for_each(|v| counts[*v as usize & 255] += 1);
    counts
}

/// The level that parts the samples into two classes with the largest variance between them.
fn otsu_threshold(counts: &[u32; 256]) -> f32 {
    const TINY: f64 = f32::EPSILON as f64;
    let all: f64 = counts.iter().map(|c| f64::from(*c)).sum();
    let share = |level: usize| f64::from(counts[level]) / all;
    let mean: f64 = (0..256).map(|level| level as f64 * share(level)).sum();
    // Of the class below: its share, and its share of the mean.
    let (mut below, mut part) = (0.0, 0.0);
    let mut best = (0.0, 0);
    for level in 0..256 {
        below += share(level);
        part += level as f64 * share(level);
        let above = 1.0 - below;
        if below.min(above) < TINY || below.max(above) > 1.0 - TINY {
            continue;
        }
        let apart = part / below - (mean - part) / above;
        let variance = below * above * apart * apart;
        if variance > best.0 {
            best = (variance, level);
        }
    }
    best.1 as f32
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grey(samples: &[u8]) -> Picture {
        Picture::grey(samples.len(), 1, samples).unwrap()
    }

    #[test]
    fn ranges_are_clipped_to_that_of_the_depth() {
        assert_eq!(clip_range(grey(&[10, 60, 110]), 0.0, 0.0).samples, [0.0, 128.0, 255.0]);
        assert_eq!(clip_range(grey(&[10, 60, 110]), 20.0, 60.0).samples, [0.0, 255.0, 255.0]);
        assert_eq!(clip_range(grey(&[7, 7]), 0.0, 0.0).samples, [0.0, 0.0], "no range");
        let real = Picture { depth: Depth::Float, ..grey(&[1, 2, 3]) };
        assert_eq!(clip_range(real, 0.0, 2.0).samples, [0.0, 1.0, 1.0]);
    }

    #[test]
    fn norms_are_those_of_all_samples_or_of_each_channel() {
        let two = || Picture { channels: 2, width: 2, ..grey(&[0, 100, 50, 200]) };
        let minmax = |per| normalize(two(), Norm::MinMax, 1.0, [0.0, 1.0], per).samples;
        assert_eq!(minmax(false), [0.0, 128.0, 64.0, 255.0]);
        assert_eq!(minmax(true), [0.0, 0.0, 255.0, 255.0]);
        // In single precision 7 * 255 / 14 is less than 127.5.
        let single = normalize(grey(&[0, 7, 14]), Norm::MinMax, 1.0, [0.0, 1.0], false).samples;
        assert_eq!(single, [0.0, 127.0, 255.0]);
        let l1 = normalize(two(), Norm::L1, 2.0, [0.0, 1.0], false);
        assert_eq!((l1.depth, l1.samples[3]), (Depth::Float, 200.0 / 350.0 * 2.0));
        let l2 = normalize(grey(&[30, 40]), Norm::L2, 1.0, [0.0, 1.0], false).samples;
        assert_eq!(l2, [0.6, 0.8]);
        let inf = normalize(grey(&[51, 102]), Norm::Linf, 1.0, [0.0, 1.0], false).samples;
        assert_eq!(inf, [0.5, 1.0]);
        assert_eq!(normalize(grey(&[0]), Norm::L2, 1.0, [0.0, 1.0], false).samples, [0.0]);
    }

    #[test]
    fn thresholds() {
        use ThresholdOperation::{Binary, BinaryInverted, ToZero, ToZeroInverted, Truncate};
        let of = |operation| threshold(grey(&[9, 10, 11]), 10.9, false, operation, 255.0);
        assert_eq!(of(Binary).unwrap().samples, [0.0, 0.0, 255.0]);
        assert_eq!(of(BinaryInverted).unwrap().samples, [255.0, 255.0, 0.0]);
        assert_eq!(of(Truncate).unwrap().samples, [9.0, 10.0, 10.0]);
        assert_eq!(of(ToZero).unwrap().samples, [0.0, 0.0, 11.0]);
        assert_eq!(of(ToZeroInverted).unwrap().samples, [9.0, 10.0, 0.0]);
        let otsu = threshold(grey(&[10, 12, 200, 210]), 0.0, true, Binary, 1.0).unwrap();
        assert_eq!(otsu.samples, [0.0, 0.0, 1.0, 1.0]);
        let real = Picture { depth: Depth::Float, ..grey(&[1]) };
        assert!(threshold(real, 0.0, true, Binary, 1.0).is_err());
    }
}
