//! Constant tensors as integers with one scale for all elements, or one for each channel.

use crate::range::nearest::round;
use crate::range::vectors::{self, ROUND, reach};
use crate::range::{Levels, Scale, integers};
use onnxd_ir::runtime::beyond_16_bits;
use onnxd_ir::{DataType, Reals, Tensor};
use onnxd_proto::onnxd::QuantizedTensor;
use rayon::prelude::*;
use std::borrow::Cow;

/// Shares of a range that the search for the least error tries; all of it comes first.
pub(crate) const CLIPS: usize = 20;

/// Elements of a group that the search looks at: more do not change what it finds.
const SEARCHED_MAX: usize = 1 << 18;

/// Channels that are looked at together, so that what lies side by side in memory is read once.
const TOGETHER: usize = 16;

/// How weights are quantized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The integers to use.
    pub levels: Levels,
    /// The range is symmetric around zero.
    pub symmetric: bool,
    /// Also try narrower ranges, and take the one with the least squared error.
    pub search: bool,
}

impl Rule {
    /// For weights of an integer type: signed ones are symmetric. `None` for other types.
    #[must_use]
    pub fn new(dtype: DataType, symmetric: bool, reduce_range: bool) -> Option<Rule> {
        let levels = Levels::of(dtype)?;
        let symmetric = symmetric || levels.min < 0;
        let levels = if reduce_range { levels.reduced() } else { levels };
        let levels = match symmetric {
            // As many on both sides of the middle; of few levels, none is given up.
            true if levels.min == 0 && dtype.bits() >= 8 => Levels { min: 1, ..levels },
            true => levels.symmetric(),
            false => levels,
        };
        Some(Rule { levels, symmetric, search: true })
    }

    /// For weights in blocks, all of whose integers count: zero is at their middle only with `symmetric`, and then
    /// scales may be negative. `None` for other types.
    #[must_use]
    pub(crate) fn of_blocks(dtype: DataType, symmetric: bool, reduce_range: bool) -> Option<Rule> {
        let levels = Levels::of(dtype)?;
        let levels = if reduce_range { levels.reduced() } else { levels };
        Some(Rule { levels, symmetric, search: true })
    }
}

/// A constant as integers: `x = scale * (integer - zero point)`.
#[derive(Clone, Debug)]
pub struct Quantized {
    /// As the constant had it: sizes and order of the elements.
    pub integers: Tensor,
    /// One for all, or one for each index along `axis`.
    pub scales: Vec<Scale>,
    /// The axis of the channels.
    pub axis: Option<usize>,
    /// Whether some range is narrower than the values are.
    pub clipped: bool,
}

impl Quantized {
    /// The scales as an operator takes them: a scalar, or a vector. `None` if `dtype` is no float
    /// type.
    #[must_use]
    pub fn scale_tensor(&self, dtype: DataType) -> Option<Tensor> {
        let values = self.scales.iter().map(|s| s.scale).collect();
        Reals { dims: self.dims(), values }.to_tensor(dtype)
    }

    /// The zero points as an operator takes them.
    #[must_use]
    pub fn zero_point_tensor(&self) -> Option<Tensor> {
        integers(self.integers.dtype(), &self.dims(), &self.zero_points())
    }

    /// Whether zero is the integer 0 everywhere, so that no zero point need be written.
    #[must_use]
    pub fn is_centered(&self) -> bool {
        self.scales.iter().all(|s| s.zero_point == 0)
    }

    /// The row of the report.
    #[must_use]
    pub fn row(&self, name: &str) -> QuantizedTensor {
        let ranges = self.scales.iter().map(Scale::range);
        let (min, max) = ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1))).unzip();
        QuantizedTensor {
            name: name.to_owned(),
            element_type: self.integers.dtype().to_string(),
            scales: self.scales.iter().map(|s| s.scale).collect(),
            zero_points: if self.is_centered() { Vec::new() } else { self.zero_points() },
            min,
            max,
            method: if self.clipped { "MSE" } else { "min-max" }.to_owned(),
            ..QuantizedTensor::default()
        }
    }

    /// The same weights such that products with `uint8` are exact on every processor, see
    /// [`beyond_16_bits`].
    #[must_use]
    pub fn exact(self) -> Quantized {
        if beyond_16_bits(&self.integers) { self.above() } else { self }
    }

    /// Weights of `int8` as `uint8`, each 128 above; others as they are.
    #[must_use]
    pub fn above(self) -> Quantized {
        let Some(flipped) = flipped(&self.integers) else { return self };
        let above =
            |s: Scale| Scale { dtype: DataType::Uint8, zero_point: s.zero_point + 128, ..s };
        let scales = self.scales.into_iter().map(above).collect();
        Quantized { integers: flipped, scales, ..self }
    }

    /// Whether the magnitudes of a channel's integers, with zero taken for 0, add up to more than
    /// `most`. `outputs` is the axis of the channels, whether their scales differ or not.
    pub(crate) fn sums_pass(&self, outputs: usize, most: i64) -> bool {
        const LARGEST: usize = 255;
        let dims = self.integers.dims();
        let channels = dims.get(outputs).copied().unwrap_or(1).max(1);
        if (self.integers.len() / channels * LARGEST) as i64 <= most {
            return false;
        }
        let inner = dims.iter().skip(outputs + 1).product::<usize>().max(1);
        let scaled = self.axis.map_or(1, |a| dims[a + 1..].iter().product::<usize>().max(1));
        let zero = |i: usize| self.scales[i / scaled % self.scales.len()].zero_point;
        let mut sums = vec![0i64; channels];
        for (i, q) in self.integers.to_i64s().unwrap_or_default().into_iter().enumerate() {
            sums[i / inner % channels] += (q - zero(i)).abs();
        }
        sums.into_iter().any(|sum| sum > most)
    }

    /// The same weights with other scales, which `scale` makes of the channel and its own.
    ///
    /// # Errors
    /// As [`per_channel`].
    pub(crate) fn rescaled(
        self,
        weights: &Tensor,
        rule: Rule,
        scale: &dyn Fn(usize, &Scale) -> Scale,
    ) -> Result<Quantized, String> {
        let scales: Vec<Scale> = self.scales.iter().enumerate().map(|(i, s)| scale(i, s)).collect();
        if scales == self.scales {
            return Ok(self);
        }
        let values = finite(weights)?;
        let inner: usize =
            self.axis.map_or(values.len(), |a| weights.dims()[a + 1..].iter().product());
        let integers = round(weights, &values, rule.levels, (&scales, inner))?;
        Ok(Quantized { integers, scales, ..self })
    }

    fn dims(&self) -> Vec<usize> {
        self.axis.map(|_| self.scales.len()).into_iter().collect()
    }

    fn zero_points(&self) -> Vec<i64> {
        self.scales.iter().map(|s| s.zero_point).collect()
    }
}

/// `int8` as `uint8`, each 128 above; `None` for other types.
pub(crate) fn flipped(weights: &Tensor) -> Option<Tensor> {
    let signed = weights.as_slice::<i8>().filter(|_| weights.dtype() == DataType::Int8)?;
    let bytes: Vec<u8> = signed.iter().map(|q| *q as u8 ^ 0x80).collect();
    Some(Tensor::from_vec(weights.dims(), bytes))
}

/// All elements share one scale.
///
/// # Errors
/// Why the weights cannot be quantized, for the report.
pub fn per_tensor(weights: &Tensor, rule: Rule) -> Result<Quantized, String> {
    let values = finite(weights)?;
    let (scale, clipped) = fit(&values, rule, weights.dtype());
    let scales = vec![scale];
    let integers = round(weights, &values, rule.levels, (&scales, values.len()))?;
    Ok(Quantized { integers, scales, axis: None, clipped })
}

/// All elements of the same index along `axis` share one scale.
///
/// # Errors
/// Why the weights cannot be quantized, for the report.
pub fn per_channel(weights: &Tensor, axis: usize, rule: Rule) -> Result<Quantized, String> {
    let values = finite(weights)?;
    let dims = weights.dims();
    let Some(&channels) = dims.get(axis) else {
        return Err(format!("weights of rank {} have no axis {axis}", dims.len()));
    };
    let inner: usize = dims[axis + 1..].iter().product();
    let (scales, clipped): (Vec<Scale>, Vec<bool>) = match rule.search {
        true => {
            let batches = (0..channels.div_ceil(TOGETHER)).into_par_iter();
            let fitted = batches.flat_map_iter(|batch| {
                let which = batch * TOGETHER..channels.min((batch + 1) * TOGETHER);
                let gathered = gather(&values, (channels, inner), which);
                gathered.into_iter().map(|channel| fit(&channel, rule, weights.dtype()))
            });
            fitted.unzip()
        }
        false => {
            let ends = ends(&values, (channels, inner));
            ends.iter().map(|ends| fit(ends, rule, weights.dtype())).unzip()
        }
    };
    let integers = round(weights, &values, rule.levels, (&scales, inner))?;
    let clipped = clipped.contains(&true);
    Ok(Quantized { integers, scales, axis: Some(axis), clipped })
}

/// The elements in `f32`, without a copy where they are.
pub(crate) fn finite(weights: &Tensor) -> Result<Cow<'_, [f32]>, String> {
    let values = match weights.dtype() {
        DataType::Float => weights.as_slice::<f32>(),
        dtype if dtype.is_float() => {
            let mut values = Vec::with_capacity(weights.len());
            crate::observe::blocks(weights, |_, block| {
                values.extend(block.iter().map(|x| *x as f32));
            });
            Some(Cow::Owned(values))
        }
        _ => None,
    };
    let values = values.ok_or_else(|| format!("weights are of type {}", weights.dtype()))?;
    match is_finite(weights) {
        true => Ok(values),
        false => Err("weights are not all finite".to_owned()),
    }
}

/// Whether all elements are finite. It takes no copy of floats that lie at odd places of a file.
pub(crate) fn is_finite(weights: &Tensor) -> bool {
    if weights.dtype() == DataType::Float {
        return vectors::finite(&weights.bytes());
    }
    let mut finite = true;
    let read = crate::observe::blocks(weights, |_, x| finite &= x.iter().all(|x| x.is_finite()));
    finite && read.is_some()
}

/// The smallest and the largest element of each channel of `[outer, channels, inner]`, and zero.
fn ends(values: &[f32], (channels, inner): (usize, usize)) -> Vec<[f32; 2]> {
    let none = || (vec![0f32; channels], vec![0f32; channels]);
    let see = |(mut low, mut high): (Vec<f32>, Vec<f32>), outer: &[f32]| {
        if inner == 1 {
            vectors::widen(&mut low, &mut high, outer);
            return (low, high);
        }
        for ((low, high), run) in low.iter_mut().zip(&mut high).zip(outer.chunks(inner.max(1))) {
            let ends = reach(run);
            (*low, *high) = (low.min(ends.0), high.max(ends.1));
        }
        (low, high)
    };
    let merge = |(mut low, mut high): (Vec<f32>, Vec<f32>), other: (Vec<f32>, Vec<f32>)| {
        vectors::widen(&mut low, &mut high, &other.0);
        vectors::widen(&mut low, &mut high, &other.1);
        (low, high)
    };
    let outers = values.par_chunks(channels.saturating_mul(inner).max(1));
    let (low, high) = outers.with_min_len(64).fold(none, see).reduce(none, merge);
    low.into_iter().zip(high).map(|(low, high)| [low, high]).collect()
}

/// Some channels of `[outer, channels, inner]`, each in one piece.
fn gather(
    values: &[f32],
    (channels, inner): (usize, usize),
    which: std::ops::Range<usize>,
) -> Vec<Vec<f32>> {
    let per_channel = values.len() / channels.max(1);
    let mut found = vec![Vec::with_capacity(per_channel); which.len()];
    for outer in values.chunks(channels.saturating_mul(inner).max(1)) {
        let part = &outer[which.start * inner..which.end * inner];
        for (to, from) in found.iter_mut().zip(part.chunks(inner.max(1))) {
            to.extend_from_slice(from);
        }
    }
    found
}

/// The scale for elements that share one, and whether its range is narrower than theirs.
pub(crate) fn fit(values: &[f32], rule: Rule, dtype: DataType) -> (Scale, bool) {
    let (min, max) = reach(values);
    let scale = |clip: usize| {
        let share = 1.0 - clip as f64 * 0.5 / CLIPS as f64;
        let range = (f64::from(min) * share, f64::from(max) * share);
        representable(Scale::of_range(range, rule.levels, rule.symmetric), rule, dtype)
    };
    let all = scale(0);
    if !rule.search || min == max {
        return (all, false);
    }
    let step = values.len().div_ceil(SEARCHED_MAX).max(1);
    let sample: Cow<[f32]> = match step {
        1 => Cow::Borrowed(values),
        _ => values.iter().copied().step_by(step).collect(),
    };
    let error = |clip: usize| error(&sample, scale(clip), rule.levels);
    let mut best = (0, error(0));
    for clip in 1..CLIPS {
        let clip_error = error(clip);
        if clip_error < best.1 {
            best = (clip, clip_error);
        }
    }
    (scale(best.0), best.0 > 0)
}

/// The scale in the precision that the operators get it in, and zero in the middle of a symmetric
/// range also where there is nothing.
pub(crate) fn representable(found: Scale, rule: Rule, dtype: DataType) -> Scale {
    let Levels { min, max, .. } = rule.levels;
    let zero_point = match rule.symmetric {
        true => ((min + max) as f64 / 2.0).round_ties_even() as i64,
        false => found.zero_point,
    };
    let rounded = Reals::scalar(found.scale).to_tensor(dtype).and_then(|t| t.to_reals());
    let rounded = rounded.map(|r| r.values[0]).filter(|s| s.is_finite() && *s > 0.0);
    Scale { scale: rounded.unwrap_or(found.scale), zero_point, ..found }
}

/// The sum of squared errors.
fn error(values: &[f32], s: Scale, levels: Levels) -> f64 {
    let (scale, inverse) = (s.scale as f32, 1.0 / s.scale as f32);
    let (lo, hi) = ((levels.min - s.zero_point) as f32, (levels.max - s.zero_point) as f32);
    let part = |part: &[f32]| -> f32 {
        let one = |x: &f32| {
            let q = ((x * inverse).clamp(lo, hi) + ROUND) - ROUND;
            let e = x - q * scale;
            e * e
        };
        part.iter().map(one).sum()
    };
    values.chunks(256).map(|p| f64::from(part(p))).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rules() -> impl Strategy<Value = Rule> {
        use DataType::*;
        let types =
            prop::sample::select(vec![Int8, Uint8, Int4, Uint4, Int16, Uint16, Int2, Uint2]);
        let made = (types, any::<bool>(), any::<bool>(), any::<bool>());
        made.prop_map(|(dtype, symmetric, reduced, search)| {
            // One bit less than two leaves a single step.
            let reduced = reduced && dtype.bits() > 2;
            Rule { search, ..Rule::new(dtype, symmetric, reduced).unwrap() }
        })
    }

    fn errors(x: &Tensor, q: &Quantized) -> Vec<(f64, Scale)> {
        let (values, integers) = (x.to_reals().unwrap().values, q.integers.to_i64s().unwrap());
        let inner: usize = q.axis.map_or(1, |a| x.dims()[a + 1..].iter().product());
        let scale = |i: usize| q.scales[i / inner % q.scales.len()];
        let both = values.iter().zip(&integers).enumerate();
        both.map(|(i, (x, q))| (x - scale(i).dequantize(*q), scale(i))).collect()
    }

    #[test]
    fn channels_by_hand() {
        let rule = Rule { search: false, ..Rule::new(DataType::Int8, false, false).unwrap() };
        let x = Tensor::from_vec([2, 3], vec![1.27f32, 0.0, -25.4, -0.3, 0.0, 0.2]);
        let q = per_channel(&x, 1, rule).unwrap();
        assert_eq!(q.integers.to_i64s().unwrap(), [127, 0, -127, -30, 0, 1]);
        let scales = q.scale_tensor(DataType::Float).unwrap().to_reals().unwrap();
        assert_eq!(scales.dims, [3]);
        assert!((scales.values[0] - 0.01).abs() < 1e-9 && scales.values[1] == 1.0);
        assert!(q.is_centered());
        let q = per_tensor(
            &x,
            Rule { search: false, ..Rule::new(DataType::Uint8, true, true).unwrap() },
        );
        let q = q.unwrap();
        assert_eq!(q.scale_tensor(DataType::Float).unwrap().dims(), [0usize; 0]);
        assert_eq!(q.zero_point_tensor().unwrap().to_i64s().unwrap(), [64]);
        assert!(q.integers.to_i64s().unwrap().iter().all(|q| (0..=127).contains(q)));
        let bad = Tensor::vector(vec![f32::NAN]);
        assert!(per_tensor(&bad, rule).unwrap_err().contains("finite"));
        assert!(per_channel(&x, 2, rule).is_err());
    }

    #[test]
    fn nothing_is_quantized_too() {
        let rule = Rule::new(DataType::Uint8, true, false).unwrap();
        let q = per_channel(&Tensor::from_vec([2, 0], Vec::<f32>::new()), 0, rule).unwrap();
        assert_eq!((q.scales.len(), q.integers.len()), (2, 0));
        let q = per_channel(&Tensor::from_vec([0, 2], Vec::<f32>::new()), 0, rule).unwrap();
        assert_eq!((q.scales.len(), q.integers.len()), (0, 0));
        let q = per_channel(&Tensor::from_vec([1, 2], vec![0f32; 2]), 1, rule).unwrap();
        assert_eq!(q.zero_point_tensor().unwrap().to_i64s().unwrap(), [128, 128]);
    }

    proptest! {
        /// Without clipping, half a step at most (and the half step by which a rounded zero point
        /// moves the ends); with it, no more error in all.
        #[test]
        fn errors_are_bounded(
            dims in prop::collection::vec(1usize..6, 1..4), axis in 0usize..4,
            seed in prop::collection::vec(-1e3..1e3f32, 125), rule in rules(), half: bool,
        ) {
            let count = dims.iter().product();
            let axis = (axis < dims.len()).then_some(axis);
            let x = Reals { dims, values: seed[..count].iter().map(|x| f64::from(*x)).collect() };
            let dtype = if half { DataType::Float16 } else { DataType::Float };
            let x = x.to_tensor(dtype).unwrap();
            let of = |rule| match axis {
                Some(axis) => per_channel(&x, axis, rule),
                None => per_tensor(&x, rule),
            };
            let plain = of(Rule { search: false, ..rule }).unwrap();
            let ends = if rule.symmetric && rule.levels.min < 0 { 0.5 } else { 1.0 };
            for (e, s) in errors(&x, &plain) {
                // A scale in half precision may be smaller than what it was rounded from.
                let steps = (rule.levels.max - rule.levels.min) as f64;
                let rounded = if half { 1e-3 * steps } else { 0.0 };
                prop_assert!(e.abs() <= s.scale * (ends + rounded + 1e-2), "{} {}", e, s.scale);
            }
            let sum = |q: &Quantized| errors(&x, q).iter().map(|(e, _)| e * e).sum::<f64>();
            let searched = of(rule).unwrap();
            prop_assert!(sum(&searched) <= sum(&plain) * (1.0 + 1e-3) + 1e-6);
        }
    }
}
