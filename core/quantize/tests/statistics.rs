//! Statistics against their definitions, and merged from parts.

use onnxd_eval::Builtin;
use onnxd_ir::text::parse_model;
use onnxd_ir::{DataType, Tensor};
use onnxd_quantize::observe::{
    Feeds, Limits, Statistic, StatisticParts, Stats, WantedValues, blocks, observe,
};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

const PARTS: StatisticParts = StatisticParts {
    moving_c: 0.1,
    group: 2,
    channel_axis: Some(1),
    means_axis: Some(1),
    bins: Some(64),
    moments: true,
};

fn stats_of(tensors: &[Tensor]) -> Stats {
    let mut stats = Stats::new(&PARTS);
    tensors.iter().for_each(|t| stats.see(t));
    stats
}

/// Tensors of a few channels with values of very different sizes, NaN and infinities.
fn tensors() -> impl Strategy<Value = Vec<Tensor>> {
    let value = prop_oneof![
        8 => -1f32..1.0,
        4 => (-20i32..20).prop_map(|e| 2f32.powi(e)),
        4 => (-20i32..20).prop_map(|e| -(2f32.powi(e))),
        2 => Just(0f32),
        1 => prop::sample::select(vec![f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 1e-42]),
    ];
    let tensor = (1usize..3, 1usize..4, 1usize..9).prop_flat_map(move |(n, c, w)| {
        prop::collection::vec(value.clone(), n * c * w)
            .prop_map(move |values| Tensor::from_vec(vec![n, c, w], values))
    });
    prop::collection::vec(tensor, 0..8)
}

fn near(a: f64, b: f64, scale: f64) -> bool {
    (a - b).abs() <= 1e-9 * scale.max(f64::MIN_POSITIVE)
}

proptest! {
    /// What is kept of floats without widening them is what is kept otherwise.
    #[test]
    fn less_of_it_is_the_same(
        tensors in prop::collection::vec(prop::collection::vec(
            prop_oneof![8 => -1e3..1e3f32, 1 => Just(0.0), 1 => prop::num::f32::ANY], 0..70), 1..4),
    ) {
        let mut light = Stats::new(&StatisticParts { moments: false, ..StatisticParts::default() });
        let mut all = Stats::new(&StatisticParts::default());
        for values in tensors {
            let tensor = Tensor::vector(values);
            light.see(&tensor);
            all.see(&tensor);
        }
        prop_assert_eq!(light.extremes, all.extremes);
        prop_assert_eq!(&light.moving, &all.moving);
        let counts = |s: &Stats| (s.tensors, s.elements, s.zeros, s.nans, s.infinities);
        prop_assert_eq!(counts(&light), counts(&all));
    }

    #[test]
    fn parts_merge_to_the_whole(tensors in tensors(), cut in 0usize..8) {
        let cut = cut.min(tensors.len());
        let (whole, mut first, second) = (stats_of(&tensors), stats_of(&tensors[..cut]), stats_of(&tensors[cut..]));
        first.merge(&second);
        prop_assert_eq!(&first.histogram, &whole.histogram);
        prop_assert_eq!(&first.channels, &whole.channels);
        prop_assert_eq!(first.extremes, whole.extremes);
        let counts = |s: &Stats| (s.tensors, s.elements, s.zeros, s.nans, s.infinities);
        prop_assert_eq!(counts(&first), counts(&whole));
        prop_assert_eq!(first.moments.count, whole.moments.count);
        let size = whole.extremes.abs_max();
        prop_assert!(near(first.moments.mean, whole.moments.mean, size));
        prop_assert!(near(first.moments.variance(), whole.moments.variance(), size.powi(2)));
        prop_assert!(near(first.moments.third(), whole.moments.third(), size.powi(3)));
        prop_assert!(near(first.moments.fourth(), whole.moments.fourth(), size.powi(4)));
        match (first.moving.range(), whole.moving.range()) {
            (Some(a), Some(b)) => {
                prop_assert!(near(a.0, b.0, size) && near(a.1, b.1, size), "{a:?} {b:?}");
            }
            (a, b) => prop_assert_eq!(a, b),
        }
    }

    #[test]
    fn what_ranges_follow_from_is_saved_and_read_back(tensors in tensors()) {
        let stats = stats_of(&tensors);
        let saved = stats.saved("x");
        let back = Stats::restored(&saved).unwrap();
        prop_assert_eq!(back.saved("x"), saved);
        prop_assert_eq!(back.extremes.range(), stats.extremes.range());
        let counts = stats.histogram.filter(|h| h.count() > 0);
        prop_assert_eq!(back.histogram.filter(|h| h.count() > 0), counts);
    }

    #[test]
    fn they_are_what_they_are_called(tensors in tensors()) {
        let stats = stats_of(&tensors);
        let all: Vec<f64> = tensors.iter().flat_map(|t| t.to_reals().unwrap().values).collect();
        let finite: Vec<f64> = all.iter().copied().filter(|x| x.is_finite()).collect();
        prop_assert_eq!(stats.elements, all.len() as u64);
        prop_assert_eq!(stats.nans, all.iter().filter(|x| x.is_nan()).count() as u64);
        prop_assert_eq!(stats.zeros, all.iter().filter(|x| **x == 0.0).count() as u64);
        let n = finite.len().max(1) as f64;
        let size = finite.iter().fold(0f64, |m, x| m.max(x.abs()));
        let mean = finite.iter().sum::<f64>() / n;
        let power = |p| finite.iter().map(|x| (x - mean).powi(p)).sum::<f64>() / n;
        prop_assert!(near(stats.moments.mean, mean, size));
        prop_assert!(near(stats.moments.variance(), power(2), size.powi(2)));
        prop_assert!(near(stats.moments.third(), power(3), size.powi(3)));
        prop_assert!(near(stats.moments.fourth(), power(4), size.powi(4)));
        prop_assert_eq!(stats.extremes.abs_max(), size);

        let histogram = stats.histogram.unwrap();
        prop_assert_eq!(histogram.count(), finite.len() as u64);
        for bin in histogram.bins() {
            let within = finite.iter().filter(|x| bin.from <= **x && **x < bin.to).count();
            prop_assert_eq!(bin.count, within as u64, "{:?}", bin);
        }
        if let Some((low, high, counts)) = histogram.coarse(7) {
            let width = (high - low) / counts.len() as f64;
            prop_assert!(counts.len() <= 7 && counts[0] > 0 && counts[counts.len() - 1] > 0);
            for (i, count) in counts.iter().enumerate() {
                let (from, to) = (low + i as f64 * width, low + (i + 1) as f64 * width);
                let within = finite.iter().filter(|x| from <= **x && **x < to).count();
                prop_assert_eq!(*count, within as u64);
            }
        }
        if size > 1e-30 {
            let used = histogram.negative().len().max(histogram.positive().len());
            prop_assert!(size / histogram.width() >= (used / 2) as f64, "bins are not wasted");
        }
        for (i, channel) in stats.channels.unwrap().extremes.iter().enumerate() {
            let mut range = (f64::INFINITY, f64::NEG_INFINITY);
            for t in tensors.iter().filter(|t| i < t.dims()[1]) {
                let (c, w) = (t.dims()[1], t.dims()[2]);
                let values = t.to_reals().unwrap().values;
                let own = values.iter().enumerate().filter(|(at, _)| at / w % c == i);
                for x in own.map(|(_, x)| *x).filter(|x| x.is_finite()) {
                    range = (range.0.min(x), range.1.max(x));
                }
            }
            prop_assert_eq!((channel.min, channel.max), range);
        }
    }
}

#[test]
fn moving_averages_are_those_of_the_definition() {
    let stats =
        stats_of(&[1f32, 5.0, -3.0].map(|x| Tensor::from_vec(vec![1, 2], vec![x, x + 1.0])));
    let step = |old: f64, new: f64| old + 0.1 * (new - old);
    let (min, max) = stats.moving.range().unwrap();
    assert!((min - step(step(1.0, 5.0), -3.0)).abs() < 1e-12);
    assert!((max - step(step(2.0, 6.0), -2.0)).abs() < 1e-12);
}

/// Three tensors in groups of two: the second group has half the weight.
#[test]
fn means_are_those_of_groups() {
    let tensors = [1f32, 5.0, -3.0].map(|x| Tensor::from_vec(vec![1, 2], vec![x, x + 1.0]));
    let expected = Some(((2.0 * 1.0 - 3.0) / 3.0, (2.0 * 6.0 - 2.0) / 3.0));
    assert_eq!(stats_of(&tensors).mean.range(), expected);
    let mut parts = stats_of(&tensors[..2]);
    parts.merge(&stats_of(&tensors[2..]));
    assert_eq!(parts.mean.range(), expected);
}

/// Wherever the parts begin, groups go on through them.
#[test]
fn parts_give_what_all_tensors_give() {
    let values = |i: usize| [i, 3 * i % 7, 9 - i].map(|x| x as f32).to_vec();
    let tensor = |i: usize| Tensor::from_vec(vec![1, 3], values(i));
    let tensors: Vec<Tensor> = (0..8).map(tensor).collect();
    let expected = stats_of(&tensors);
    for cut in 0..8 {
        let mut all = stats_of(&tensors[..cut]);
        for tensors in tensors[cut..].chunks(3) {
            let mut part = Stats::new(&PARTS).part();
            tensors.iter().for_each(|tensor| part.see(tensor));
            all.merge(&part);
        }
        assert_eq!(all.mean, expected.mean);
        assert_eq!((all.extremes, all.zeros), (expected.extremes, expected.zeros));
        assert_eq!(all.histogram, expected.histogram);
    }
}

#[test]
fn every_type_of_numbers_is_read() {
    for dtype in [DataType::Float16, DataType::Bfloat16, DataType::Double] {
        let reals = onnxd_ir::Reals { dims: vec![3], values: vec![-1.5, 0.0, 2.0] };
        let stats = stats_of(&[reals.to_tensor(dtype).unwrap()]);
        assert_eq!((stats.extremes.range(), stats.zeros), (Some((-1.5, 2.0)), 1), "{dtype}");
    }
    let stats = stats_of(&[Tensor::vector(vec![-7i64, 0, 3]), Tensor::vector(vec![200u8])]);
    assert_eq!(stats.extremes.range(), Some((-7.0, 200.0)));
    let words = Tensor::strings(vec![1], vec!["a".into()]).unwrap();
    assert_eq!(stats_of(&[words]).tensors, 0);
}

/// N2D2's histogram: the width is fixed by the first tensor, and bins are appended as the range
/// grows. It shows that such schemes can be built on a [`Statistic`].
#[derive(Default)]
struct Appended {
    lower: f64,
    width: f64,
    range: f64,
    counts: Vec<u64>,
}

impl Statistic for Appended {
    fn see(&mut self, tensor: &Tensor) {
        let mut signed = false;
        blocks(tensor, |_, block| {
            for x in block {
                self.range = self.range.max(x.abs());
                signed |= *x < 0.0;
            }
        });
        if self.counts.is_empty() {
            let reach = self.range.max(0.1);
            self.lower = if signed { -reach } else { 0.0 };
            (self.width, self.counts) = ((reach - self.lower) / 16384.0, vec![0; 16384]);
        }
        let upper = self.lower + self.width * self.counts.len() as f64;
        if self.range > upper {
            let more = ((self.range - upper) / self.width).ceil() as usize;
            self.counts.extend(std::iter::repeat_n(0, more));
            if self.lower < 0.0 {
                self.counts.splice(0..0, std::iter::repeat_n(0, more));
                self.lower -= self.width * more as f64;
            }
        }
        let last = self.counts.len() - 1;
        blocks(tensor, |_, block| {
            for x in block {
                let place = ((x - self.lower) / self.width + 1e-6).max(0.0) as usize;
                self.counts[place.min(last)] += 1;
            }
        });
    }

    fn merge(&mut self, _: &Self) {
        unreachable!("the order of the samples matters to it");
    }
}

#[test]
fn schemes_of_others_can_be_built_on_it() {
    let model = parse_model(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        main (float[4] x) => (float[4] y) { y = Relu (x) }"#,
    )
    .unwrap();
    let sample = |x: f32| -> Feeds {
        BTreeMap::from([("x".to_owned(), Tensor::vector(vec![x, -x, x / 2.0, 0.0]))])
    };
    let mut samples = [1f32, 3.0].into_iter().map(|x| Ok(sample(x)));
    let make = |_: &str| Appended::default();
    let found =
        observe(&Builtin, &model, &mut samples, &WantedValues::All, &make, Limits::default())
            .unwrap();
    let (x, y) = (&found["x"], &found["y"]);
    assert_eq!((x.lower, x.width, x.counts.len()), (-3.0, 2.0 / 16384.0, 3 * 16384));
    assert_eq!((y.lower, y.width, y.counts.len()), (0.0, 1.0 / 16384.0, 3 * 16384));
    assert_eq!(x.counts.iter().sum::<u64>(), 8);
    assert_eq!((y.counts[0], y.counts[8192], y.counts[24576]), (4, 1, 1));
}

#[test]
fn a_value_that_no_run_shows_is_an_error() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        main (float[1] x) => (float[1] y) { y = Relu (x) }"#;
    let model = parse_model(text).unwrap();
    let sample = || Ok(BTreeMap::from([("x".to_owned(), Tensor::vector(vec![1f32]))]));
    let stats = |_: &str| Stats::new(&PARTS);
    let see = |names: &[&str]| {
        let wanted = WantedValues::Names(names.iter().map(|n| (*n).to_owned()).collect());
        let samples = &mut std::iter::once(sample());
        observe(&Builtin, &model, samples, &wanted, &stats, Limits::default())
    };
    let found = see(&["x", "z"]).unwrap_err();
    assert_eq!((found.0.len(), found.0[0].code.as_ref()), (1, "N0507"));
    let found: BTreeSet<String> = see(&["y"]).unwrap().into_keys().collect();
    assert_eq!(found, BTreeSet::from(["y".to_owned()]));
}
