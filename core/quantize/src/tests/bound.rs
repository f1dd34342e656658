//! Quantized networks stay as near to their float networks as scales imply: half a step for each
//! rounding, carried on through every operator.

use super::net::net;
use super::{Dice, outputs, quantized, samples};
use crate::emit::{fold, quantize_dynamic};
use crate::observe::Feeds;
use crate::plan::{QuantizeRequest, Settings};
use crate::range::Levels;
use crate::report::Form;
use crate::search::quantize_weights;
use crate::session::OwnMemory;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{DataType, Graph, Model, Node, Reals, Tensor, ValueId, infer};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// What a value is in the float network, and how far from it it may be in the quantized one.
#[derive(Clone)]
struct KnownBound {
    ideal: Tensor,
    deviation: Reals,
}

fn reals(t: &Tensor) -> Reals {
    t.to_reals().expect("numbers")
}

fn tensor(r: &Reals) -> Tensor {
    r.to_tensor(DataType::Float).expect("floats")
}

fn magnitudes(t: &Tensor) -> Tensor {
    tensor(&reals(t).map(f64::abs))
}

fn sum(a: &Reals, b: &Reals) -> Reals {
    a.zip(b, |a, b| a + b).expect("alike")
}

/// What a node makes of other inputs.
fn run(node: &Node, inputs: &[Option<Tensor>]) -> Vec<Reals> {
    let mut graph = Graph::new("one");
    let mut one = node.clone();
    let name = |i: usize| format!("i{i}");
    let given = inputs.iter().enumerate();
    one.inputs = given.map(|(i, t)| Some(graph.add_initializer(&name(i), t.clone()?))).collect();
    one.outputs =
        (0..node.outputs.len()).map(|i| Some(graph.add_value(&format!("o{i}"), None))).collect();
    let outputs = one.outputs.iter().flatten().copied().collect();
    graph.add_node(one);
    graph.set_outputs(outputs);
    let model = Model::new(graph, 10, 21);
    let found = Executor::new(&model).and_then(|e| e.run(&Feeds::new(), RunOptions::default()));
    found.unwrap_or_else(|d| panic!("{d}")).iter().map(|(_, t)| reals(t)).collect()
}

/// How far the results of a node may be off.
fn carried(node: &Node, inputs: &[Option<KnownBound>]) -> Vec<Reals> {
    let known = |i: usize| inputs[i].as_ref().expect("an input");
    let off = |i: usize| Some(tensor(&known(i).deviation));
    let size = |i: usize| Some(magnitudes(&known(i).ideal));
    let rest = || inputs[1..].iter().map(|k| k.as_ref().map(|k| k.ideal.clone()));
    let products = |more: Vec<Option<Tensor>>| {
        let first = run(node, &[vec![off(0), size(1)], more].concat()).remove(0);
        let others = [[size(0), off(1)], [off(0), off(1)]];
        others.iter().fold(first, |all, pair| sum(&all, &run(node, pair).remove(0)))
    };
    match node.op.as_str() {
        "Conv" | "Gemm" | "MatMul" => {
            vec![products(inputs.get(2).map(|_| off(2)).into_iter().collect())]
        }
        "Mul" => vec![products(vec![])],
        "Add" | "Concat" => run(node, &(0..inputs.len()).map(off).collect::<Vec<_>>()),
        // None of them moves two numbers apart.
        "Relu" | "Clip" | "LeakyRelu" => vec![known(0).deviation.clone()],
        "Sigmoid" => vec![known(0).deviation.map(|d| d * 0.25)],
        "Softmax" => vec![rows(known(0), softmax)],
        "LayerNormalization" => {
            let gain = reals(&known(1).ideal);
            let off = rows(known(0), normalized);
            vec![off.zip(&gain, |d, g| d * g.abs()).expect("a gain for each")]
        }
        // Means of deviations, and deviations that are moved; what is filled in is exact.
        _ => {
            let all: Vec<Option<Tensor>> = [off(0)].into_iter().chain(rest()).collect();
            run(node, &all)
        }
    }
}

/// Applies a rule to the rows of the last axis.
fn rows(x: &KnownBound, rule: fn(&[f64], f64) -> Vec<f64>) -> Reals {
    let (ideal, off) = (reals(&x.ideal), &x.deviation);
    let n = *ideal.dims.last().expect("an axis");
    let pairs = ideal.values.chunks(n).zip(off.values.chunks(n));
    let made = pairs.flat_map(|(x, d)| rule(x, d.iter().fold(0.0, |m, d| d.max(m))));
    Reals { dims: ideal.dims.clone(), values: made.collect() }
}

/// Exponentials change by a factor, and their sum too.
fn softmax(x: &[f64], d: f64) -> Vec<f64> {
    let largest = x.iter().fold(f64::MIN, |m, x| x.max(m));
    let total: f64 = x.iter().map(|x| (x - largest).exp()).sum();
    x.iter().map(|x| ((x - largest).exp() / total * ((2.0 * d).exp() - 1.0)).min(1.0)).collect()
}

/// Neither the mean nor the deviation from it changes by more than `d`.
fn normalized(x: &[f64], d: f64) -> Vec<f64> {
    const EPSILON: f64 = 1e-5;
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    let spread = (x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n + EPSILON).sqrt();
    let least = (spread - d).max(EPSILON.sqrt());
    x.iter().map(|x| (2.0 * d + (x - mean).abs() / spread * d) / least).collect()
}

/// All values of a model by name.
fn all_values(model: &Model, feeds: &Feeds) -> BTreeMap<String, Tensor> {
    let mut seen: BTreeMap<String, Tensor> = feeds.clone();
    let graph = &model.graph;
    let constants = graph.value_ids().filter_map(|v| Some((v, graph.constant(v)?)));
    seen.extend(constants.map(|(v, t)| (graph[v].name.clone(), t.clone())));
    let mut see = |name: &str, t: &Tensor| drop(seen.insert(name.to_owned(), t.clone()));
    let options = RunOptions { observer: Some(&mut see), ..RunOptions::default() };
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    executor.run(feeds, options).unwrap_or_else(|d| panic!("{d}"));
    seen
}

/// Walks through a quantized network.
struct BoundWalk<'m> {
    graph: &'m Graph,
    ideals: BTreeMap<String, Tensor>,
    known: BTreeMap<ValueId, KnownBound>,
    /// Steps by which a result may be off besides half of one.
    more: f64,
    /// Weights are rounded to the nearest.
    nearest: bool,
}

impl BoundWalk<'_> {
    fn ideal(&self, name: &str) -> Option<Tensor> {
        self.ideals.get(name).cloned()
    }

    /// What is known of a value; of constants and inputs that they are what they were.
    fn known_of(&self, v: ValueId) -> KnownBound {
        if let Some(known) = self.known.get(&v) {
            return known.clone();
        }
        let name = &self.graph[v].name;
        let ideal = self.graph.constant(v).cloned().or_else(|| self.ideal(name));
        let ideal = ideal.unwrap_or_else(|| panic!("{name} is not known"));
        let deviation = Reals::full(ideal.dims(), 0.0);
        KnownBound { ideal, deviation }
    }

    fn node(&mut self, node: &Node) {
        let out = node.output(0).expect("an output");
        match node.op.as_str() {
            "QuantizeLinear" => {
                let known = self.known.get(&node.input(0).unwrap()).cloned();
                let known = known.unwrap_or_else(|| self.known_of(node.input(0).unwrap()));
                self.known.insert(out, known);
            }
            "DequantizeLinear" if self.graph.constant(node.input(0).unwrap()).is_some() => {
                self.constant(node, out);
            }
            "DequantizeLinear" => self.rounded(node, out),
            _ => {
                let inputs: Vec<Option<KnownBound>> =
                    node.inputs.iter().map(|v| v.map(|v| self.known_of(v))).collect();
                let off = carried(node, &inputs);
                for (v, deviation) in node.outputs.iter().flatten().zip(off) {
                    let name = &self.graph[*v].name;
                    // What only rounding reads need not be known in itself.
                    let ideal = self.ideal(name).unwrap_or_else(|| tensor(&deviation));
                    self.known.insert(*v, KnownBound { ideal, deviation });
                }
            }
        }
    }

    /// Weights and biases: what they stand for can be seen.
    fn constant(&mut self, node: &Node, out: ValueId) {
        let name = self.graph[out].name.clone();
        // Weights that several read may be there several times, with a number behind the name.
        let ideal = self.ideal(name.split("_dequantized").next().expect("a name"));
        let ideal = ideal.unwrap_or_else(|| panic!("{name} was no constant"));
        let inputs: Vec<Option<Tensor>> =
            (node.inputs.iter()).map(|v| self.graph.constant((*v)?).cloned()).collect();
        let made = run(node, &inputs).remove(0);
        let off = made.zip(&reals(&ideal), |a, b| (a - b).abs()).expect("alike");
        if self.nearest {
            let whole = |t: &Tensor| Tensor::from_vec(t.dims(), vec![1i8; t.len()]);
            let q = inputs[0].as_ref().unwrap();
            let ones = run(node, &[Some(whole(q)), inputs[1].clone(), None]).remove(0);
            for ((off, step), w) in off.values.iter().zip(&ones.values).zip(&made.values) {
                // Half a step, and half a one by which a rounded zero point moves the ends.
                assert!(*off <= 1.01 * step + 1e-6 * w.abs(), "{name}: {off} {step}");
            }
        }
        self.known.insert(out, KnownBound { ideal, deviation: off });
    }

    /// Half a step within the range, and what lies outside of it by rounded ends.
    fn rounded(&mut self, node: &Node, out: ValueId) {
        let constant = |slot: usize| {
            let v = node.input(slot).expect("a parameter");
            self.graph.constant(v).expect("a constant").clone()
        };
        let (scale, zero) = (reals(&constant(1)).values[0], constant(2));
        let levels = Levels::of(zero.dtype()).expect("integers");
        let zero = zero.to_i64s().unwrap()[0];
        let end = |q: i64| (q - zero) as f64 * scale;
        let before = &self.known[&node.input(0).unwrap()];
        let ideal = self.ideal(&self.graph[out].name).unwrap_or_else(|| before.ideal.clone());
        // A clamp may have come before what moved its input: then it is clamped here.
        let (low, high) = (end(levels.min), end(levels.max));
        let clamped =
            reals(&ideal).map(|x| match (x - high).max(low - x) <= 0.501 * scale + 1e-6 {
                true => x,
                false => x.clamp(low, high),
            });
        let beyond = clamped.map(|x| (x - high).max(low - x).max(0.0));
        let off = sum(&before.deviation, &beyond).map(|d| d + (0.5 + self.more) * scale);
        self.known.insert(out, KnownBound { ideal: tensor(&clamped), deviation: off });
    }
}

/// Demands of all outputs that `made`, which computes what `pairs` says, is as near as it should.
fn near(float: &Model, pairs: &Model, made: &Model, samples: &[Feeds], more: f64, nearest: bool) {
    for feeds in samples {
        let mut walk = BoundWalk {
            graph: &pairs.graph,
            ideals: all_values(float, feeds),
            known: BTreeMap::new(),
            more,
            nearest,
        };
        for id in pairs.graph.topological().expect("no cycle") {
            walk.node(&pairs.graph[id]);
        }
        for (name, found) in outputs(made, feeds) {
            let v = pairs.graph.value_named(&name).expect("the same outputs");
            let KnownBound { ideal, deviation } = walk.known_of(v);
            let (ideal, found) = (reals(&ideal), reals(&found));
            let largest = ideal.values.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
            let all = ideal.values.iter().zip(&found.values).zip(&deviation.values);
            for ((x, y), most) in all {
                let slack = 1e-3 * most + 1e-5 * largest + 1e-6;
                assert!((x - y).abs() <= most + slack, "{name}: {y} for {x}, at most {most} off");
            }
        }
    }
}

fn requests() -> impl Strategy<Value = QuantizeRequest> {
    use DataType::{Int4, Int8, Int16, Uint4, Uint8, Uint16};
    let activation = prop::sample::select(vec![Uint8, Uint8, Int8, Uint16, Int16]);
    let weight = prop::sample::select(vec![Int8, Int8, Uint8, Int4, Uint4, Int16]);
    (activation, weight, any::<[bool; 5]>()).prop_map(|(activation, weight, on)| {
        let [per_channel, symmetric, reduce_range, linear_outputs, weighted_only] = on;
        let settings = Settings {
            activation,
            weight,
            per_channel,
            symmetric,
            reduce_range,
            ..Settings::default()
        };
        QuantizeRequest { settings, linear_outputs, weighted_only, ..QuantizeRequest::default() }
    })
}

fn newest(mut model: Model) -> Model {
    model.opsets.insert(String::new(), 21);
    model.ir_version = 10;
    model
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn pairs_and_operators_on_integers_stay_within_the_bound(
        request in requests(), seed: u64, steps in 1usize..9,
    ) {
        let float = newest(net(seed, steps));
        let given = samples(&float, 3, seed ^ 1);
        let (pairs, _) = quantized(&float, &request, &given);
        let nearest = request.settings.weight.bits() >= 8;
        near(&float, &pairs, &pairs, &given, 0.0, nearest);
        let mut folded = pairs.clone();
        let _ = fold(&mut folded);
        prop_assert!(infer(&mut folded).0.is_empty());
        // A result that lies between two integers may become either.
        near(&float, &pairs, &folded, &given, 1.0, nearest);
    }

    #[test]
    fn weights_alone_stay_within_the_bound(
        weight in prop::sample::select(vec![
            DataType::Int8, DataType::Uint8, DataType::Int4, DataType::Uint4,
        ]),
        seed: u64, steps in 1usize..9, block_size in 1usize..20, symmetric: bool,
    ) {
        let float = newest(net(seed, steps));
        let given = samples(&float, 2, seed ^ 1);
        let settings = Settings { weight, block_size, symmetric, ..Settings::default() };
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        let mut made = float.clone();
        quantize_weights(&mut made, &request, Form::Qdq, None, &OwnMemory).unwrap();
        prop_assert!(infer(&mut made).0.is_empty());
        near(&float, &made, &made, &given, 0.0, false);
    }

    /// One product: the input is off by a step (half of it, and half of what a rounded zero point
    /// moves the ends by), each weight by that of its channel.
    #[test]
    fn ranges_at_run_time_stay_within_the_bound(
        seed: u64, steps in 1usize..9, per_channel: bool, symmetric: bool, own: bool,
        weight in prop::sample::select(vec![DataType::Int8, DataType::Uint8]),
    ) {
        let float = net(seed, steps);
        let settings = Settings { weight, per_channel, symmetric, ..Settings::default() };
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        let form = if own { Form::QLinear } else { Form::Qdq };
        let mut dice = Dice(seed);
        for (_, node) in float.graph.nodes() {
            let constants = node.inputs[1..].iter().flatten();
            let constant = |v: &ValueId| float.graph.constant(*v).cloned();
            let given: Vec<Tensor> = constants.filter_map(constant).collect();
            if !matches!(node.op.as_str(), "Conv" | "Gemm" | "MatMul") || given.is_empty() {
                continue;
            }
            let ty = float.graph[node.input(0).unwrap()].ty.as_ref().unwrap();
            let dims = ty.dims().unwrap();
            let dims: Vec<usize> = dims.iter().map(|d| *d as usize).collect();
            one_product(node, dice.tensor(&dims), &given, (&request, form));
        }
    }
}

fn one_product(
    node: &Node,
    x: Tensor,
    given: &[Tensor],
    (request, form): (&QuantizeRequest, Form),
) {
    let mut graph = Graph::new("one");
    let mut one = node.clone();
    let ty = onnxd_ir::ValueType::tensor(DataType::Float, x.dims().iter().map(|d| *d as i64));
    let first = graph.add_input("x", Some(ty));
    let rest = given.iter().enumerate();
    let rest = rest.map(|(i, t)| Some(graph.add_initializer(&format!("w{i}"), t.clone())));
    one.inputs = [Some(first)].into_iter().chain(rest).collect();
    let y = graph.add_value("y", None);
    one.outputs = vec![Some(y)];
    graph.add_node(one.clone());
    graph.set_outputs(vec![y]);
    let mut float = Model::new(graph, 8, 17);
    assert!(infer(&mut float).0.is_empty());
    let mut made = float.clone();
    let done = quantize_dynamic(&mut made, request, form).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(done.layers.len(), 1);
    assert!(infer(&mut made).0.is_empty());

    let ends = |t: &Tensor| {
        let all = reals(t).values;
        (all.iter().fold(0.0, |m: f64, x| m.min(*x)), all.iter().fold(0.0, |m: f64, x| m.max(*x)))
    };
    let ((low, high), (least, most)) = (ends(&x), ends(&given[0]));
    let step = (high - low) / 255.0;
    // Not less than the step of any channel, on both sides of zero.
    let of_weights = 2.0 * most.max(-least) / 254.0;
    let known = |t: &Tensor, off: f64| {
        Some(KnownBound { ideal: t.clone(), deviation: Reals::full(t.dims(), off) })
    };
    let mut inputs = vec![known(&x, step), known(&given[0], of_weights)];
    inputs.extend(given[1..].iter().map(|t| known(t, 0.0)));
    let bound = carried(&one, &inputs).remove(0);
    let feeds = Feeds::from([("x".to_owned(), x)]);
    let of = |m: &Model| reals(&outputs(m, &feeds).remove(0).1).values;
    for ((a, b), most) in of(&float).iter().zip(of(&made)).zip(bound.values) {
        assert!((a - b).abs() <= most * 1.001 + 1e-6, "{b} for {a}, at most {most} off");
    }
}
