//! Networks with learned integers: the integer graph against the graph with the quantizers.

use super::*;
use crate::graph::{Casting, IntegerModel, write};
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{DataType, Tensor, ValueType, infer, text, verify};
use std::collections::BTreeMap;

/// A convolution with a normalization behind it, a pool, a depthwise convolution, a sum, and a fully
/// connected layer with real results.
const NET: &str = "
net (float[1,2,8,8] env) => (float[1,5] y)
<int8[6,2,3,3] w1, float w1_s, int8 zs, float[6] b1, float[6] g, float[6] b, float[6] m, float[6] v,
 float a1, uint8 zu, float lo, float hi1, int32[6,1,3,3] w2, float w2_s, float a2, int8[6,6,1,1] w3,
 float w3_s, float[6] b3, float a3, float a4, int8[5,96] w4, float w4_s, float[5] b4>
{
  w1r = DequantizeLinear(w1, w1_s, zs)
  c1 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(env, w1r, b1)
  n1 = BatchNormalization(c1, g, b, m, v)
  r1 = Relu(n1)
  k1 = Clip(r1, lo, hi1)
  q1 = QuantizeLinear(k1, a1, zu)
  x1 = DequantizeLinear(q1, a1, zu)
  p1 = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x1)
  w2r = DequantizeLinear(w2, w2_s)
  c2 = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1], group = 6>(p1, w2r)
  q2 = QuantizeLinear(c2, a2, zu)
  x2 = DequantizeLinear(q2, a2, zu)
  w3r = DequantizeLinear(w3, w3_s, zs)
  c3 = Conv<kernel_shape = [1, 1]>(x2, w3r, b3)
  q3 = QuantizeLinear(c3, a3, zu)
  x3 = DequantizeLinear(q3, a3, zu)
  s = Add(x3, x2)
  q4 = QuantizeLinear(s, a4, zu)
  x4 = DequantizeLinear(q4, a4, zu)
  f = Flatten(x4)
  w4r = DequantizeLinear(w4, w4_s, zs)
  y = Gemm<transB = 1>(f, w4r, b4)
}";

struct Dice(u64);

impl Dice {
    /// Within -1 to 1.
    fn real(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (self.0 >> 32) as f64 / f64::from(u32::MAX) * 2.0 - 1.0
    }
}

/// The network with integers of `range + 1` levels; its normalization turns one sign and fades one
/// output out.
fn model(dice: &mut Dice, range: u32) -> Model {
    let mut graph = text::parse_graph(NET).unwrap_or_else(|d| panic!("{d}"));
    let mut set = |name: &str, data: Tensor| {
        let id = graph.value_named(name).expect("the text has it");
        graph.set_initializer(id, Some(data));
    };
    let reals =
        |dice: &mut Dice, n: usize| -> Vec<f32> { (0..n).map(|_| dice.real() as f32).collect() };
    let half = f64::from(range.div_ceil(2));
    let ints = |dice: &mut Dice, n: usize| -> Vec<i8> {
        (0..n).map(|_| (dice.real() * half).round().clamp(-half, half - 1.0) as i8).collect()
    };
    for (name, dims, n) in
        [("w1", vec![6, 2, 3, 3], 108), ("w3", vec![6, 6, 1, 1], 36), ("w4", vec![5, 96], 480)]
    {
        set(name, Tensor::from_vec(dims, ints(dice, n)));
    }
    // Weights of the default mode of SAT: odd, and of nine bits.
    let odd = |_| (dice.real() * 127.4).floor() as i32 * 2 + 1;
    let w2: Vec<i32> = (0..54).map(odd).collect();
    set("w2", Tensor::from_vec(vec![6, 1, 3, 3], w2));
    set("g", Tensor::vector(vec![0.5_f32, -0.4, 1e-7, 0.3, 0.8, 0.2]));
    set("v", Tensor::vector(vec![0.3_f32, 0.2, 1.0, 0.1, 0.5, 0.4]));
    for name in ["b1", "b", "m", "b3"] {
        set(name, Tensor::vector(reals(dice, 6)));
    }
    set("b4", Tensor::vector(reals(dice, 5)));
    let step = |most: f64| (most / f64::from(range)) as f32;
    for (name, value) in [
        ("w1_s", 1.0 / half as f32),
        ("w2_s", 1.0 / 255.0),
        ("w3_s", 0.5 / half as f32),
        ("w4_s", 0.1 / half as f32),
        ("a1", step(1.7)),
        ("a2", 3.1 / 255.0),
        ("a3", 2.3 / 255.0),
        ("a4", 4.1 / 255.0),
        ("lo", 0.0),
        ("hi1", step(1.7) * range as f32),
    ] {
        set(name, Tensor::scalar(value));
    }
    set("zs", Tensor::scalar(0_i8));
    set("zu", Tensor::scalar(0_u8));
    let mut model = Model::new(graph, 8, 17);
    let found = infer(&mut model);
    assert!(found.0.is_empty(), "{found}");
    model
}

fn run(model: &Model, env: Tensor) -> BTreeMap<String, Vec<f64>> {
    run_on(model, &BTreeMap::from([("env".to_owned(), env)]))
}

fn options(rescaling: Rescaling) -> PlanOptions {
    PlanOptions { inputs: Some((0.0, 1.0)), rescaling, ..PlanOptions::default() }
}

fn integers(
    model: &Model,
    options: &PlanOptions,
    casting: Casting,
) -> (CellNetwork, IntegerPlan, IntegerModel) {
    let none = || -> onnxd_quantize::session::Batches<'_> { Box::new(std::iter::empty()) };
    let (network, plan) =
        crate::plan(model, crate::Data::same(&none), options).unwrap_or_else(|d| panic!("{d}"));
    let mut written = write(&network, &plan, casting).unwrap_or_else(|d| panic!("{d}"));
    let found = infer(&mut written.model);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(&written.model));
    let found = verify::verify(&written.model, verify::VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(&written.model));
    (network, plan, written)
}

const TENSORS: [&str; 4] = ["x1", "x2", "x3", "x4"];

/// What each layer of the network with quantizers makes of given inputs: the results of the layers
/// before are inputs, and those of all quantizers are outputs.
fn layers_alone(model: &Model) -> Model {
    let mut model = model.clone();
    let graph = &mut model.graph;
    for (x, q) in TENSORS.iter().zip(["q1", "q2", "q3", "q4"]) {
        let [x, q] = [x, q].map(|name| graph.value_named(name).unwrap());
        let dequantize = graph.producer(x).unwrap();
        graph.remove_node(dequantize);
        graph.mark_input(x);
        graph.mark_output(q);
    }
    model
}

fn run_on(model: &Model, feeds: &BTreeMap<String, Tensor>) -> BTreeMap<String, Vec<f64>> {
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    let outputs = executor.run(feeds, RunOptions::default()).unwrap_or_else(|d| panic!("{d}"));
    outputs.iter().map(|(name, t)| (name.clone(), t.to_reals().unwrap().values)).collect()
}

/// The outputs of the integer graph, and those of the float layers on the same inputs.
fn both(model: &Model, mode: Rescaling, image: &[u8]) -> [BTreeMap<String, Vec<f64>>; 2] {
    let mut seen = model.clone();
    for name in TENSORS {
        let v = seen.graph.value_named(name).unwrap();
        seen.graph.mark_output(v);
    }
    let (network, plan, written) = integers(&seen, &options(mode), Casting::Explicit);
    let dims = vec![1, 2, 8, 8];
    let got = run(&written.model, Tensor::from_vec(dims.clone(), image.to_vec()));
    let floats = image.iter().map(|q| f32::from(*q) / 255.0).collect();
    let mut feeds = BTreeMap::from([("env".to_owned(), Tensor::from_vec(dims, floats))]);
    let graph = &network.model.graph;
    for name in TENSORS {
        let at = network.cells.iter().position(|c| graph[c.output].name == name).unwrap();
        let output = plan.cells[at].output.unwrap();
        assert!(!output.signed);
        let dims = graph[network.cells[at].output].ty.as_ref().unwrap().shape().unwrap();
        let dims: Vec<usize> = dims.iter().map(|d| d.known().unwrap() as usize).collect();
        let reals = got[name].iter().map(|q| (q * output.scale) as f32).collect();
        feeds.insert(name.to_owned(), Tensor::from_vec(dims, reals));
    }
    [got, run_on(&layers_alone(model), &feeds)]
}

#[test]
fn every_layer_is_the_learned_one_up_to_a_step() {
    use Rescaling::*;
    for seed in 0..12 {
        let range = [255, 15, 3][seed as usize % 3];
        let dice = &mut Dice(seed);
        let model = model(dice, range);
        let image: Vec<u8> = (0..128).map(|_| (dice.real() * 127.5 + 127.5) as u8).collect();
        for mode in [FloatingPoint, FixedPoint32, SingleShift] {
            let [got, want] = both(&model, mode, &image);
            for (x, q) in TENSORS.iter().zip(["q1", "q2", "q3", "q4"]) {
                let off = got[*x].iter().zip(&want[q]).map(|(a, b)| (a - b).abs());
                let off: Vec<f64> = off.collect();
                let exact = off.iter().filter(|d| **d == 0.0).count();
                assert!(off.iter().all(|d| *d <= 1.0), "{x}, {seed} {mode:?}: {off:?}");
                assert!(exact * 100 >= off.len() * 97, "{x}, {seed}: {exact} of {}", off.len());
            }
            let near = got["y"].iter().zip(&want["y"]).all(|(a, b)| (a - b).abs() < 1e-3);
            assert!(near, "{seed} {mode:?}: {:?}, expected {:?}", got["y"], want["y"]);
        }
    }
}

/// With more levels for the same weights and ranges, the network comes near the one without.
#[test]
fn more_levels_are_nearer() {
    let image: Vec<u8> = (0..128_u8).map(|i| i.wrapping_mul(91)).collect();
    let mut last = f64::INFINITY;
    for range in [3, 15, 255] {
        let mut worst: f64 = 0.0;
        for seed in 0..4 {
            // What the coarse integers round: those of the finest.
            let fine = model(&mut Dice(seed), 255);
            let coarse = coarser(&fine, range);
            let [a, b] = [fine, coarse]
                .map(|model| both(&model, Rescaling::FloatingPoint, &image)[0]["y"].clone());
            worst = a.iter().zip(&b).fold(worst, |m, (a, b)| m.max((a - b).abs()));
        }
        assert!(worst < last, "{range}: {worst}, and {last} before");
        last = worst;
    }
    assert_eq!(last, 0.0);
}

/// The weights of a fine network with fewer levels.
fn coarser(fine: &Model, range: u32) -> Model {
    let mut model = fine.clone();
    let ratio = 256.0 / f64::from(range + 1);
    for (w, s) in [("w1", "w1_s"), ("w3", "w3_s"), ("w4", "w4_s")] {
        let [w, s] = [w, s].map(|name| model.graph.value_named(name).unwrap());
        let data = model.graph.constant(w).unwrap().to_reals().unwrap();
        let half = f64::from(range.div_ceil(2));
        let round = |q: &f64| (q / ratio).round().clamp(-half, half - 1.0) as i8;
        let coarse = Tensor::from_vec(data.dims.clone(), data.values.iter().map(round).collect());
        model.graph.set_initializer(w, Some(coarse));
        let step = model.graph.constant(s).unwrap().to_reals().unwrap().values[0] * ratio;
        model.graph.set_initializer(s, Some(Tensor::scalar(step as f32)));
    }
    model
}

#[test]
fn layers_between_learned_tensors_are_integers() {
    let model = model(&mut Dice(1), 255);
    let (network, plan, written) =
        integers(&model, &options(Rescaling::SingleShift), Casting::Explicit);
    let kinds: Vec<CellKind> = network.cells.iter().map(|c| c.kind).collect();
    use CellKind::{Conv, Fc, Float, Layout, MaxPool};
    assert_eq!(kinds, [Conv, MaxPool, Conv, Conv, Float, Layout, Fc]);
    assert_eq!(plan.remarks.len(), 1);
    let ops: Vec<&str> = written.model.graph.nodes().map(|(_, n)| n.op.as_str()).collect();
    assert!(!ops.iter().any(|op| ["Conv", "Gemm", "BatchNormalization"].contains(op)), "{ops:?}");
    // Weights of nine bits take two products, or one if they are rounded as N2D2 does.
    let products = |ops: &[&str]| ops.iter().filter(|op| **op == "ConvInteger").count();
    assert_eq!(products(&ops), 4);
    let rounded = PlanOptions { round_weights: true, ..options(Rescaling::SingleShift) };
    let (_, _, written) = integers(&model, &rounded, Casting::Explicit);
    let ops: Vec<&str> = written.model.graph.nodes().map(|(_, n)| n.op.as_str()).collect();
    assert_eq!(products(&ops), 3);
}

#[test]
fn the_twin_in_floats_has_the_same_values() {
    let model = model(&mut Dice(5), 15);
    let options = options(Rescaling::FloatingPoint);
    let [a, b] = [Casting::Explicit, Casting::Fake].map(|casting| {
        let written = integers(&model, &options, casting).2;
        let image = (0..128_u8).map(|i| i.wrapping_mul(37));
        let dims = vec![1, 2, 8, 8];
        let env = match casting {
            Casting::Fake => Tensor::from_vec(dims, image.map(f32::from).collect()),
            _ => Tensor::from_vec(dims, image.collect()),
        };
        run(&written.model, env)["y"].clone()
    });
    assert_eq!(a, b);
}

/// Behind a tensor without a learned range, and behind a bound that is lower than the range,
/// nothing is rounded that the network does not round.
#[test]
fn what_has_no_range_stays_real() {
    let text = "
net (float[1,2,4,4] env) => (float[1,2,4,4] y)
<int8[2,2,1,1] w, float s, float a, uint8 zu, float lo, float hi>
{
  wr = DequantizeLinear(w, s)
  c = Conv<kernel_shape = [1, 1]>(env, wr)
  t = Tanh(c)
  d = Conv<kernel_shape = [1, 1]>(t, wr)
  k = Clip(d, lo, hi)
  q = QuantizeLinear(k, a, zu)
  e = DequantizeLinear(q, a, zu)
  y = Relu(e)
}";
    let mut graph = text::parse_graph(text).unwrap();
    for (name, data) in [
        ("w", Tensor::from_vec(vec![2, 2, 1, 1], vec![100_i8, -70, 30, 127])),
        ("s", Tensor::scalar(0.01_f32)),
        ("a", Tensor::scalar(0.01_f32)),
        ("zu", Tensor::scalar(0_u8)),
        ("lo", Tensor::scalar(0_f32)),
        ("hi", Tensor::scalar(0.333_f32)),
    ] {
        let id = graph.value_named(name).unwrap();
        graph.set_initializer(id, Some(data));
    }
    let mut model = Model::new(graph, 8, 17);
    assert!(infer(&mut model).0.is_empty());
    let image: Vec<u8> = (0..32).map(|i| i * 8).collect();
    let floats = image.iter().map(|q| f32::from(*q) / 255.0).collect();
    let want = run(&model, Tensor::from_vec(vec![1, 2, 4, 4], floats));
    let (network, _, written) =
        integers(&model, &options(Rescaling::FloatingPoint), Casting::Explicit);
    assert_eq!(network.cells[0].kind, CellKind::Conv);
    let rest: Vec<CellKind> = network.cells[1..].iter().map(|c| c.kind).collect();
    assert_eq!(rest, [CellKind::Float, CellKind::Float, CellKind::Layout, CellKind::Float]);
    let ty = written.model.graph[written.model.graph.inputs()[0]].ty.as_ref();
    assert_eq!(ty.and_then(ValueType::dtype), Some(DataType::Uint8));
    let got = run(&written.model, Tensor::from_vec(vec![1, 2, 4, 4], image));
    let near = got["y"].iter().zip(&want["y"]).all(|(a, b)| (a - b).abs() < 1e-6);
    assert!(near, "{:?}, expected {:?}", got["y"], want["y"]);
    assert!(want["y"].iter().any(|x| *x > 0.32));
}
