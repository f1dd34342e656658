//! Methods of calibration against their definitions, computed the long way round.

use crate::observe::{Statistic, Stats};
use crate::range::method::Method;
use crate::range::{Levels, Scale};
use onnxd_ir::{DataType, Tensor};
use proptest::prelude::*;

fn stats(values: &[f32], method: Method) -> Stats {
    let mut stats = Stats::new(&method.parts(1));
    stats.see(&Tensor::vector(values.to_vec()));
    stats
}

fn levels(dtype: DataType) -> Levels {
    Levels::of(dtype).unwrap()
}

/// Values as networks have them: many small ones, few large ones, on one or both sides of zero.
fn values() -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        6 => (-1f32..1.0).prop_map(|x| x * x * x),
        3 => -1f32..1.0,
        1 => (-1f32..1.0).prop_map(|x| x * 8.0),
    ];
    (prop::collection::vec(value, 50..600), prop::bool::ANY).prop_map(|(values, rectified)| {
        values.into_iter().map(|x| if rectified { x.max(0.0) } else { x }).collect()
    })
}

/// Squared error of integers with the range's scale.
fn error(values: &[f32], range: (f64, f64), symmetric: bool) -> f64 {
    let scale = Scale::of_range(range, levels(DataType::Uint8), symmetric);
    let back = |x: f32| scale.dequantize(scale.quantize(x)) - f64::from(x);
    values.iter().map(|x| back(*x).powi(2)).sum()
}

/// Divergence of what integers say of a distribution from the distribution, after the paper's
/// description: both sum to one.
fn divergence(counts: &[u64], cut: usize, quanta: usize) -> f64 {
    let mut p: Vec<f64> = counts[..cut].iter().map(|n| *n as f64).collect();
    p[0] = 0.0;
    let seen = p.clone();
    let beyond: u64 = counts[cut..].iter().sum();
    p[cut - 1] += beyond as f64;
    let mut q = vec![0.0; cut];
    for quantum in 0..quanta {
        let bins = quantum * cut / quanta..(quantum + 1) * cut / quanta;
        let used: Vec<usize> = bins.filter(|bin| seen[*bin] > 0.0).collect();
        let sum: f64 = used.iter().map(|bin| seen[*bin]).sum();
        used.iter().for_each(|bin| q[*bin] = sum / used.len() as f64);
    }
    let (all_p, all_q): (f64, f64) = (p.iter().sum(), q.iter().sum());
    let term = |(p, q): (&f64, &f64)| match (*p, *q) {
        (0.0, _) => 0.0,
        // As little as the method takes for nothing.
        (p, q) => p / all_p * ((p / all_p) / ((if q == 0.0 { 1e-4 } else { q }) / all_q)).ln(),
    };
    p.iter().zip(&q).map(term).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// A bin at most beyond the value that has the share behind it.
    #[test]
    fn percentiles_are_order_statistics(values in values(), share in 80f64..100.0) {
        let method = Method::Percentile(share);
        let seen = stats(&values, method);
        let (low, high) = method.range(&seen, levels(DataType::Uint8), false).unwrap();
        let width = seen.histogram.as_ref().unwrap().width();
        let mut sorted: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
        sorted.sort_by(f64::total_cmp);
        let outside = sorted.len() as f64 * (1.0 - share / 100.0);
        let one_sided = sorted[0] >= 0.0;
        let each = if one_sided { outside } else { outside / 2.0 };
        // The largest value that has no more than so many above it.
        let at = sorted.len() - 1 - each as usize;
        let top = sorted[at].max(0.0);
        prop_assert!(high >= top.min(sorted[sorted.len() - 1]) && high <= top + width, "{high} {top} {width}");
        if !one_sided {
            let bottom = sorted[each as usize].min(0.0);
            prop_assert!(low <= bottom && low >= bottom - width, "{low} {bottom} {width}");
        }
    }

    /// Nearly as good as the best of all ranges on a fine grid, measured by rounding each value.
    #[test]
    fn least_squares_are_near_the_best(values in values(), symmetric: bool) {
        let seen = stats(&values, Method::Mse);
        let found = Method::Mse.range(&seen, levels(DataType::Uint8), symmetric).unwrap();
        let (min, max) = seen.extremes.range().unwrap();
        let own = error(&values, found, symmetric);
        let mut best = f64::INFINITY;
        for i in 1..=24 {
            for k in 1..=24 {
                let share = |n: i32| f64::from(n) / 24.0;
                best = best.min(error(&values, (min * share(i), max * share(k)), symmetric));
            }
        }
        let all = error(&values, (min, max), symmetric);
        prop_assert!(own <= all * 1.1, "{own} of {all}, best {best}");
        // Rounding errors of few values scatter around what is expected.
        prop_assert!(own <= best * 1.6 + 1e-9, "{own}, best {best}, all {all}");
    }

    #[test]
    fn entropy_is_the_least_divergence(values in values(), signed: bool) {
        let dtype = if signed { DataType::Int8 } else { DataType::Uint8 };
        let seen = stats(&values, Method::Entropy);
        let histogram = seen.histogram.as_ref().unwrap();
        let (min, max) = seen.extremes.range().unwrap();
        let (low, high) = Method::Entropy.range(&seen, levels(dtype), false).unwrap();
        let counts = histogram.magnitudes();
        let used = counts.iter().rposition(|n| *n > 0).unwrap() + 1;
        let quanta = if !signed && min >= 0.0 { 256 } else { 128 };
        prop_assume!(used > quanta);
        let all: Vec<f64> = (quanta..=used).map(|cut| divergence(&counts, cut, quanta)).collect();
        let best = all.iter().copied().fold(f64::INFINITY, f64::min);
        let reach = high.max(-low);
        // Clipped to the values, the last cut is all of them.
        let cut = (reach / histogram.width()).ceil() as usize;
        let cut = if reach >= max.max(-min) { used } else { cut };
        let own = all[cut - quanta];
        prop_assert!(own <= best + 1e-9 * best.abs().max(1.0), "{own}, best {best}");
    }

    /// However many samples run at once.
    #[test]
    fn averages_do_not_depend_on_the_batch(values in prop::collection::vec(-9f32..9.0, 64)) {
        let method = Method::MovingAverage;
        let of = |batch: usize| {
            let mut stats = Stats::new(&method.parts(batch as u64));
            values.chunks(batch).for_each(|x| stats.see(&Tensor::vector(x.to_vec())));
            method.range(&stats, levels(DataType::Uint8), false)
        };
        prop_assert_eq!(of(1), of(2));
        prop_assert_eq!(of(1), of(8));
        prop_assert_eq!(of(1), of(16));
        let ends = |part: &[f32]| {
            let fold = |(lo, hi): (f32, f32), x: &f32| (lo.min(*x), hi.max(*x));
            part.iter().fold((f32::INFINITY, f32::NEG_INFINITY), fold)
        };
        let groups: Vec<(f32, f32)> = values.chunks(16).map(ends).collect();
        let mean = groups.iter().map(|g| f64::from(g.1)).sum::<f64>() / 4.0;
        prop_assert!((of(1).unwrap().1 - mean).abs() < 1e-9);
    }
}
