//! Scales, zero points and integers against the formulas of ONNX Runtime's quantizer and of
//! `QuantizeLinear`, written here once more.

use onnxd_ir::DataType;
use onnxd_quantize::observe::Extremes;
use onnxd_quantize::range::{Levels, Scale};
use proptest::prelude::*;

/// Integers of a type: all, with one bit less, and those of a symmetric range.
const TYPES: [(DataType, [(i64, i64); 3]); 6] = [
    (DataType::Uint8, [(0, 255), (0, 127), (0, 255)]),
    (DataType::Int8, [(-128, 127), (-64, 64), (-127, 127)]),
    (DataType::Uint16, [(0, 65535), (0, 32767), (0, 65535)]),
    (DataType::Int16, [(-32768, 32767), (-16384, 16384), (-32767, 32767)]),
    (DataType::Uint4, [(0, 15), (0, 7), (0, 15)]),
    // ONNX Runtime ends at 3, which leaves zero out of the middle.
    (DataType::Int4, [(-8, 7), (-4, 4), (-7, 7)]),
];

/// One of the rows: levels, and whether ranges are symmetric.
fn rows() -> impl Strategy<Value = (Levels, bool)> {
    (prop::sample::select(&TYPES[..]), any::<bool>(), any::<bool>()).prop_map(
        |((dtype, ranges), reduced, symmetric)| {
            let all = Levels::of(dtype).unwrap();
            let of = |l: Levels| (l.min, l.max);
            assert_eq!([of(all), of(all.reduced()), of(all.symmetric())], ranges, "{dtype}");
            let levels = if reduced { all.reduced() } else { all };
            let levels = if symmetric { levels.symmetric() } else { levels };
            // A reduced range is symmetric as it is.
            assert_eq!(of(levels), ranges[if reduced { 1 } else { 2 * usize::from(symmetric) }]);
            (levels, symmetric)
        },
    )
}

/// Numbers of all sizes: usual, zero, denormal, huge.
fn ends() -> impl Strategy<Value = f64> {
    let f32s = prop_oneof![
        4 => -1e3f32..1e3,
        2 => Just(0f32),
        1 => (-149i32..127).prop_map(|e| 2f32.powi(e)),
        1 => (-149i32..127).prop_map(|e| -(2f32.powi(e))),
        1 => prop::sample::select(vec![f32::MAX, f32::MIN, f32::MIN_POSITIVE, 1e-45, -1e-45]),
    ];
    f32s.prop_map(f64::from)
}

fn ranges() -> impl Strategy<Value = (f64, f64)> {
    (ends(), ends()).prop_map(|(a, b)| (a.min(b), a.max(b)))
}

fn rint(x: f64) -> f64 {
    let (low, high) = (x.floor(), x.ceil());
    match (x - low).total_cmp(&(high - x)) {
        std::cmp::Ordering::Less => low,
        std::cmp::Ordering::Greater => high,
        _ if low == high || low.rem_euclid(2.0) == 0.0 => low,
        _ => high,
    }
}

/// Scale and zero point by the formula.
fn formula((min, max): (f64, f64), levels: Levels, symmetric: bool) -> (f32, i64) {
    let (rmin, rmax) = if min > 0.0 { (0.0, max) } else { (min, max) };
    let rmax = if rmax < 0.0 { 0.0 } else { rmax };
    let reach = rmin.abs().max(rmax.abs());
    let (rmin, rmax) = if symmetric { (-reach, reach) } else { (rmin, rmax) };
    let (qmin, qmax) = (levels.min as f64, levels.max as f64);
    let middle = rint((qmin + qmax) / 2.0) as i64;
    let scale = (rmax - rmin) / (qmax - qmin);
    if scale < f64::from(f32::MIN_POSITIVE) {
        // Where the zero of positive numbers is, and not 0 as in ONNX Runtime, so that a `Relu`
        // can be said by saturation here as well.
        return (1.0, if symmetric { middle } else { levels.min });
    }
    let zero = if symmetric { middle } else { rint(qmin - rmin / scale) as i64 };
    (scale as f32, zero)
}

fn full(dtype: DataType) -> (i64, i64) {
    TYPES.iter().find(|row| row.0 == dtype).unwrap().1[0]
}

/// `saturate(rint(x / scale) + zero_point)`, with the quotient of a float's precision.
fn quantize_linear(x: f32, s: Scale) -> i64 {
    let (low, high) = full(s.dtype);
    let steps = rint(f64::from(x / s.scale as f32)) + s.zero_point as f64;
    if x.is_nan() { s.zero_point } else { steps.clamp(low as f64, high as f64) as i64 }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn scales_are_those_of_the_formula(range in ranges(), (levels, symmetric) in rows()) {
        let s = Scale::of_range(range, levels, symmetric);
        prop_assert_eq!((s.scale as f32, s.zero_point), formula(range, levels, symmetric));
        prop_assert!((s.scale as f32).is_normal() && s.scale > 0.0);
        prop_assert_eq!(s.scale, f64::from(s.scale as f32));
        let (low, high) = full(levels.dtype);
        prop_assert!(low <= s.zero_point && s.zero_point <= high);
    }

    #[test]
    fn integers_are_those_of_quantize_linear(
        range in ranges(), (levels, symmetric) in rows(),
        x in prop_oneof![prop::num::f32::ANY, -1e4f32..1e4, -10f32..10.0],
    ) {
        let s = Scale::of_range(range, levels, symmetric);
        prop_assert_eq!(s.quantize(x), quantize_linear(x, s));
        // Ties, and the floats beside them.
        let tie = ((x % 70000.0).trunc() + 0.5) * s.scale as f32;
        for x in [tie, tie.next_up(), tie.next_down()] {
            prop_assert_eq!(s.quantize(x), quantize_linear(x, s));
        }
    }

    /// Half a step at most within what is represented, which is the range to half a step; the ends
    /// beyond it; zero as it is; the order kept.
    #[test]
    fn integers_stand_for_what_they_were(
        range in ranges(), (levels, symmetric) in rows(),
        shares in prop::collection::vec(-0.5..1.5f64, 1..20),
    ) {
        let s = Scale::of_range(range, levels, symmetric);
        prop_assert_eq!(s.dequantize(s.quantize(0.0)), 0.0);
        prop_assert_eq!(s.dequantize(s.quantize(-0.0)), 0.0);
        let (low, high) = s.range();
        let nothing = range.1.max(0.0) - range.0.min(0.0) < f64::from(f32::MIN_POSITIVE) * 256.0;
        let reduced = levels.max - levels.min < full(levels.dtype).1 - full(levels.dtype).0 - 1;
        if !nothing && !reduced {
            let reach = 1e-6 * range.1.abs().max(range.0.abs());
            prop_assert!(low <= range.0.min(0.0) + s.scale * 0.5 + reach);
            prop_assert!(high >= range.1.max(0.0) - s.scale * 0.5 - reach);
        }
        let (least, most) = full(levels.dtype);
        let mut xs: Vec<f32> = (shares.iter())
            .map(|share| (low + (high - low) * share) as f32)
            .filter(|x| x.is_finite())
            .collect();
        xs.sort_by(f32::total_cmp);
        let mut before = least;
        for x in xs {
            let q = s.quantize(x);
            prop_assert!(q >= before, "{x} gives {q} after {before}");
            before = q;
            let x = f64::from(x);
            // A quotient is off by a float's precision.
            let slack = s.scale * 0.5 + 1e-7 * x.abs();
            if x < low - slack {
                prop_assert_eq!(q, least);
            } else if x > high + slack {
                prop_assert_eq!(q, most);
            } else {
                let error = s.dequantize(q) - x.clamp(low, high);
                prop_assert!(error.abs() <= slack, "{} {:?}", x, s);
            }
        }
    }

    /// What was seen besides numbers has no say.
    #[test]
    fn ranges_without_numbers_are_ranges_of_nothing((levels, symmetric) in rows()) {
        let none = Extremes::default();
        let s = Scale::of_range((none.min, none.max), levels, symmetric);
        prop_assert_eq!(s, Scale::of_range((0.0, 0.0), levels, symmetric));
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN];
        for (a, b) in odd.into_iter().flat_map(|a| odd.map(|b| (a, b))) {
            let s = Scale::of_range((a, b), levels, symmetric);
            prop_assert!((s.scale as f32).is_normal() && s.dequantize(s.quantize(0.0)) == 0.0);
        }
    }
}
