//! The range of a block of weights.
//!
//! For integers `q` that a scale leads to, the best scale is `sum(w q) / sum(q q)`, and the squared error of any
//! scale `s` is `sum(w w) - 2 s sum(w q) + s s sum(q q)`. So one pass over a block judges a range and the best scale
//! for its integers alike.

use crate::range::Scale;
use crate::range::vectors::{ROUND, reach};
use crate::range::weights::{Rule, representable};
use onnxd_eval::vectorized;
use onnxd_ir::DataType;

/// Sums of squares of weights and of their errors.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Power {
    pub(crate) signal: f64,
    pub(crate) noise: f64,
}

impl Power {
    /// Both together.
    pub(crate) fn and(self, other: Power) -> Power {
        Power { signal: self.signal + other.signal, noise: self.noise + other.noise }
    }

    /// The ratio in dB; `None` without a signal, without noise, or where one is beyond all numbers.
    pub(crate) fn db(self) -> Option<f64> {
        let Power { signal, noise } = self;
        let db = 10.0 * (signal / noise).log10();
        (signal > 0.0 && noise > 0.0 && db.is_finite()).then_some(db)
    }
}

/// Elements that are looked at side by side.
const LANES: usize = 8;

/// Elements that are added in single precision.
const PART: usize = 512;

/// Ranges that are tried from either start at most, each narrower than the one before.
const SHARES: usize = 12;

/// By how much of the whole range the next one is narrower.
const STEP: f64 = 0.08;

/// Further turns of rounding by the best scale, and finding the best one for these integers.
const TURNS: usize = 1;

/// Between these, squares of the largest element and their sums neither overflow nor vanish in single precision.
const SQUARED: [f32; 2] = [1e-12, 1e12];

/// The scale with the least squared error that is found, each element counting as much as it matters: that of the
/// range from the lowest to the highest element, of the range that its largest element alone decides, or of a narrower
/// one, or the best scale for the integers of one of these.
pub(crate) fn range(
    values: &[f32],
    matters: &[f32],
    rule: Rule,
    dtype: DataType,
) -> (Scale, Power) {
    let ends = reach(values);
    let largest = ends.1.max(-ends.0);
    let [least, most] = SQUARED;
    if largest == 0.0 || (least..=most).contains(&largest) {
        return range_within((values, ends), matters, rule, dtype);
    }
    // A power of two changes no digit.
    let unit = 2f64.powi(largest.log2().floor() as i32);
    let scaled = |x: f32| (f64::from(x) / unit) as f32;
    let values: Vec<f32> = values.iter().map(|x| scaled(*x)).collect();
    let ends = (scaled(ends.0), scaled(ends.1));
    let (found, Power { signal, noise }) = range_within((&values, ends), matters, rule, dtype);
    let (signal, noise) = (signal * unit * unit, noise * unit * unit);
    match search_scale(found.scale * unit, dtype) {
        // No scale is so small, and nothing is left of the block.
        0.0 => {
            let whole = Scale::of_range((0.0, 0.0), rule.levels, rule.symmetric);
            (representable(whole, rule, dtype), Power { signal, noise: signal })
        }
        scale => (Scale { scale, ..found }, Power { signal, noise }),
    }
}

/// The same for elements between such ends that single precision holds their squares.
fn range_within(
    (values, (low, high)): (&[f32], (f32, f32)),
    matters: &[f32],
    rule: Rule,
    dtype: DataType,
) -> (Scale, Power) {
    let (low, high) = (f64::from(low), f64::from(high));
    let whole =
        representable(Scale::of_range((low, high), rule.levels, rule.symmetric), rule, dtype);
    if low == high {
        return (whole, Power::default());
    }
    let mut search = Search::new((values, matters), rule, dtype, whole);
    if !rule.search {
        return search.found();
    }
    if !rule.symmetric {
        let error = search.error;
        search.narrow(1, error, |share| {
            representable(
                Scale::of_range((low * share, high * share), rule.levels, false),
                rule,
                dtype,
            )
        });
    }
    let largest = if -low > high { low } else { high };
    let middle = ((rule.levels.min + rule.levels.max) as f64 / 2.0).round_ties_even() as i64;
    // The side of the middle that has one integer more takes the largest element. Where zero may be anywhere, it is
    // on the other side of that middle, so that scales stay positive.
    let mirrored = rule.levels.min + rule.levels.max - middle;
    let levels = (rule.levels.min - middle) as f64;
    let (step, zero_point) = match rule.symmetric || largest < 0.0 {
        true => (largest / levels, middle),
        false => (-largest / levels, mirrored),
    };
    search.narrow(0, f64::INFINITY, |share| Scale {
        scale: search_scale(step * share, dtype),
        zero_point,
        ..whole
    });
    for _ in 0..TURNS {
        search.look(search.best);
    }
    search.found()
}

/// A scale as the operators get it; 0 for one that they cannot have.
fn search_scale(scale: f64, dtype: DataType) -> f64 {
    let held = match dtype {
        DataType::Float => f64::from(scale as f32),
        DataType::Float16 => onnxd_ir::nearest_f16(scale).to_f64(),
        DataType::Bfloat16 => onnxd_ir::nearest_bf16(scale).to_f64(),
        _ => scale,
    };
    let usable = held.is_finite() && (held as f32).abs() >= f32::MIN_POSITIVE;
    if usable { held } else { 0.0 }
}

/// The best scale of a block so far.
struct Search<'v> {
    values: (&'v [f32], &'v [f32]),
    rule: Rule,
    dtype: DataType,
    /// The sum of squares of the elements.
    squares: f64,
    best: Scale,
    error: f64,
}

impl<'v> Search<'v> {
    fn new(
        values: (&'v [f32], &'v [f32]),
        rule: Rule,
        dtype: DataType,
        whole: Scale,
    ) -> Search<'v> {
        let squares = added((values.0, values.1), |x, m| [m * x * x, 0.0])[0];
        let mut search = Search { values, rule, dtype, squares, best: whole, error: f64::INFINITY };
        search.look(whole);
        search
    }

    fn found(self) -> (Scale, Power) {
        (self.best, Power { signal: self.squares, noise: self.error.max(0.0) })
    }

    /// Tries narrower ranges from that one on as long as the error is less than the last one's.
    fn narrow(&mut self, first: usize, mut last: f64, of: impl Fn(f64) -> Scale) {
        for step in first..SHARES {
            let error = self.look(of(1.0 - STEP * step as f64));
            if error >= last {
                return;
            }
            last = error;
        }
    }

    /// Takes a scale, or the best one for its integers, if its error is less; gives the lesser error.
    fn look(&mut self, made: Scale) -> f64 {
        if made.scale == 0.0 {
            return f64::INFINITY;
        }
        let limit = |q: i64| (q - made.zero_point) as f32;
        let (lo, hi) = (limit(self.rule.levels.min), limit(self.rule.levels.max));
        let [products, squares] = products(self.values, (1.0 / made.scale as f32, lo, hi));
        let mut least = f64::INFINITY;
        let best = search_scale(products / squares, self.dtype);
        for scale in [made.scale, best].into_iter().filter(|scale| *scale != 0.0) {
            let error = self.squares - 2.0 * scale * products + scale * scale * squares;
            least = least.min(error);
            if error < self.error {
                (self.error, self.best) = (error, Scale { scale, ..made });
            }
        }
        least
    }
}

vectorized! {
    /// The sums of elements times their integers, and of squares of integers, both with zero at 0.
    fn products(values: (&[f32], &[f32]), by: (f32, f32, f32)) -> [f64; 2] {
        let (inverse, lo, hi) = by;
        added(values, |x, m| {
            let q = x * inverse;
            let q = if q > lo { q } else { lo };
            let q = if q < hi { q } else { hi };
            let q = (q + ROUND) - ROUND;
            [m * x * q, m * q * q]
        })
    }
}

/// Two sums over elements and how much they matter.
#[inline(always)]
fn added((values, matters): (&[f32], &[f32]), one: impl Fn(f32, f32) -> [f32; 2]) -> [f64; 2] {
    let mut sums = [0f64; 2];
    for (values, matters) in values.chunks(PART).zip(matters.chunks(PART)) {
        let (mut first, mut second) = ([0f32; LANES], [0f32; LANES]);
        let (x, m) = (values.as_chunks::<LANES>(), matters.as_chunks::<LANES>());
        for (x, m) in x.0.iter().zip(m.0) {
            for i in 0..LANES {
                let [a, b] = one(x[i], m[i]);
                first[i] += a;
                second[i] += b;
            }
        }
        for (x, m) in x.1.iter().zip(m.1) {
            let [a, b] = one(*x, *m);
            first[0] += a;
            second[0] += b;
        }
        for (sum, lanes) in sums.iter_mut().zip([first, second]) {
            let [a, b, c, d, e, f, g, h] = lanes.map(f64::from);
            *sum += ((a + e) + (c + g)) + ((b + f) + (d + h));
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The squared error of numbers by a scale.
    fn error(values: &[f32], matters: &[f32], s: Scale, rule: Rule) -> f64 {
        let one = |(x, m): (&f32, &f32)| {
            let q = (f64::from(*x) / s.scale).round_ties_even() as i64 + s.zero_point;
            let q = q.clamp(rule.levels.min, rule.levels.max);
            f64::from(*m) * (f64::from(*x) - s.dequantize(q)).powi(2)
        };
        values.iter().zip(matters).map(one).sum()
    }

    /// The usual ways to round: from the lowest to the highest, and by the largest magnitude.
    fn plain(values: &[f32], rule: Rule) -> Vec<Scale> {
        let (low, high) = reach(values);
        let whole = Scale::of_range((low.into(), high.into()), rule.levels, false);
        let largest = f64::from(if -low > high { low } else { high });
        let middle = (rule.levels.max + rule.levels.min + 1) / 2;
        let half = (rule.levels.max - middle + 1) as f64;
        let signed = Scale { scale: largest / -half, zero_point: middle, ..whole };
        if rule.symmetric { vec![signed] } else { vec![whole, signed] }
    }

    proptest! {
        /// What is searched never loses to plain rounding, whatever the elements matter.
        #[test]
        fn no_block_is_worse_than_rounded_plainly(
            values in prop::collection::vec(prop_oneof![-1f32..1.0, -0.1f32..0.1, Just(0.0)], 1..70),
            matters in prop::collection::vec(0.01f32..2.0, 70), alike: bool, by in -30i32..31,
            symmetric: bool,
            dtype in prop::sample::select(vec![
                DataType::Int4, DataType::Uint4, DataType::Int8, DataType::Uint8,
            ]),
        ) {
            let values: Vec<f32> = values.into_iter().map(|x| x * 10f32.powi(by)).collect();
            let matters = if alike { vec![1.0; 70] } else { matters };
            let matters = &matters[..values.len()];
            let rule = Rule::of_blocks(dtype, symmetric, false).unwrap();
            let (found, power) = range(&values, matters, rule, DataType::Float);
            let own = error(&values, matters, found, rule);
            let square = |(x, m): (&f32, &f32)| f64::from(*m) * f64::from(*x).powi(2);
            let squares: f64 = values.iter().zip(matters).map(square).sum();
            // Sums in single precision tell errors of this share apart.
            let unit = 1e-6 * squares;
            for plain in plain(&values, rule).into_iter().filter(|plain| plain.scale != 0.0) {
                let other = error(&values, matters, plain, rule);
                prop_assert!(own <= other * (1.0 + 1e-3) + unit, "{own} {other} {found:?} {plain:?}");
            }
            if values.iter().any(|x| *x != 0.0) {
                prop_assert!((power.signal - squares).abs() <= 1e-4 * squares);
                prop_assert!(own <= power.noise * (1.0 + 1e-3) + unit, "{own} {power:?}");
            }
            prop_assert!(found.scale > 0.0 || symmetric);
        }
    }

    /// The largest and the smallest numbers of single precision have ranges, and ratios that are numbers or none.
    #[test]
    fn blocks_of_extreme_numbers() {
        let rule = Rule::of_blocks(DataType::Uint4, false, false).unwrap();
        for (largest, has_scale) in [(f32::MAX, true), (2e19, true), (1e-36, true), (1e-42, false)]
        {
            let values: Vec<f32> = (1..=32).map(|i| largest * (i as f32 / 32.0).powi(3)).collect();
            let (scale, power) = range(&values, &[1.0; 32], rule, DataType::Float);
            assert!(scale.scale as f32 >= f32::MIN_POSITIVE && (scale.scale as f32).is_finite());
            assert_eq!(scale.scale != 1.0, has_scale, "{largest}");
            let db = power.db();
            assert_eq!(db.is_some_and(|db| db > 15.0), has_scale, "{largest}: {db:?}");
        }
        let of = |signal, noise| Power { signal, noise }.db();
        assert_eq!(of(f64::INFINITY, f64::INFINITY), None);
        assert_eq!((of(f64::INFINITY, 1.0), of(1.0, f64::NAN), of(1.0, 0.0)), (None, None, None));
        assert_eq!(of(100.0, 1.0), Some(20.0));
    }

    #[test]
    fn blocks_of_normal_numbers_gain() {
        let mut state = 1u64;
        let mut real = || {
            let mut sum = 0.0;
            for _ in 0..12 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                sum += (state >> 40) as f64 / (1u64 << 24) as f64;
            }
            (sum - 6.0) as f32
        };
        let rule = Rule::of_blocks(DataType::Int4, false, false).unwrap();
        let (mut own, mut whole) = (0.0, 0.0);
        for _ in 0..500 {
            let values: Vec<f32> = (0..32).map(|_| real()).collect();
            let ones = [1.0; 32];
            let scale = range(&values, &ones, rule, DataType::Float).0;
            own += error(&values, &ones, scale, rule);
            whole += error(&values, &ones, plain(&values, rule)[0], rule);
        }
        let gain = 10.0 * f64::log10(whole / own);
        assert!(gain > 0.25, "{gain} dB");
    }
}
