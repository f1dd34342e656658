//! Many elements to the nearest integers, with the scale of each channel.

use onnxd_ir::{DataType, Tensor};
use onnxd_quant::{Levels, Scale, integers};
use rayon::prelude::*;

/// Elements that become integers at a time; a multiple of those that share a byte.
pub(crate) const PART: usize = 1 << 14;

/// Adding and taking it away leaves the nearest integer, for magnitudes up to 2^22.
pub(crate) const ROUND: f32 = 12_582_912.0;

/// All elements as integers, where each run of `inner` elements has the next of the scales.
pub(crate) fn round(
    weights: &Tensor,
    values: &[f32],
    levels: Levels,
    (scales, inner): (&[Scale], usize),
) -> Result<Tensor, String> {
    let steps: Vec<Step> = scales.iter().map(|s| Step::new(*s, levels)).collect();
    let channels = steps.len().max(1);
    let parts = values.par_chunks(PART).enumerate().map(|(part, values)| {
        let mut found = vec![0i32; values.len()];
        let mut at = part * PART;
        let (mut from, mut to) = (values, &mut found[..]);
        while !from.is_empty() {
            // Either one element of each of the scales that follow, or a run of one scale.
            let steps = &steps[at / inner.max(1) % channels..];
            let size = if inner == 1 { steps.len() } else { inner - at % inner };
            let (run, rest) = to.split_at_mut(size.min(from.len()));
            let pairs = run.iter_mut().zip(from);
            match inner {
                1 => pairs.zip(steps).for_each(|((q, x), step)| *q = step.quantize(*x)),
                _ => pairs.for_each(|(q, x)| *q = steps[0].quantize(*x)),
            }
            (from, at, to) = (&from[run.len()..], at + run.len(), rest);
        }
        packed(levels.dtype, &found)
    });
    let parts: Option<Vec<_>> = parts.collect();
    let bytes = parts.map(|parts| parts.concat());
    let tensor = bytes.map(|b| Tensor::new(levels.dtype, weights.dims().to_vec(), b.into()));
    tensor.and_then(Result::ok).ok_or_else(|| format!("{} is no type of weights", levels.dtype))
}

/// A scale for many elements: what [`Scale::quantize`] computes and clamping to the levels.
#[derive(Clone, Copy)]
struct Step {
    scale: f32,
    zero: i32,
    low: f32,
    high: f32,
}

impl Step {
    fn new(scale: Scale, levels: Levels) -> Step {
        // Limits are integers, so it makes no difference to clamp before rounding.
        let limit = |q: i64| (q - scale.zero_point) as f32;
        let (scale, zero) = (scale.scale as f32, scale.zero_point as i32);
        Step { scale, zero, low: limit(levels.min), high: limit(levels.max) }
    }

    fn quantize(self, x: f32) -> i32 {
        let steps = (x / self.scale).max(self.low).min(self.high);
        (((steps + ROUND) - ROUND) as i32).wrapping_add(self.zero)
    }
}

/// The bytes of integers that their type holds; several share one where it is wider than they are.
fn packed(dtype: DataType, values: &[i32]) -> Option<Vec<u8>> {
    if matches!(dtype, DataType::Int8 | DataType::Uint8) {
        return Some(values.iter().map(|q| *q as u8).collect());
    }
    let wide: Vec<i64> = values.iter().map(|q| i64::from(*q)).collect();
    integers(dtype, &[wide.len()], &wide).map(|t| t.bytes().to_vec())
}
