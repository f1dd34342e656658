//! Loops over all weights, for the widest vectors that the processor has.

use onnxd_eval::vectorized;

/// Elements that a vector, or some, hold.
const LANES: usize = 16;

/// Adding and taking it away leaves the nearest integer, for magnitudes up to 2^22.
pub(crate) const ROUND: f32 = 12_582_912.0;

vectorized! {
    /// Whether floats are all finite, wherever their bytes lie.
    pub(crate) fn finite(bytes: &[u8]) -> bool {
        const EXPONENT: u32 = 0x7f80_0000;
        // Whole blocks without a way out can be looked at side by side.
        bytes.chunks(1 << 14).all(|block| {
            let wrong = |x: &[u8; 4]| u32::from(u32::from_ne_bytes(*x) & EXPONENT == EXPONENT);
            block.as_chunks().0.iter().fold(0, |all, x| all | wrong(x)) == 0
        })
    }
}

vectorized! {
    /// The smallest and the largest of some elements and zero.
    pub(crate) fn reach(values: &[f32]) -> (f32, f32) {
        let (mut low, mut high) = ([0f32; LANES], [0f32; LANES]);
        let (rows, rest) = values.as_chunks::<LANES>();
        let mut last = [0f32; LANES];
        last[..rest.len()].copy_from_slice(rest);
        for row in rows.iter().chain([&last]) {
            for (lane, x) in row.iter().enumerate() {
                low[lane] = if *x < low[lane] { *x } else { low[lane] };
                high[lane] = if *x > high[lane] { *x } else { high[lane] };
            }
        }
        (low.into_iter().fold(0.0, f32::min), high.into_iter().fold(0.0, f32::max))
    }
}

vectorized! {
    /// Widens the range of each element by the next of `values`.
    pub(crate) fn widen(low: &mut [f32], high: &mut [f32], values: &[f32]) {
        for ((low, high), x) in low.iter_mut().zip(high).zip(values) {
            (*low, *high) = (low.min(*x), high.max(*x));
        }
    }
}

vectorized! {
    /// The sum of the magnitudes.
    pub(crate) fn sum_magnitudes(values: &[f32]) -> f64 {
        let mut sums = [0f64; LANES];
        let (rows, rest) = values.as_chunks::<LANES>();
        for row in rows {
            sums.iter_mut().zip(row).for_each(|(sum, x)| *sum += f64::from(x.abs()));
        }
        let rest: f64 = rest.iter().map(|x| f64::from(x.abs())).sum();
        rest + sums.iter().sum::<f64>()
    }
}

vectorized! {
    /// Adds the magnitude of each element to the next of the sums.
    pub(crate) fn add_magnitudes(sums: &mut [f64], values: &[f32]) {
        sums.iter_mut().zip(values).for_each(|(sum, x)| *sum += f64::from(x.abs()));
    }
}

/// How elements are quantized: `x / scale` between two limits, to the nearest, and `zero` more.
/// One of each for all elements, or one for each.
pub(crate) struct Steps<'s> {
    pub(crate) scale: &'s [f32],
    pub(crate) zero: &'s [i32],
    pub(crate) low: &'s [f32],
    pub(crate) high: &'s [f32],
}

vectorized! {
    /// Elements as integers, all with the first of the steps.
    pub(crate) fn quantize_run(found: &mut [i32], values: &[f32], steps: &Steps) {
        let (scale, zero) = (steps.scale[0], steps.zero[0]);
        let (low, high) = (steps.low[0], steps.high[0]);
        for (q, x) in found.iter_mut().zip(values) {
            *q = nearest(x / scale, low, high).wrapping_add(zero);
        }
    }
}

vectorized! {
    /// Elements as integers, each with the next of the steps.
    pub(crate) fn quantize_row(found: &mut [i32], values: &[f32], steps: &Steps) {
        let n = found.len();
        let (values, scale, zero) = (&values[..n], &steps.scale[..n], &steps.zero[..n]);
        let (low, high) = (&steps.low[..n], &steps.high[..n]);
        for i in 0..n {
            found[i] = nearest(values[i] / scale[i], low[i], high[i]).wrapping_add(zero[i]);
        }
    }
}

#[inline(always)]
fn nearest(steps: f32, low: f32, high: f32) -> i32 {
    let steps = if steps > low { steps } else { low };
    let steps = if steps < high { steps } else { high };
    // The integer then stands in the lowest bits.
    (steps + ROUND).to_bits().wrapping_sub(ROUND.to_bits()).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn loops_give_what_their_formulas_say(
            values in prop::collection::vec(-1e3..1e3f32, 0..70), at in 0usize..70,
        ) {
            let fold = |f: fn(f32, f32) -> f32| values.iter().copied().fold(0.0, f);
            prop_assert_eq!(reach(&values), (fold(f32::min), fold(f32::max)));
            let sum: f64 = values.iter().map(|x| f64::from(x.abs())).sum();
            prop_assert!((sum_magnitudes(&values) - sum).abs() <= 1e-9 * sum);
            let bytes = |values: &[f32]| values.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<u8>>();
            prop_assert!(finite(&bytes(&values)));
            for wrong in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let mut values = values.clone();
                values.insert(at.min(values.len()), wrong);
                prop_assert!(!finite(&bytes(&values)));
            }
            let (mut low, mut high, mut sums) = (vec![-1f32; 70], vec![1f32; 70], vec![1f64; 70]);
            widen(&mut low, &mut high, &values);
            add_magnitudes(&mut sums, &values);
            for (i, x) in values.iter().enumerate() {
                prop_assert_eq!((low[i], high[i]), (x.min(-1.0), x.max(1.0)));
                prop_assert_eq!(sums[i], 1.0 + f64::from(x.abs()));
            }
        }

        #[test]
        fn integers_are_the_nearest_between_the_limits(
            values in prop::collection::vec(-1e3..1e3f32, 1..70), scale in 1e-3..1e2f32,
            zero in -128..128i32,
        ) {
            let n = values.len();
            let scales: Vec<f32> = (0..n).map(|i| scale * (1 + i) as f32).collect();
            let (low, high) = ((-128 - zero) as f32, (127 - zero) as f32);
            let wanted = |x: f32, scale: f32| {
                (x / scale).clamp(low, high).round_ties_even() as i32 + zero
            };
            let all = (vec![zero; n], vec![low; n], vec![high; n]);
            let steps = Steps { scale: &scales, zero: &all.0, low: &all.1, high: &all.2 };
            let mut found = vec![0; n];
            quantize_row(&mut found, &values, &steps);
            for (i, q) in found.iter().enumerate() {
                prop_assert_eq!(*q, wanted(values[i], scales[i]));
            }
            quantize_run(&mut found, &values, &steps);
            for (q, x) in found.iter().zip(&values) {
                prop_assert_eq!(*q, wanted(*x, scales[0]));
            }
        }
    }
}
