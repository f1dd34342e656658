//! The ranges of blocks of weights, one of each of some rows side by side.
//!
//! For integers `q` that a scale leads to, the best scale is `sum(w q) / sum(q q)`, and the squared error of any
//! scale `s` is `sum(w w) - 2 s sum(w q) + s s sum(q q)`. So one pass over a block judges a range and the best scale
//! for its integers alike.

use super::power::Power;
use crate::range::vectors::ROUND;
use crate::range::weights::Rule;
use onnxd_eval::vectorized;
use onnxd_ir::DataType;

/// Blocks that are looked at side by side.
pub(crate) const LANES: usize = 16;

/// One of each block.
pub(crate) type Lanes<T> = [T; LANES];

/// Elements of a block that are added in single precision.
const PART: usize = 128;

/// Ranges that are tried from either start at most, each narrower than the one before.
const SHARES: usize = 9;

/// By how much of the whole range the next one is narrower.
const STEP: f64 = 0.1;

/// Further turns of rounding by the best scale, and finding the best one for these integers.
const TURNS: usize = 1;

/// Between these, squares of the largest element and their sums neither overflow nor vanish in single precision.
const SQUARED: [f32; 2] = [1e-12, 1e12];

/// Scales of blocks in the type that the operators get, and the integers that zero is. Both are held in the precision
/// that errors are judged in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scales {
    pub(crate) scale: Lanes<f64>,
    pub(crate) zero: Lanes<f64>,
}

/// For each block, the scale with the least squared error that is found, each element counting as much as it matters:
/// that of the range from the lowest to the highest element, of the range that its largest element alone decides, or
/// of a narrower one, or the best scale for the integers of one of these. `columns` hold one element of each block.
pub(crate) fn ranges(
    columns: &[Lanes<f32>],
    matters: &[f32],
    rule: Rule,
    dtype: DataType,
) -> (Scales, Power) {
    let ends = reach(columns);
    let units = units(&ends);
    let (mut best, signal, mut noise) = match units {
        None => Search::run((columns, matters), rule, dtype, &ends),
        Some(units) => {
            let columns: Vec<_> = columns.iter().map(|column| divided(column, &units)).collect();
            let ends = ends.map(|end| divided(&end, &units));
            Search::run((&columns, matters), rule, dtype, &ends)
        }
    };
    let mut power = Power::default();
    for i in 0..LANES {
        let unit = units.map_or(1.0, |units| units[i]);
        if unit != 1.0 {
            best.scale[i] = held(best.scale[i] * unit, dtype);
        }
        // No scale is so small, and nothing is left of the block.
        if best.scale[i] == 0.0 {
            let nothing = whole(&[[0.0; LANES]; 2], rule, dtype);
            (best.scale[i], best.zero[i], noise[i]) = (1.0, nothing.zero[i], signal[i]);
        }
        let [signal, noise] = [signal[i], noise[i].max(0.0)].map(|x| x * unit * unit);
        power = power.and(Power { signal, noise });
    }
    (best, power)
}

/// Powers of two, which change no digit, that bring blocks to where squares can be added; `None` where all are.
fn units([low, high]: &[Lanes<f32>; 2]) -> Option<Lanes<f64>> {
    let [least, most] = SQUARED;
    let unit = |i: usize| {
        let largest = high[i].max(-low[i]);
        match largest == 0.0 || (least..=most).contains(&largest) {
            true => 1.0,
            false => 2f64.powi(largest.log2().floor() as i32),
        }
    };
    let units: Lanes<f64> = std::array::from_fn(unit);
    units.iter().any(|unit| *unit != 1.0).then_some(units)
}

fn divided(elements: &Lanes<f32>, units: &Lanes<f64>) -> Lanes<f32> {
    std::array::from_fn(|i| (f64::from(elements[i]) / units[i]) as f32)
}

vectorized! {
    /// From the lowest to the highest element, with zero among them; the integer of zero is in the middle of a
    /// symmetric range.
    fn whole(ends: &[Lanes<f32>; 2], rule: Rule, dtype: DataType) -> Scales {
        let ([low, high], min, max) = (ends, rule.levels.min as f64, rule.levels.max as f64);
        let mut scales = Scales { scale: [1.0; LANES], zero: [middle(rule); LANES] };
        for i in 0..LANES {
            let (low, high) = (f64::from(low[i]), f64::from(high[i]));
            let largest = if -low > high { -low } else { high };
            let width = if rule.symmetric { 2.0 * largest } else { high - low };
            scales.scale[i] = if width > 0.0 { width / (max - min) } else { 1.0 };
            if !rule.symmetric {
                let zero = (min - low / scales.scale[i]) as f32;
                scales.zero[i] = f64::from((zero + ROUND) - ROUND);
            }
        }
        hold(&mut scales.scale, dtype);
        scales
    }
}

/// The integer in the middle.
#[inline(always)]
fn middle(rule: Rule) -> f64 {
    ((rule.levels.min + rule.levels.max + 1) / 2) as f64
}

/// The largest element decides. The side of the middle that has one integer more takes it. Where zero may be anywhere,
/// it is on the other side of that middle, so that scales stay positive.
fn signed([low, high]: &[Lanes<f32>; 2], rule: Rule) -> Scales {
    let middle = middle(rule);
    let mirrored = (rule.levels.min + rule.levels.max) as f64 - middle;
    let levels = rule.levels.min as f64 - middle;
    let mut scales = Scales { scale: [0.0; LANES], zero: [middle; LANES] };
    for i in 0..LANES {
        let largest = f64::from(if -low[i] > high[i] { low[i] } else { high[i] });
        let as_is = rule.symmetric || largest < 0.0;
        (scales.scale[i], scales.zero[i]) =
            if as_is { (largest / levels, middle) } else { (-largest / levels, mirrored) };
    }
    scales
}

/// A scale as the operators get it; 0 for one that they cannot have.
fn held(scale: f64, dtype: DataType) -> f64 {
    let mut lanes = [scale; LANES];
    hold(&mut lanes, dtype);
    lanes[0]
}

/// Scales as the operators get them; 0 for those that they cannot have.
#[inline(always)]
fn hold(scales: &mut Lanes<f64>, dtype: DataType) {
    const LEAST: f64 = f32::MIN_POSITIVE as f64;
    const MOST: f64 = f32::MAX as f64;
    match dtype {
        DataType::Float16 => *scales = scales.map(|s| onnxd_ir::nearest_f16(s).to_f64()),
        DataType::Bfloat16 => *scales = scales.map(|s| onnxd_ir::nearest_bf16(s).to_f64()),
        _ => scales.iter_mut().for_each(|s| *s = f64::from(*s as f32)),
    }
    for s in scales {
        let magnitude = s.abs();
        *s = if (LEAST..=MOST).contains(&magnitude) { *s } else { 0.0 };
    }
}

/// The best scales of blocks so far.
struct Search<'v> {
    columns: &'v [Lanes<f32>],
    matters: &'v [f32],
    /// The least and the greatest integer.
    levels: [f32; 2],
    dtype: DataType,
    /// The sums of squares of elements.
    signal: Lanes<f64>,
    best: Scales,
    /// The sums of squares of errors.
    noise: Lanes<f64>,
}

impl<'v> Search<'v> {
    /// The best scales, the sums of squares of elements, and of errors.
    fn run(
        (columns, matters): (&'v [Lanes<f32>], &'v [f32]),
        rule: Rule,
        dtype: DataType,
        ends: &[Lanes<f32>; 2],
    ) -> (Scales, Lanes<f64>, Lanes<f64>) {
        // As if each weight became 0.
        let signal = squares(columns, matters);
        let noise = signal;
        let levels = [rule.levels.min as f32, rule.levels.max as f32];
        let best = whole(ends, rule, dtype);
        let mut search = Search { columns, matters, levels, dtype, signal, best, noise };
        search.look(&best);
        if rule.search {
            if !rule.symmetric {
                search.narrow(1, search.noise, &best);
            }
            search.narrow(0, [f64::INFINITY; LANES], &signed(ends, rule));
            for _ in 0..TURNS {
                search.look(&search.best.clone());
            }
        }
        (search.best, search.signal, search.noise)
    }

    /// Tries narrower ranges from that one on: of each block as long as the error is less than the last one's.
    fn narrow(&mut self, first: usize, mut last: Lanes<f64>, from: &Scales) {
        let mut scales = *from;
        let mut open = [1f64; LANES];
        for step in first..SHARES {
            let share = 1.0 - STEP * step as f64;
            shared(&mut scales.scale, &from.scale, (&open, share), self.dtype);
            let noise = self.look(&scales);
            if !close(&mut open, &noise, &last) {
                return;
            }
            last = noise;
        }
    }

    /// Takes the best scales for the integers that these lead to where the error is less; gives the errors, which are
    /// infinite for a scale of 0.
    fn look(&mut self, scales: &Scales) -> Lanes<f64> {
        let sums = products((self.columns, self.matters), scales, self.levels);
        let own = Scales { scale: own_scales(scales, &sums, self.dtype), ..*scales };
        let noise = errors(&own.scale, &self.signal, &sums);
        (self.best, self.noise) = better((&self.best, &self.noise), (&own, &noise));
        noise
    }
}

vectorized! {
    /// A share of scales, of blocks that are still open: others get none.
    fn shared(scales: &mut Lanes<f64>, from: &Lanes<f64>, by: (&Lanes<f64>, f64), dtype: DataType) {
        for i in 0..LANES {
            scales[i] = from[i] * by.1 * by.0[i];
        }
        hold(scales, dtype);
    }
}

vectorized! {
    /// Closes blocks whose error is not less than the last one; whether one is open.
    fn close(open: &mut Lanes<f64>, noise: &Lanes<f64>, last: &Lanes<f64>) -> bool {
        let mut any = 0f64;
        for i in 0..LANES {
            open[i] = if noise[i] < last[i] { open[i] } else { 0.0 };
            any += open[i];
        }
        any > 0.0
    }
}

vectorized! {
    /// The best scales for the integers that scales led to.
    fn own_scales(scales: &Scales, sums: &[Lanes<f64>; 2], dtype: DataType) -> Lanes<f64> {
        let mut own = [0f64; LANES];
        for i in 0..LANES {
            let best = sums[0][i] / sums[1][i];
            own[i] = if scales.scale[i] == 0.0 { 0.0 } else { best };
        }
        hold(&mut own, dtype);
        own
    }
}

vectorized! {
    /// The squared errors of scales; infinite for a scale of 0.
    fn errors(scales: &Lanes<f64>, signal: &Lanes<f64>, sums: &[Lanes<f64>; 2]) -> Lanes<f64> {
        let [products, squares] = sums;
        let mut errors = [0f64; LANES];
        for i in 0..LANES {
            let s = scales[i];
            let error = signal[i] - 2.0 * s * products[i] + s * s * squares[i];
            errors[i] = either(s == 0.0, f64::INFINITY, error);
        }
        errors
    }
}

vectorized! {
    /// Of two scales of each block, the one with the lesser error, and that.
    fn better(a: (&Scales, &Lanes<f64>), b: (&Scales, &Lanes<f64>)) -> (Scales, Lanes<f64>) {
        let ((best, least), (scales, errors)) = (a, b);
        let (mut taken, mut lesser) = (Scales { scale: [0.0; LANES], zero: [0.0; LANES] }, [0f64; LANES]);
        for i in 0..LANES {
            let better = errors[i] < least[i];
            lesser[i] = either(better, errors[i], least[i]);
            taken.scale[i] = either(better, scales.scale[i], best.scale[i]);
            taken.zero[i] = either(better, scales.zero[i], best.zero[i]);
        }
        (taken, lesser)
    }
}

/// `if first { a } else { b }` by bits: as a branch, no two elements would be looked at side by side.
#[inline(always)]
fn either(first: bool, a: f64, b: f64) -> f64 {
    let mask = u64::from(first).wrapping_neg();
    f64::from_bits(a.to_bits() & mask | b.to_bits() & !mask)
}

vectorized! {
    /// The smallest and the largest elements of blocks, and zero.
    fn reach(columns: &[Lanes<f32>]) -> [Lanes<f32>; 2] {
        let (mut low, mut high) = ([0f32; LANES], [0f32; LANES]);
        for column in columns {
            for i in 0..LANES {
                low[i] = if column[i] < low[i] { column[i] } else { low[i] };
                high[i] = if column[i] > high[i] { column[i] } else { high[i] };
            }
        }
        [low, high]
    }
}

vectorized! {
    /// For each block, the sums of elements times their integers, and of squares of integers, both with zero at 0.
    fn products(values: (&[Lanes<f32>], &[f32]), scales: &Scales, levels: [f32; 2]) -> [Lanes<f64>; 2] {
        let (mut inverse, mut low, mut high) = ([0f32; LANES], [0f32; LANES], [0f32; LANES]);
        for i in 0..LANES {
            let (s, zero) = (scales.scale[i] as f32, scales.zero[i] as f32);
            inverse[i] = if s == 0.0 { 0.0 } else { 1.0 / s };
            (low[i], high[i]) = (levels[0] - zero, levels[1] - zero);
        }
        added(values, |x, i| {
            let q = x * inverse[i];
            let q = if q > low[i] { q } else { low[i] };
            let q = if q < high[i] { q } else { high[i] };
            (q + ROUND) - ROUND
        })
    }
}

vectorized! {
    /// For each block, the sum of squares.
    fn squares(columns: &[Lanes<f32>], matters: &[f32]) -> Lanes<f64> {
        added((columns, matters), |x, _| x)[1]
    }
}

/// For each block, the sums of elements times what becomes of them, and of squares of that; each counts as it matters.
#[inline(always)]
fn added(
    (columns, matters): (&[Lanes<f32>], &[f32]),
    one: impl Fn(f32, usize) -> f32,
) -> [Lanes<f64>; 2] {
    let mut sums = [[0f64; LANES]; 2];
    for (columns, matters) in columns.chunks(PART).zip(matters.chunks(PART)) {
        let mut part = [[0f32; LANES]; 2];
        for (column, matters) in columns.iter().zip(matters) {
            for i in 0..LANES {
                let q = one(column[i], i);
                let counted = q * matters;
                part[0][i] += column[i] * counted;
                part[1][i] += q * counted;
            }
        }
        for (sums, part) in sums.iter_mut().zip(part) {
            for i in 0..LANES {
                sums[i] += f64::from(part[i]);
            }
        }
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::range::{Scale, vectors};
    use proptest::prelude::*;

    /// The scale of one block beside others.
    fn range(values: &[f32], matters: &[f32], rule: Rule, dtype: DataType) -> (Scale, Power) {
        let whole = Scale::of_range((0.0, 0.0), rule.levels, rule.symmetric);
        let found = [0, LANES - 1].map(|lane| {
            let mut columns = vec![[0f32; LANES]; values.len()];
            columns.iter_mut().zip(values).for_each(|(column, x)| column[lane] = *x);
            let alone = ranges(&columns, matters, rule, dtype);
            let beside = |(i, c): (usize, &mut Lanes<f32>)| c[5] = (i as f32 - 3.0) * 1e-3;
            columns.iter_mut().enumerate().for_each(beside);
            let found = ranges(&columns, matters, rule, dtype).0;
            let block = |s: Scales| (s.scale[lane], s.zero[lane]);
            assert_eq!(block(alone.0), block(found));
            (block(found), alone.1)
        });
        assert_eq!(found[0].0, found[1].0);
        let ((scale, zero_point), power) = found[0];
        (Scale { scale, zero_point: zero_point as i64, ..whole }, power)
    }

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
        let (low, high) = vectors::reach(values);
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
