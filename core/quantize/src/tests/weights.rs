//! Weights and biases of weighted operators: one scale for each output channel, found from it alone, and sums
//! that fit 32 bits.

use super::{Dice, difference, model, outputs, quantized, samples};
use crate::emit::fold;
use crate::observe::Feeds;
use crate::plan::{QuantizeRequest, Settings};
use onnxd_ir::{Attr, DataType, Model, Tensor, infer};
use proptest::prelude::*;

/// A weighted operator, and where its output channels are: size and axis of the weights. Without an axis all
/// share a scale.
const WEIGHTED_OPS: [(&str, Option<usize>); 9] = [
    ("(float[1,3,5,5] x) => (float[1,4,3,3] y) <float[4,3,3,3] w> { y = Conv(x, w) }", Some(0)),
    (
        "(float[1,4,5] x) => (float[1,6,4] y) <float[6,2,2] w> { y = Conv<group = 2>(x, w) }",
        Some(0),
    ),
    (
        "(float[1,3,4,4] x) => (float[1,4,5,5] y) <float[3,4,2,2] w> { y = ConvTranspose(x, w) }",
        Some(1),
    ),
    (
        "(float[1,4,4] x) => (float[1,6,5] y) <float[4,3,2] w>
         { y = ConvTranspose<group = 2>(x, w) }",
        None,
    ),
    ("(float[2,6] x) => (float[2,4] y) <float[6,4] w> { y = Gemm(x, w) }", Some(1)),
    ("(float[2,6] x) => (float[2,4] y) <float[4,6] w> { y = Gemm<transB = 1>(x, w) }", Some(0)),
    ("(float[6,2] x) => (float[2,4] y) <float[6,4] w> { y = Gemm<transA = 1>(x, w) }", Some(1)),
    ("(float[1,2,6] x) => (float[1,2,4] y) <float[6,4] w> { y = MatMul(x, w) }", Some(1)),
    ("(float[3,2,6] x) => (float[3,2,4] y) <float[3,6,4] w> { y = MatMul(x, w) }", None),
];

fn constant<'m>(model: &'m Model, name: &str) -> Option<&'m Tensor> {
    model.graph.constant(model.graph.value_named(name)?)
}

fn values(model: &Model, name: &str) -> Vec<f64> {
    constant(model, name).unwrap_or_else(|| panic!("{name}")).to_reals().unwrap().values
}

/// The index along `axis` of element `i`.
fn channel(dims: &[usize], axis: Option<usize>, mut i: usize) -> usize {
    let mut index = vec![0; dims.len()];
    for (at, d) in dims.iter().enumerate().rev() {
        (index[at], i) = (i % d, i / d);
    }
    axis.map_or(0, |axis| index[axis])
}

/// With one scale for each output channel, whatever the others are.
fn each_alone(graph: &str, axis: Option<usize>, settings: Settings, seed: u64) {
    let mut float = model(&format!("g {graph}"), seed);
    let w = float.graph.value_named("w").unwrap();
    let dims = float.graph.constant(w).unwrap().dims().to_vec();
    let mut dice = Dice(seed + 1);
    let sizes: Vec<f32> = (0..8).map(|_| 10f32.powf(3.0 * dice.real())).collect();
    let weights: Vec<f32> = (0..dims.iter().product())
        .map(|i| (dice.real() + 0.3) * sizes[channel(&dims, axis, i)])
        .collect();
    float.graph.set_initializer(w, Some(Tensor::from_vec(dims.clone(), weights.clone())));
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let (made, _) = quantized(&float, &request, &samples(&float, 2, seed));

    let axis = axis.filter(|_| settings.per_channel);
    let node = made.graph.producer(made.graph.value_named("w_dequantized").unwrap()).unwrap();
    let said = match made.graph[node].attr("axis") {
        Some(Attr::Int(axis)) => *axis,
        _ => 1,
    };
    let scales = values(&made, "w_scale");
    assert_eq!(scales.len(), axis.map_or(1, |axis| dims[axis]), "{graph}");
    assert!(axis.is_none_or(|axis| said == axis as i64), "{graph} says {said}");
    let zeros = values(&made, "w_zero_point");
    let integers = values(&made, "w_quantized");
    let symmetric = settings.symmetric || settings.weight == DataType::Int8;
    for (c, scale) in scales.iter().enumerate() {
        let own = || (0..weights.len()).filter(|i| channel(&dims, axis, *i) == c);
        let reals = || own().map(|i| f64::from(weights[i]));
        let (low, high) = (reals().fold(0.0, f64::min), reals().fold(0.0, f64::max));
        // As many integers on both sides of zero leave one of 256 out.
        let steps = match (settings.reduce_range, settings.weight, symmetric) {
            (false, _, true) => 254.0,
            (true, DataType::Int8, _) => 128.0,
            (true, _, true) => 126.0,
            (false, ..) => 255.0,
            (true, ..) => 127.0,
        };
        let span = if symmetric { 2.0 * high.max(-low) } else { high - low };
        assert!((scale / (span / steps) - 1.0).abs() < 1e-6, "{graph} channel {c}");
        for (i, w) in own().zip(reals()) {
            let error = (integers[i] - zeros[c]) * scale - w;
            // A zero point between two integers is rounded.
            let most = if symmetric { 0.51 } else { 1.01 };
            assert!(error.abs() <= most * scale, "{graph}: {w} is off by {error} of {scale}");
        }
    }
}

fn settings() -> impl Strategy<Value = Settings> {
    let weight = prop::sample::select(vec![DataType::Int8, DataType::Uint8]);
    (weight, any::<[bool; 3]>()).prop_map(|(weight, [per_channel, symmetric, reduce_range])| {
        Settings { weight, per_channel, symmetric, reduce_range, ..Settings::default() }
    })
}

/// Layers of 64 inputs and 3 outputs.
const SUMS: [&str; 3] = [
    "(float[2,64] x) => (float[2,3] y) <float[3,64] w, float[3] b>
     { y = Gemm<transB = 1>(x, w, b) }",
    "(float[2,64] x) => (float[2,3] y) <float[64,3] w, float[3] b> { y = Gemm(x, w, b) }",
    "(float[1,16,2,2] x) => (float[1,3,1,1] y) <float[3,16,2,2] w, float[3] b>
     { y = Conv(x, w, b) }",
];

/// Weights and biases of very different sizes, positive inputs and often equal signs: sums as large
/// as they get.
fn extreme(graph: &str, seed: u64) -> (Model, Vec<Feeds>) {
    let mut float = model(&format!("g {graph}"), seed);
    let mut dice = Dice(seed);
    let columns = graph.contains("[64,3]");
    let mut sizes = |few: i32, many: i32| -> Vec<f32> {
        let one = |dice: &mut Dice| match dice.next() % 6 {
            0 => 0.0,
            _ => 10f32.powi(few) * 10f32.powf((many - few) as f32 * (dice.real() + 1.0) / 2.0),
        };
        (0..3).map(|_| one(&mut dice)).collect()
    };
    let (of_weights, biases) = (sizes(-12, 2), sizes(-5, 5));
    let mut dice = Dice(seed + 1);
    let equal = dice.next().is_multiple_of(2);
    let weight = |(i, dice): (usize, &mut Dice)| {
        let size = of_weights[if columns { i % 3 } else { i / 64 }];
        if equal { size } else { size * dice.real() }
    };
    let weights: Vec<f32> = (0..192).map(|i| weight((i, &mut dice))).collect();
    for (name, data) in [("w", weights), ("b", biases)] {
        let v = float.graph.value_named(name).unwrap();
        let dims = float.graph.constant(v).unwrap().dims().to_vec();
        float.graph.set_initializer(v, Some(Tensor::from_vec(dims, data)));
    }
    let positive = |feeds: Feeds| -> Feeds {
        let up = |x: &Tensor| x.to_reals().unwrap().map(|x| x.abs() * 0.2 + 2.0);
        let up = |x: Tensor| up(&x).to_tensor(DataType::Float).unwrap();
        feeds.into_iter().map(|(name, x)| (name, up(x))).collect()
    };
    let feeds = samples(&float, 3, seed).into_iter().map(positive).collect();
    (float, feeds)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_channel_has_the_scale_of_its_own_weights(
        at in 0..WEIGHTED_OPS.len(), settings in settings(), seed in 0u64..1000,
    ) {
        let (graph, axis) = WEIGHTED_OPS[at];
        each_alone(graph, axis, settings, seed);
    }

    /// Biases are right to half a step, or to a millionth where no weights say how large steps are;
    /// no sum of products of bytes and a bias passes 32 bits; so both forms give the same.
    #[test]
    fn biases_and_sums_fit(
        at in 0..SUMS.len(), settings in settings(), seed in any::<u64>(),
    ) {
        let (float, feeds) = extreme(SUMS[at], seed);
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        let (made, _) = quantized(&float, &request, &feeds);
        let (w, b) = (constant(&made, "w_quantized").unwrap(), values(&made, "b_quantized"));
        let steps = values(&made, "b_scale");
        let zeros = values(&made, "w_zero_point");
        let biases = values(&float, "b");
        let x_scale = values(&made, "x_scale")[0];
        let w_scales = values(&made, "w_scale");
        let columns = w.dims() == [64, 3];
        let mut sums = [0f64; 3];
        for (i, q) in w.to_reals().unwrap().values.into_iter().enumerate() {
            let c = if columns { i % 3 } else { i / 64 };
            sums[c] += (q - zeros[c.min(zeros.len() - 1)]).abs();
        }
        for c in 0..3 {
            let step = steps[c.min(steps.len() - 1)];
            let product = x_scale * w_scales[c.min(w_scales.len() - 1)];
            prop_assert!((step / product - 1.0).abs() < 1e-6);
            let largest = b[c].abs() + 255.0 * sums[c];
            prop_assert!(largest <= f64::from(i32::MAX), "{} {}", b[c], sums[c]);
            let error = (b[c] * step - biases[c]).abs();
            let dead = settings.per_channel && sums[c] == 0.0;
            let most = if dead { 1e-6 * biases[c] } else { 0.5001 * step + 1e-6 * biases[c] };
            prop_assert!(error <= most, "{} is off by {}, a step is {}", biases[c], error, step);
        }
        let mut folded = made.clone();
        let _ = fold(&mut folded);
        prop_assert!(infer(&mut folded).0.is_empty());
        prop_assert!(folded.graph.nodes().any(|(_, n)| n.op.starts_with('Q') && n.op.len() < 12));
        let (worst, largest) = difference(&made, &folded, &feeds);
        let y = outputs(&float, &feeds[0]).remove(0).1.to_reals().unwrap().values;
        let rounded = constant(&made, "y_scale").map_or(0.0, |_| values(&made, "y_scale")[0]);
        prop_assert!(worst <= 1e-5 * largest + 1.01 * rounded, "{} of {} {:?}", worst, largest, y);
    }
}
