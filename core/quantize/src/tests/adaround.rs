//! Integers of weights that are learned from samples.

use super::{Dice, model, outputs};
use crate::accuracy::Base;
use crate::graph::WeightedNode;
use crate::observe::{Feeds, Limits, StatisticParts};
use crate::plan::{QuantizeRequest, Settings};
use crate::range::method::Method;
use crate::report::Report;
use crate::search::{AdaRoundOptions, Rounding, adaround, correct_biases};
use onnxd_ir::{DataType, Model, Tensor};
use std::collections::BTreeSet;

/// Inputs that go together, so that errors of weights add up or make up for each other.
fn related(dims: &[usize], count: usize, seed: u64) -> Vec<Feeds> {
    let mut dice = Dice(seed);
    let mut one = |_| {
        let rows = dims[..dims.len() - 1].iter().product::<usize>();
        let width = dims[dims.len() - 1];
        let mut values = Vec::new();
        let tint = dice.real();
        for _ in 0..rows {
            let common = tint + 0.3 * dice.real();
            values.extend((0..width).map(|_| common + 0.2 * dice.real()));
        }
        Feeds::from([("x".to_owned(), Tensor::from_vec(dims, values))])
    };
    (0..count).map(&mut one).collect()
}

struct Case {
    float: Model,
    base: Base,
    feeds: Vec<Feeds>,
    nearest: Model,
}

fn case(graph: &str, weight: DataType, per_channel: bool) -> Case {
    let mut float = model(graph, 5);
    float.opsets.insert(String::new(), 21);
    let dims: Vec<usize> = {
        let g = &float.graph;
        let shape = g[g.inputs()[0]].shape().expect("a shape");
        shape.iter().map(|d| d.known().expect("a size") as usize).collect()
    };
    let feeds = related(&dims, 12, 6);
    let settings = Settings { weight, per_channel, ..Settings::default() };
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let mut base = Base::new(float.clone(), &request, &BTreeSet::new());
    let mut given = feeds.iter().cloned().map(Ok);
    base.observe(&mut given, &StatisticParts::default(), Limits::default()).unwrap();
    let (nearest, _) = base.quantize(Method::MinMax);
    Case { float, base, feeds, nearest }
}

impl Case {
    fn learn(&self, corrected: bool, in_time: bool) -> Rounding {
        // The last samples are not seen.
        let samples = || -> Box<dyn Iterator<Item = _> + '_> {
            Box::new(self.feeds[..8].iter().cloned().map(Ok))
        };
        let go_on = |_, _| in_time;
        let limits = Limits::default();
        let together = false;
        let learning =
            AdaRoundOptions { samples: &samples, limits, corrected, together, go_on: &go_on };
        let found = adaround((&self.float, &self.nearest), &self.base.plan.weighted, &learning);
        found.unwrap_or_else(|d| panic!("{d}"))
    }

    fn applied(&self, rounding: &Rounding) -> Model {
        let mut made = self.nearest.clone();
        rounding.apply(&mut made.graph, &mut Report::default());
        made
    }

    fn error(&self, made: &Model) -> f64 {
        let one = |feeds: &Feeds| -> f64 {
            let (a, b) = (outputs(&self.float, feeds), outputs(made, feeds));
            let values = |t: &Tensor| t.to_reals().unwrap().values;
            let both = a.iter().zip(&b).map(|((_, a), (_, b))| (values(a), values(b)));
            both.flat_map(|(a, b)| a.into_iter().zip(b)).map(|(a, b)| (a - b).powi(2)).sum()
        };
        self.feeds[8..].iter().map(one).sum()
    }
}

/// The integers of all weights.
fn integers(model: &Model) -> Vec<(String, Vec<i64>)> {
    let graph = &model.graph;
    let one = |v: onnxd_ir::ValueId| {
        let weights = graph[v].name.ends_with("_quantized");
        let data = graph[v].initializer().filter(|t| weights && t.dtype().bits() <= 8)?;
        Some((graph[v].name.clone(), data.to_i64s()?))
    };
    graph.value_ids().filter_map(one).collect()
}

/// What is left of the error on samples that were not seen, beside that of the nearest integers.
fn left(graph: &str, weight: DataType, per_channel: bool) -> f64 {
    let case = case(graph, weight, per_channel);
    let learned = case.learn(false, true);
    assert!(learned.notes.is_empty(), "{:?}", learned.notes);
    let made = case.applied(&learned);
    let mut moved = 0;
    for ((name, a), (other, b)) in integers(&case.nearest).into_iter().zip(integers(&made)) {
        assert_eq!(name, other);
        assert!(a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= 1), "{name}: {a:?} {b:?}");
        moved += a.iter().zip(&b).filter(|(a, b)| a != b).count();
    }
    assert!(moved > 0, "{graph}: nothing was learned");
    case.error(&made) / case.error(&case.nearest)
}

#[test]
fn related_inputs_halve_the_error() {
    for graph in [
        "g (float[6,3,32] x) => (float[6,3,8] y) <float[32,8] w> { y = MatMul(x, w) }",
        "g (float[16,32] x) => (float[16,8] y) <float[8,32] w, float[8] c>
         { y = Gemm<alpha = 0.5, beta = 2.0, transB = 1>(x, w, c) }",
        "g (float[2,4,9,8] x) => (float[2,6,s,t] y) <float[6,4,3,3] w, float[6] b>
         { y = Conv<strides = [2, 1], pads = [1, 0, 1, 2], dilations = [1, 2]>(x, w, b) }",
        "g (float[2,4,9,8] x) => (float[2,6,s,t] y) <float[6,2,3,2] w>
         { y = Conv<group = 2, auto_pad = \"SAME_LOWER\", strides = [2, 2]>(x, w) }",
        "g (float[2,5,40] x) => (float[2,5,40] y) <float[5,1,6] w>
         { y = Conv<group = 5, auto_pad = \"SAME_UPPER\">(x, w) }",
    ] {
        for per_channel in [true, false] {
            let share = left(graph, DataType::Int4, per_channel);
            assert!(share < 0.5, "{share}: {graph}");
        }
    }
}

#[test]
fn weights_of_8_bits_that_several_read() {
    let graph = "g (float[4,24] x) => (float[4,24] z) <float[24,24] w, float[24] b>
         { a = Gemm(x, w, b) r = Relu(a) y = Gemm(r, w) z = Relu(y) }";
    assert!(left(graph, DataType::Uint8, false) < 0.9);
}

#[test]
fn what_is_learned_is_always_the_same_and_goes_with_corrected_biases() {
    let graph = "g (float[4,32] x) => (float[4,8] z)
        <float[32,16] w, float[16] b, float[16,8] v, float[8] c>
        { a = Gemm(x, w, b) r = Relu(a) z = Gemm(r, v, c) }";
    let case = case(graph, DataType::Int4, true);
    let (one, two) = (case.learn(true, true), case.learn(true, true));
    assert_eq!(integers(&case.applied(&one)), integers(&case.applied(&two)));
    let corrected = |mut made: Model| {
        let weighted: Vec<WeightedNode> =
            case.base.plan.weighted.iter().map(|(p, _)| p.clone()).collect();
        let samples = || -> Box<dyn Iterator<Item = _> + '_> {
            Box::new(case.feeds[..8].iter().cloned().map(Ok))
        };
        correct_biases((&case.float, &mut made), &weighted, &samples, Limits::default()).unwrap();
        case.error(&made)
    };
    let (learned, nearest) = (corrected(case.applied(&one)), corrected(case.nearest.clone()));
    assert!(learned < 0.7 * nearest, "{learned} {nearest}");
}

#[test]
fn who_rounds_to_the_nearest_is_named() {
    let graph = "g (float[4,3,6,6] x) => (float[4,2,8,8] y) <float[3,2,3,3] w>
        { y = ConvTranspose(x, w) }";
    let case = case(graph, DataType::Int8, true);
    let found = case.learn(false, true);
    assert!(found.is_empty());
    let said = found.notes[0].to_string();
    assert!(said.contains("1 layers") && said.contains("no matrix"), "{said}");
    let graph = "g (float[4,8] x) => (float[4,2] y) <float[8,2] w> { y = MatMul(x, w) }";
    let found = self::case(graph, DataType::Int8, true).learn(false, false);
    let said = found.notes[0].to_string();
    assert!(found.is_empty() && said.contains("no time"), "{said}");
}
