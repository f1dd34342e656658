//! The range of a block of weights.

use crate::range::Scale;
use crate::range::vectors::{ROUND, reach};
use crate::range::weights::{CLIPS, Rule, representable};
use onnxd_ir::DataType;

/// Elements that are looked at side by side.
const LANES: usize = 8;

/// Elements that are added in single precision.
const PART: usize = 512;

/// The scale with the least squared error, each element counting as much as it matters: among
/// narrower and narrower ranges, and the best scales for the integers that each leads to.
pub(crate) fn range(values: &[f32], matters: &[f32], rule: Rule, dtype: DataType) -> Scale {
    let (low, high) = reach(values);
    let (low, high) = (f64::from(low), f64::from(high));
    let kept = |scale: Scale| match dtype {
        // So they are already.
        DataType::Float => Scale { scale: f64::from(scale.scale as f32), ..scale },
        _ => representable(scale, rule, dtype),
    };
    let clipped = |clip: usize| {
        let share = 1.0 - clip as f64 * 0.5 / CLIPS as f64;
        let range = (low * share, high * share);
        representable(Scale::of_range(range, rule.levels, rule.symmetric), rule, dtype)
    };
    let mut best = (f64::INFINITY, clipped(0));
    if low == high || !rule.search {
        return best.1;
    }
    for clip in 0..CLIPS {
        let made = clipped(clip);
        let clipped_sums = Sums::add_up(values, matters, (made, rule));
        if clipped_sums.error < best.0 {
            best = (clipped_sums.error, made);
        }
        if !(clipped_sums.best > f64::from(f32::MIN_POSITIVE)
            && clipped_sums.best < made.scale * 2.0)
        {
            continue;
        }
        let made = kept(Scale { scale: clipped_sums.best, ..made });
        let clipped_sums = Sums::add_up(values, matters, (made, rule));
        if clipped_sums.error < best.0 {
            best = (clipped_sums.error, made);
        }
    }
    best.1
}

/// What a scale makes of a block.
struct Sums {
    /// The squared error.
    error: f64,
    /// The best scale for these integers; not a number for zeros alone.
    best: f64,
}

impl Sums {
    fn add_up(values: &[f32], matters: &[f32], (s, rule): (Scale, Rule)) -> Sums {
        let limit = |q: i64| (q - s.zero_point) as f32;
        let (lo, hi) = (limit(rule.levels.min), limit(rule.levels.max));
        let (scale, inverse) = (s.scale as f32, 1.0 / s.scale as f32);
        let one = |x: f32, m: f32| {
            let q = ((x * inverse).clamp(lo, hi) + ROUND) - ROUND;
            let e = x - q * scale;
            [m * e * e, m * x * q, m * q * q]
        };
        let mut sums = [0f64; 3];
        for (values, matters) in values.chunks(PART).zip(matters.chunks(PART)) {
            let mut partial = [[0f32; LANES]; 3];
            let (x, m) = (values.as_chunks::<LANES>(), matters.as_chunks::<LANES>());
            for (x, m) in x.0.iter().zip(m.0) {
                for i in 0..LANES {
                    let element_sums = one(x[i], m[i]);
                    (0..3).for_each(|sum| partial[sum][i] += element_sums[sum]);
                }
            }
            for (x, m) in x.1.iter().zip(m.1) {
                let element_sums = one(*x, *m);
                (0..3).for_each(|sum| partial[sum][0] += element_sums[sum]);
            }
            for (sum, partial) in sums.iter_mut().zip(partial) {
                *sum += f64::from(partial.iter().sum::<f32>());
            }
        }
        Sums { error: sums[0], best: sums[1] / sums[2] }
    }
}
