//! Biases that take back what rounded weights add on average.

use super::{Dice, model, outputs};
use crate::accuracy::Base;
use crate::observe::{Feeds, Limits, StatisticParts};
use crate::plan::{QuantizeRequest, Settings};
use crate::range::method::Method;
use crate::search::correct_biases_from_means;
use onnxd_ir::{DataType, Model, Tensor};
use std::collections::BTreeSet;

/// Inputs whose channels are far from zero on average, each by its own amount.
fn feeds(dims: &[usize], axis: usize, count: usize) -> Vec<Feeds> {
    let mut dice = Dice(3);
    let means: Vec<f32> = (0..dims[axis]).map(|c| 1.0 + c as f32 * 0.4).collect();
    let inner: usize = dims[axis + 1..].iter().product();
    let mut one = |_| {
        let of = |i: usize| means[i / inner % means.len()] + 0.3 * dice.real();
        let values = (0..dims.iter().product()).map(of).collect();
        Feeds::from([("x".to_owned(), Tensor::from_vec(dims, values))])
    };
    (0..count).map(&mut one).collect()
}

/// How far outputs are off on average over the samples, by channel along `axis`: the sum.
fn drift(float: &Model, made: &Model, feeds: &[Feeds], axis: usize) -> f64 {
    let mut off: Vec<f64> = Vec::new();
    for sample in feeds {
        let value = |m: &Model| outputs(m, sample)[0].1.to_reals().unwrap();
        let (a, b) = (value(float), value(made));
        let inner: usize = a.dims[axis + 1..].iter().product();
        let channels = a.dims[axis];
        off.resize(channels, 0.0);
        for (i, (a, b)) in a.values.iter().zip(&b.values).enumerate() {
            off[i / inner % channels] += b - a;
        }
    }
    off.iter().map(|x| x.abs()).sum()
}

#[test]
fn means_of_outputs_are_those_of_the_float_network() {
    let conv = "g (float[1,4,5,5] x) => (float[1,4,3,3] y) <float[4,W,3,3] w, float[4] b>
                { y = Conv<group = G>(x, w, b) }";
    let kinds = [
        conv.replace('W', "4").replace('G', "1"),
        conv.replace(['W', 'G'], "2"),
        conv.replace('W', "1").replace('G', "4"),
        "g (float[3,6] x) => (float[3,5] y) <float[6,5] w, float[5] b> { y = Gemm(x, w, b) }"
            .into(),
        "g (float[3,6] x) => (float[3,5] y) <float[5,6] w, float[5] b>
         { y = Gemm<alpha = 0.3, transB = 1>(x, w, b) }"
            .into(),
        "g (float[2,3,6] x) => (float[2,3,5] y) <float[6,5] w, float[5] b>
         { m = MatMul(x, w) y = Add(m, b) }"
            .into(),
    ];
    for graph in kinds {
        let mut float = model(&graph, 7);
        float.opsets.insert(String::new(), 21);
        let input = &float.graph[float.graph.inputs()[0]];
        let dims = input.shape().expect("a shape");
        let dims: Vec<usize> = dims.iter().map(|d| d.known().expect("a size") as usize).collect();
        let axis = if dims.len() == 4 { 1 } else { dims.len() - 1 };
        let given = feeds(&dims, axis, 8);
        let made = |per_channel: bool| {
            let settings = Settings { weight: DataType::Int4, per_channel, ..Settings::default() };
            let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
            let mut base = Base::new(float.clone(), &request, &BTreeSet::new());
            let mut samples = given.iter().cloned().map(Ok);
            base.observe(&mut samples, &StatisticParts::default(), Limits::default()).unwrap();
            let (plain, _) = base.quantize(Method::MinMax);
            let mut settled = plain.clone();
            correct_biases_from_means(&base, &mut settled);
            let drift = |m: &Model| drift(&float, m, &given, axis);
            (drift(&plain), drift(&settled))
        };
        for per_channel in [false, true] {
            let (before, after) = made(per_channel);
            let way = format!("{graph}, per channel: {per_channel}");
            assert!(before > 0.0 && after < 0.2 * before, "{way}: {before} {after}");
        }
    }
}
