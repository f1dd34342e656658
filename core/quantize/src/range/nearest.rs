//! Many elements to the nearest integers, with the scale of each channel.

use crate::range::vectors::{Steps, quantize_row, quantize_run};
use crate::range::{Levels, Scale, integers};
use onnxd_ir::{DataType, Tensor};
use rayon::prelude::*;

/// Elements that are quantized at a time; a multiple of those that share a byte.
pub(crate) const PART: usize = 1 << 14;

/// All elements as integers, where each run of `inner` elements has the next of the scales.
pub(crate) fn round(
    weights: &Tensor,
    values: &[f32],
    levels: Levels,
    (scales, inner): (&[Scale], usize),
) -> Result<Tensor, String> {
    let steps = ScaleTable::new(scales, levels);
    let channels = scales.len().max(1);
    let parts = values.par_chunks(PART).enumerate().map(|(part, values)| {
        let mut rounded = vec![0i32; values.len()];
        let mut at = part * PART;
        let (mut from, mut to) = (values, &mut rounded[..]);
        while !from.is_empty() {
            // Either one element of each of the scales that follow, or a run of one scale.
            let first = at / inner.max(1) % channels;
            let size = if inner == 1 { channels - first } else { inner - at % inner };
            let (run, rest) = to.split_at_mut(size.min(from.len()));
            match inner {
                1 => quantize_row(run, from, &steps.from(first)),
                _ => quantize_run(run, from, &steps.from(first)),
            }
            (from, at, to) = (&from[run.len()..], at + run.len(), rest);
        }
        packed(levels.dtype, &rounded)
    });
    let parts: Option<Vec<_>> = parts.collect();
    let bytes = parts.map(|parts| parts.concat());
    let tensor = bytes.map(|b| Tensor::new(levels.dtype, weights.dims().to_vec(), b.into()));
    tensor.and_then(Result::ok).ok_or_else(|| format!("{} is no type of weights", levels.dtype))
}

/// Scales for many elements: what [`Scale::quantize`] computes and clamping to the levels.
struct ScaleTable {
    scale: Vec<f32>,
    zero: Vec<i32>,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl ScaleTable {
    fn new(scales: &[Scale], levels: Levels) -> ScaleTable {
        // Limits are integers, so it makes no difference to clamp before rounding.
        let limits = |q: i64| scales.iter().map(|s| (q - s.zero_point) as f32).collect();
        ScaleTable {
            scale: scales.iter().map(|s| s.scale as f32).collect(),
            zero: scales.iter().map(|s| s.zero_point as i32).collect(),
            low: limits(levels.min),
            high: limits(levels.max),
        }
    }

    fn from(&self, first: usize) -> Steps<'_> {
        Steps {
            scale: &self.scale[first..],
            zero: &self.zero[first..],
            low: &self.low[first..],
            high: &self.high[first..],
        }
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
