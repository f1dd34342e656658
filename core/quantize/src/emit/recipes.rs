//! How a Linear, `DQ(x), DQ(W) -> MatMul -> Add(bias)`, is written: the three recipes of Intel's
//! Neural Compressor. Convolutions and `Gemm` have no recipe, as there. Other than there, a bias may
//! have any name, one that 32 bits do not hold stays in float, and nodes come in an order of evaluation.

use crate::emit::forms::bias;
use crate::emit::forms::{FoldContext, Folded};
use crate::emit::placer::add_linear;
use crate::graph::quantized::{
    QuantizedValue, Why, dequantize_source, name, quantize_target, rank_of, sweep,
};
use crate::report::name_of;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Graph, Layers, Model, Node, NodeId, Reals, Tensor, ValueId, text};
pub use onnxd_params::words::Recipe;

/// [`Recipe::Int32Bias`].
const INT32_BIAS: &str = "linear (uint8[M, K] x, int8[K, N] w, uint8 x_zero, int8[N] w_zero,
        int32[N] bias, float[N] scale) => (float[M, N] y) {
    product = MatMulInteger(x, w, x_zero, w_zero)
    sum = Add(product, bias)
    real = Cast<to = 1>(sum)
    y = Mul(real, scale)
}";

/// Writes all Linear layers of a graph with pairs of `QuantizeLinear` and `DequantizeLinear` as the
/// recipe says. Those in sub-graphs stay, because a recipe reads constants.
///
/// With `exact`, products are so on every processor.
pub fn apply(model: &mut Model, recipe: Recipe, exact: bool) -> Folded {
    let (opset, graph) = (model.opset(), &mut model.graph);
    let mut report = Folded::default();
    for id in graph.node_ids() {
        let Some(linear) = graph.node(id).and_then(|node| Linear::found(graph, id, node)) else {
            continue;
        };
        let (node, add) = (graph[id].clone(), linear.add);
        let name = name_of(graph, &node);
        let pair = linear.lift_pair(graph);
        match recipe {
            Recipe::Fp32Bias => {}
            Recipe::Fp32BiasQdq => {
                if let Some(pair) = pair {
                    put_behind(graph, add, pair);
                }
            }
            Recipe::Int32Bias => {
                let made = int32_bias(&mut FoldContext { graph, opset, node, exact }, id, &linear);
                match made {
                    Ok(()) => report.folded.push((name, "MatMul".into(), "MatMulInteger".into())),
                    Err(why) => report.left.push((name, why)),
                }
            }
        }
    }
    report
}

/// A product of a quantized value and quantized weights, and the sum with a bias.
struct Linear {
    x: QuantizedValue,
    w: QuantizedValue,
    product: ValueId,
    add: NodeId,
    /// What the sum reads: the product, or what is dequantized of it.
    summand: ValueId,
    bias: ValueId,
}

impl Linear {
    fn found(graph: &Graph, id: NodeId, node: &Node) -> Option<Linear> {
        let (x, w) = (
            dequantize_source(graph, node.input(0)?).ok()?,
            dequantize_source(graph, node.input(1)?).ok()?,
        );
        let (x, w) = (x.eight_bit(graph).ok()?.per_tensor(graph).ok()?, w.eight_bit(graph).ok()?);
        let is_weight = graph.constant(w.q).is_some() && rank_of(graph, w.q) == Some(2);
        let product = node.output(0)?;
        let w = w.along(graph, 1).ok().filter(|_| is_weight && node.is("MatMul"))?;
        debug_assert_eq!(graph.producer(product), Some(id));
        let summand = match quantize_target(graph, product) {
            Ok(rounded) => only_pair(graph, rounded.q)?,
            Err(_) => product,
        };
        let add = only_reader(graph, summand).filter(|add| graph[*add].is("Add"))?;
        let bias = graph[add].inputs.iter().flatten().copied().find(|v| *v != summand)?;
        graph.constant(bias).is_some().then_some(Linear { x, w, product, add, summand, bias })
    }

    /// Takes away the rounding between product and sum; returns its scale and zero point.
    fn lift_pair(&self, graph: &mut Graph) -> Option<(ValueId, Option<ValueId>)> {
        let quantize = graph.producer(dequantize_source(graph, self.summand).ok()?.q)?;
        let parameters = (graph[quantize].input(1)?, graph[quantize].input(2));
        let slot = graph[self.add].inputs.iter().position(|v| *v == Some(self.summand))?;
        graph.set_input(self.add, slot, Some(self.product));
        let gone = sweep(graph, vec![self.summand]);
        let layers: Layers = gone.into_iter().map(|node| node.layers).collect();
        graph.node_mut(self.add).layers.add(&layers);
        Some(parameters)
    }
}

fn only_reader(graph: &Graph, v: ValueId) -> Option<NodeId> {
    graph.readers(v).first().copied().filter(|_| graph.uses(v) == 1)
}

/// What the only `DequantizeLinear` makes of the integers `q`, which nothing else reads.
fn only_pair(graph: &Graph, q: ValueId) -> Option<ValueId> {
    let out = graph[only_reader(graph, q)?].output(0)?;
    dequantize_source(graph, out).ok().map(|_| out)
}

/// Rounds the sum instead of the product, unless it is rounded already.
fn put_behind(graph: &mut Graph, add: NodeId, parameters: (ValueId, Option<ValueId>)) {
    let Some(out) = graph[add].output(0) else { return };
    if quantize_target(graph, out).is_ok() {
        return;
    }
    let (base, layers) = (graph[out].name.clone(), graph[add].layers.clone());
    let ty = graph[out].ty.clone();
    let sum = graph.add_value(&format!("{base}_float"), ty);
    graph.set_output(add, 0, sum);
    let integers = graph.add_value(&format!("{base}_quantized"), None);
    for (op, from, to) in [("QuantizeLinear", sum, integers), ("DequantizeLinear", integers, out)] {
        add_linear(graph, (op, from, to), parameters, None, (&base, &layers));
    }
}

/// For each column of weights, the largest integer to which any sum of its products with 8-bit
/// integers can be added in 32 bits.
fn room(graph: &Graph, w: &QuantizedValue) -> Result<Vec<f64>, Why> {
    const REACH: f64 = 255.0;
    let unknown = || format!("the weights {} are not constant", name(graph, w.q));
    let q = graph.constant(w.q).and_then(Tensor::to_reals).ok_or_else(unknown)?;
    let zeros = w.zero_points(graph)?;
    let columns = q.dims.last().copied().unwrap_or(1).max(1);
    let mut sums = vec![0.0; columns];
    for row in q.values.chunks(columns) {
        for (i, (sum, q)) in sums.iter_mut().zip(row).enumerate() {
            let zero = zeros.get(i).or(zeros.last()).copied().unwrap_or(0);
            *sum += (q - zero as f64).abs();
        }
    }
    Ok(sums.iter().map(|sum| (f64::from(i32::MAX) - REACH * sum).max(0.0)).collect())
}

/// Steps of a bias where no weight says how large they are to be.
const FREE_STEPS: f64 = (1 << 30) as f64;

/// Where all weights are zero, sums have the steps that suit the bias.
fn free(steps: &mut [f32], bias: &[f64], room: &[f64]) {
    let of = |list: &[f64], i: usize| list[i % list.len()];
    let count = steps.len();
    for (i, step) in steps.iter_mut().enumerate() {
        let all = || (i..room.len().max(bias.len())).step_by(count);
        let largest = all().map(|i| of(bias, i).abs()).fold(0.0, f64::max);
        if largest > 0.0 && all().all(|i| of(room, i) == f64::from(i32::MAX)) {
            *step = ((largest / FREE_STEPS) as f32).max(f32::MIN_POSITIVE);
        }
    }
}

fn int32_bias(site: &mut FoldContext, id: NodeId, linear: &Linear) -> Result<(), Why> {
    let mut steps = bias::steps(site.graph, [linear.x.scale, linear.w.scale], 1.0)?;
    let dims = if steps.len() == 1 { vec![] } else { vec![steps.len()] };
    let unlike = || format!("the bias {} does not fit the product", name(site.graph, linear.bias));
    let bias_values = site.graph.constant(linear.bias).and_then(Tensor::to_reals);
    let bias_values = bias_values.filter(|b| !b.values.is_empty()).ok_or_else(unlike)?;
    let room = room(site.graph, &linear.w)?;
    free(&mut steps, &bias_values.values, &room);
    let exact = Reals { dims: dims.clone(), values: steps.iter().map(|s| f64::from(*s)).collect() };
    let sum = bias_values.zip(&exact, |b, s| (b / s).round_ties_even()).ok_or_else(unlike)?;
    // What is beyond is so much larger than the products that no step holds both.
    refuse!(sum.values.iter().enumerate().any(|(i, q)| q.is_nan() || q.abs() > room[i % room.len()]) =>
        "32 bits do not hold its bias, which stays in float");
    let integers = sum.values.iter().map(|q| *q as i32).collect();
    let integers = Tensor::from_vec(sum.dims, integers);
    let base = site.graph[linear.bias].name.clone();
    let integers = site.shared(&format!("{base}_quantized"), integers);
    let out = site.graph[linear.add].output(0).ok_or("it has no output")?;
    let prefix = site.graph[linear.product].name.clone();
    let scale =
        site.graph.add_initializer(&format!("{prefix}_scale"), Tensor::from_vec(dims, steps));
    let w = site.exact(&linear.x, linear.w);
    let bindings = [
        ("x", linear.x.q),
        ("w", w.q),
        ("x_zero", site.zero(&linear.x)),
        ("w_zero", site.zero(&w)),
        ("bias", integers),
        ("scale", scale),
    ];
    let first = site.graph.node_bound();
    let made = text::inline_text(site.graph, &prefix, INT32_BIAS, &bindings);
    let made = made.map_err(|found| found.into_finding().message)?;
    let gone = [site.graph.remove_node(linear.add), site.graph.remove_node(id)];
    let result = made.first().and_then(|y| site.graph.producer(*y)).ok_or("it has no result")?;
    site.graph.set_output(result, 0, out);
    let swept = sweep(site.graph, gone.iter().flat_map(Node::reads).collect());
    let layers: Layers = gone.into_iter().chain(swept).map(|node| node.layers).collect();
    for id in site.graph.nodes_from(first) {
        let node = site.graph.node_mut(id);
        node.name = format!("{}_{}", site.node.name, node.op);
        node.layers.add(&layers);
    }
    Ok(())
}
