//! Written graphs against a second, plain implementation of their arithmetic.

mod reference;

use super::{Casting, IntegerModel, write};
use crate::plan::{
    Activation, Cell, CellInput, CellKind, CellNetwork, CellPlan, How, IntegerPlan, Integers,
    Output, Parameters, Rescale, Threshold,
};
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{DataType, Model, Tensor, infer, text, verify};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Every kind of cell but `Float`; a branch that is rescaled, and one that is not.
const NET: &str = "
net (float[2,2,4,4] env) => (float[2,5] y, float[2,9,2,2] k)
<float[3,2,3,3] c1_w, float[3] c1_b, float[3,1,1,1] c2_w, float[5,36] y_w, float[5] y_b>
{
  c1_conv = Conv<kernel_shape = [3, 3], pads = [1, 1, 1, 1]>(env, c1_w, c1_b)
  c1 = Relu(c1_conv)
  c2 = Conv<group = 3, kernel_shape = [1, 1]>(c1, c2_w)
  s = Add(c2, c1)
  m = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(s)
  a = AveragePool<kernel_shape = [2, 2], strides = [2, 2]>(s)
  x = Max(m, a)
  k = Concat<axis = 1>(m, a, x)
  f = Flatten(k)
  y = Gemm<transB = 1>(f, y_w, y_b)
}";

/// Numbers from a seed.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let x = self.0 ^ (self.0 >> 33);
        x.wrapping_mul(0xff51_afd7_ed55_8ccd) >> 20
    }

    /// Within `lo..=hi`.
    pub(crate) fn within(&mut self, lo: i64, hi: i64) -> i64 {
        lo + (self.next() % (hi - lo + 1) as u64) as i64
    }

    fn coin(&mut self) -> bool {
        self.next().is_multiple_of(2)
    }
}

#[derive(Clone, Copy, Debug)]
struct Choice {
    bits: u32,
    mode: usize,
    per_output: bool,
    seed: u64,
}

fn float_model() -> Model {
    let mut graph = text::parse_graph(NET).unwrap_or_else(|d| panic!("{d}"));
    for (name, dims) in [
        ("c1_w", vec![3, 2, 3, 3]),
        ("c1_b", vec![3]),
        ("c2_w", vec![3, 1, 1, 1]),
        ("y_w", vec![5, 36]),
        ("y_b", vec![5]),
    ] {
        let id = graph.value_named(name).expect("the text has it");
        let count: usize = dims.iter().product();
        graph.set_initializer(id, Some(Tensor::from_vec(dims, vec![0.5f32; count])));
    }
    let mut model = Model::new(graph, 8, 17);
    let found = infer(&mut model);
    assert!(found.0.is_empty(), "{found}");
    model
}

fn network() -> CellNetwork {
    use CellInput::{Cell as C, Input};
    let model = float_model();
    let relu = Activation::Rectifier { clipping: None };
    let weights = |dims: &[usize]| {
        let dims = dims.to_vec();
        Some(Parameters { dims, weights: vec![].into(), bias: None })
    };
    let cell = |kind, names: &[&str], inputs: &[CellInput], activation, channels, parameters| {
        let graph = &model.graph;
        let value = |name: &str| graph.value_named(name).expect("the text has it");
        let nodes: Vec<_> =
            names.iter().map(|name| graph.producer(value(name)).expect("a node")).collect();
        let output = value(names[names.len() - 1]);
        let name = names[names.len() - 1].to_owned();
        let (node, inputs) = (nodes[0], inputs.to_vec());
        let blocks = None;
        Cell { name, kind, node, nodes, inputs, parameters, blocks, activation, output, channels }
    };
    let none = Activation::Linear;
    let cells = vec![
        cell(CellKind::Conv, &["c1_conv", "c1"], &[Input(0)], relu, 3, weights(&[3, 2, 3, 3])),
        cell(CellKind::Conv, &["c2"], &[C(0)], none, 3, weights(&[3, 1, 1, 1])),
        cell(CellKind::Sum, &["s"], &[C(1), C(0)], none, 3, None),
        cell(CellKind::MaxPool, &["m"], &[C(2)], none, 3, None),
        cell(CellKind::AveragePool, &["a"], &[C(2)], none, 3, None),
        cell(CellKind::Max, &["x"], &[C(3), C(4)], none, 3, None),
        cell(CellKind::Concat, &["k"], &[C(3), C(4), C(5)], none, 9, None),
        cell(CellKind::Layout, &["f"], &[C(6)], none, 36, None),
        cell(CellKind::Fc, &["y"], &[C(7)], none, 5, weights(&[5, 36])),
    ];
    CellNetwork { model, cells }
}

/// A rescaling that brings accumulators of `magnitude` bits to about `bits` bits.
fn rescaling(dice: &mut Dice, choice: Choice, magnitude: u32, outputs: usize) -> Rescale {
    let count = if choice.per_output { outputs } else { 1 };
    let shift = i64::from(magnitude.saturating_sub(choice.bits));
    let factors: Vec<f64> = (0..count)
        .map(|_| {
            (-(shift + dice.within(-2, 2)) as f64).exp2() * dice.within(500, 1000) as f64 / 1e3
        })
        .collect();
    let how = match choice.mode {
        0 => How::FloatingPoint(factors.iter().map(|f| *f as f32).collect()),
        1 | 2 => {
            let limit = if choice.mode == 1 { 32767.0 } else { 2_147_483_647.0 };
            let largest = factors.iter().copied().fold(0.0, f64::max);
            let fraction_bits = (limit / largest).log2().floor().min(50.0) as u32;
            let scale = f64::from(fraction_bits).exp2();
            let multipliers = factors.iter().map(|f| (f * scale).round() as i64).collect();
            How::FixedPoint { fraction_bits, multipliers }
        }
        3 => How::SingleShift(
            (0..count).map(|_| dice.within(0.max(shift - 2), shift + 2) as u32).collect(),
        ),
        _ => How::DoubleShift(
            (0..count)
                .map(|_| (dice.within(0, 3) as u32, dice.within(0, shift + 3) as u32))
                .collect(),
        ),
    };
    Rescale { factors, how }
}

fn plan(choice: Choice) -> IntegerPlan {
    let dice = &mut Dice(choice.seed);
    let bits = choice.bits;
    let limit = (1i64 << (bits - 1)) - 1;
    let output = |signed| Output { signed, bits, scale: 0.01 };
    let (input, first, rest, last) = (dice.coin(), dice.coin(), dice.coin(), dice.coin());
    let integers = |dice: &mut Dice, count: usize, outputs: usize, bias: bool| {
        let weights = (0..count).map(|_| dice.within(-limit, limit) as i32).collect();
        let most = 1i64 << (2 * bits);
        let bias = bias.then(|| (0..outputs).map(|_| dice.within(-most, most)).collect());
        Some(Integers { weights, bias })
    };
    let cell = |signed| CellPlan {
        integers: None,
        branches: vec![],
        rescale: None,
        output: Some(output(signed)),
        threshold: Threshold::default(),
    };
    let mut cells = vec![cell(first), cell(rest)];
    cells.extend((0..6).map(|_| cell(rest)));
    cells.push(cell(last));
    cells[0].integers = integers(dice, 54, 3, true);
    cells[0].rescale = Some(rescaling(dice, choice, 2 * bits + 2, 3));
    cells[1].integers = integers(dice, 3, 3, false);
    cells[1].rescale = Some(rescaling(dice, choice, 2 * bits, 3));
    cells[2].branches = vec![None, Some(rescaling(dice, choice, bits, 3))];
    if dice.coin() {
        cells[2].rescale = Some(rescaling(dice, choice, bits + 1, 3));
    }
    cells[8].integers = integers(dice, 180, 5, true);
    cells[8].rescale = Some(rescaling(dice, choice, 2 * bits + 3, 5));
    IntegerPlan { bits, range: 1.0, inputs: vec![output(input)], cells, remarks: vec![] }
}

fn written(plan: &IntegerPlan, casting: Casting) -> IntegerModel {
    let mut written = write(&network(), plan, casting).unwrap_or_else(|d| panic!("{d}"));
    if casting != Casting::Implicit {
        let found = infer(&mut written.model);
        assert!(found.0.is_empty(), "{found}\n{}", text::print_model(&written.model));
        let found = verify::verify(&written.model, verify::VerifyLevel::Full);
        assert!(found.0.is_empty(), "{found}\n{}", text::print_model(&written.model));
    }
    written
}

fn run(model: &Model, input: &[i64], dtype: DataType) -> BTreeMap<String, Vec<i64>> {
    run_on(model, vec![2, 2, 4, 4], input, dtype)
}

fn run_on(
    model: &Model,
    dims: Vec<usize>,
    input: &[i64],
    dtype: DataType,
) -> BTreeMap<String, Vec<i64>> {
    let input = match dtype {
        DataType::Float => Tensor::from_vec(dims, input.iter().map(|x| *x as f32).collect()),
        DataType::Uint8 => Tensor::from_vec(dims, input.iter().map(|x| *x as u8).collect()),
        DataType::Uint16 => Tensor::from_vec(dims, input.iter().map(|x| *x as u16).collect()),
        DataType::Int16 => Tensor::from_vec(dims, input.iter().map(|x| *x as i16).collect()),
        _ => Tensor::from_vec(dims, input.iter().map(|x| *x as i8).collect()),
    };
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    let feeds = BTreeMap::from([("env".to_owned(), input)]);
    let outputs = executor.run(&feeds, RunOptions::default()).unwrap_or_else(|d| panic!("{d}"));
    let whole =
        |t: &Tensor| t.to_reals().expect("numbers").values.iter().map(|x| *x as i64).collect();
    outputs.iter().map(|(name, t)| (name.clone(), whole(t))).collect()
}

fn check(choice: Choice, casting: Casting) {
    let plan = plan(choice);
    let written = written(&plan, casting);
    let dice = &mut Dice(!choice.seed);
    let (lo, hi) = plan.inputs[0].bounds();
    let input: Vec<i64> = (0..64).map(|_| dice.within(lo, hi)).collect();
    let want = reference::run(&network(), &plan, &input);
    let graph = &written.model.graph;
    let dtype = graph[graph.inputs()[0]].dtype().expect("declared");
    let got = run(&written.model, &input, dtype);
    for (name, values) in &got {
        assert_eq!(values, &want[name], "{name} of {choice:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn the_integer_graph_computes_what_the_plan_says(
        bits in 2u32..=8, mode in 0usize..5, per_output: bool, seed: u64,
    ) {
        check(Choice { bits, mode, per_output, seed }, Casting::Explicit);
    }

    #[test]
    fn wide_integers_are_computed_by_bytes(
        bits in 9u32..=16, mode in 0usize..4, per_output: bool, seed: u64,
    ) {
        // Products with 32 bits take more than 64.
        let mode = [0, 1, 3, 4][mode];
        check(Choice { bits, mode, per_output, seed }, Casting::Explicit);
    }

    #[test]
    fn the_twin_in_floats_has_the_same_values(
        bits in 2u32..=8, mode in 0usize..3, per_output: bool, seed: u64,
    ) {
        // Fixed-point products are not exact in float32, and are remarked upon.
        let mode = [0, 3, 4][mode];
        check(Choice { bits, mode, per_output, seed }, Casting::Fake);
    }
}

#[test]
fn floats_round_halves_away_from_zero() {
    // 5 · 0.5 and -5 · 0.5 are ties; 0.49999997 is none.
    for (acc, factor, want) in [(5, 0.5, 3), (-5, 0.5, -3), (1, 0.499_999_97, 0), (7, 0.5, 4)] {
        let rescale = Rescale { factors: vec![], how: How::FloatingPoint(vec![factor]) };
        assert_eq!(rescale.apply(acc, 0), want);
        let choice = Choice { bits: 8, mode: 0, per_output: false, seed: 1 };
        let mut plan = plan(choice);
        plan.inputs[0].signed = true;
        plan.cells[0].output = Some(Output { signed: true, bits: 8, scale: 1.0 });
        plan.cells[0].rescale = Some(rescale.clone());
        plan.cells[0].integers = Some(Integers { weights: vec![0; 54], bias: Some(vec![acc; 3]) });
        let mut network = network();
        network.cells[0].activation = Activation::Linear;
        network.model.graph.mark_output(network.cells[0].output);
        let written = write(&network, &plan, Casting::Explicit).unwrap();
        let got = run(&written.model, &[0; 64], DataType::Int8);
        assert!(got["c1"].iter().all(|x| *x == want), "{acc} · {factor}: {:?}", got["c1"]);
    }
}

#[test]
fn implicit_casting_leaves_the_casts_out() {
    let choice = Choice { bits: 8, mode: 0, per_output: true, seed: 3 };
    let ops = |casting| -> Vec<String> {
        written(&plan(choice), casting).model.graph.nodes().map(|(_, n)| n.op.clone()).collect()
    };
    let with = ops(Casting::Explicit);
    let without = ops(Casting::Implicit);
    assert!(with.iter().any(|op| op == "Cast"));
    assert_eq!(
        with.iter().filter(|op| *op != "Cast").collect::<Vec<_>>(),
        without.iter().collect::<Vec<_>>()
    );
}

#[test]
fn sums_beyond_64_bits_are_refused() {
    let mut plan = plan(Choice { bits: 8, mode: 0, per_output: false, seed: 3 });
    let mut refusal = |bias: i64, casting| {
        let integers = plan.cells[8].integers.as_mut().unwrap();
        integers.bias.as_mut().unwrap()[2] = bias;
        let found = write(&network(), &plan, casting).err()?;
        assert_eq!(found.0.len(), 1);
        assert!(found.0[0].message.contains("`y`"), "{found}");
        Some(found.0[0].message.clone())
    };
    assert_eq!(refusal(1 << 31, Casting::Explicit), None);
    assert!(refusal(1 << 31, Casting::Fake).unwrap().contains("take the casts"));
    assert!(refusal(i64::MAX, Casting::Explicit).unwrap().contains("more than 61 bits"));
}

#[test]
fn a_large_bias_takes_64_bits() {
    let mut plan = plan(Choice { bits: 8, mode: 1, per_output: false, seed: 3 });
    plan.cells[8].integers.as_mut().unwrap().bias.as_mut().unwrap()[2] = -(1 << 33);
    let input = vec![1; 64];
    let want = reference::run(&network(), &plan, &input);
    let written = written(&plan, Casting::Explicit);
    let graph = &written.model.graph;
    let dtype = graph[graph.inputs()[0]].dtype().expect("declared");
    assert_eq!(run(&written.model, &input, dtype)["y"], want["y"]);
}

/// `1 << 31` is no int32, even where all accumulators and products are.
#[test]
fn a_shift_by_31_bits_takes_64_bits() {
    let (bits, mode, per_output) = (2, 2, true);
    check(Choice { bits, mode, per_output, seed: 14241850435258137273 }, Casting::Explicit);
}

/// The mean over all of a feature map: float32 is not exact with so many values of 16 bits.
#[test]
fn wide_averages_are_exact() {
    let text = "g (float[2,2,9,5] env) => (float[2,2,1,1] y) { y = GlobalAveragePool(env) }";
    let mut model = Model::new(text::parse_graph(text).unwrap(), 8, 17);
    assert!(infer(&mut model).0.is_empty());
    let network = crate::network::recognize(&model).unwrap();
    for signed in [false, true] {
        let output = Output { signed, bits: 16, scale: 1.0 };
        let (lo, hi) = output.bounds();
        let cell = CellPlan {
            integers: None,
            branches: vec![],
            rescale: None,
            output: Some(output),
            threshold: Threshold::default(),
        };
        let plan = IntegerPlan {
            bits: 16,
            range: 1.0,
            inputs: vec![output],
            cells: vec![cell],
            remarks: vec![],
        };
        let dice = &mut Dice(7);
        let input: Vec<i64> = (0..180).map(|_| dice.within(lo, hi)).collect();
        let want: Vec<i64> = input.chunks(45).map(|x| x.iter().sum::<i64>() / 45).collect();
        let integers = if signed { DataType::Int16 } else { DataType::Uint16 };
        for (casting, dtype) in [(Casting::Explicit, integers), (Casting::Fake, DataType::Float)] {
            let mut written = write(&network, &plan, casting).unwrap();
            assert!(infer(&mut written.model).0.is_empty());
            assert_eq!(run_on(&written.model, vec![2, 2, 9, 5], &input, dtype)["y"], want);
        }
    }
}
