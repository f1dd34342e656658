//! Bias correction (arXiv 1906.04721): what a quantized layer computes is off by an average amount
//! per channel, which its bias can take back.

use crate::graph::weighted::{WeightedNode, WeightedOp};
use crate::observe::{Limits, Statistic, WantedValues, observe};
use crate::range::integers;
use onnxd_diagnostics::Diagnostics;
use onnxd_eval::{Builtin, quoted};
use onnxd_ir::{DataType, Graph, Model, NodeId, Reals, Tensor, ValueId};
use std::collections::{BTreeMap, BTreeSet};

/// Layers that are put right together. Later ones see what that did for them.
const GROUPS: usize = 16;

/// The mean of each channel.
struct Means {
    /// The axis of the channels; `None` is the last.
    axis: Option<usize>,
    sums: Vec<f64>,
    /// Elements of one channel.
    count: f64,
}

impl Statistic for Means {
    const PARTS: bool = true;

    fn see(&mut self, tensor: &Tensor) {
        let Some(values) = tensor.as_slice::<f32>() else { return };
        let axis = self.axis.unwrap_or(tensor.rank().saturating_sub(1));
        let Some(&channels) = tensor.dims().get(axis) else { return };
        let inner: usize = tensor.dims()[axis + 1..].iter().product();
        if values.is_empty() {
            return;
        }
        self.sums.resize(channels, 0.0);
        for (i, run) in values.chunks(inner).enumerate() {
            let sum: f32 = run.iter().sum();
            self.sums[i % channels] += f64::from(sum);
        }
        self.count += (values.len() / channels) as f64;
    }

    fn merge(&mut self, later: &Self) {
        self.count += later.count;
        self.sums.resize(later.sums.len().max(self.sums.len()), 0.0);
        for (sum, more) in self.sums.iter_mut().zip(&later.sums) {
            *sum += more;
        }
    }
}

/// Corrects the biases of a quantized graph whose nodes have the numbers that they have in the
/// float graph: those of integers, and those that are added to what a `MatMul` gives. Layers
/// without a bias stay as they are.
///
/// # Errors
/// Why samples cannot be had, or a model does not run on them.
pub fn correct_biases(
    (float, quantized): (&Model, &mut Model),
    weighted: &[WeightedNode],
    samples: crate::accuracy::Samples,
    limits: Limits,
) -> Result<usize, Diagnostics> {
    let order: BTreeMap<NodeId, usize> =
        (float.graph.topological().unwrap_or_default().into_iter())
            .enumerate()
            .map(|(at, id)| (id, at))
            .collect();
    let corrected = |p: &&WeightedNode| has_bias(&quantized.graph, p);
    let mut layers: Vec<&WeightedNode> = weighted.iter().filter(corrected).collect();
    layers.sort_by_key(|p| order.get(&p.node));
    if layers.is_empty() {
        return Ok(0);
    }
    let wanted = means(float, &layers, samples, limits)?;
    for group in layers.chunks(layers.len().div_ceil(GROUPS)) {
        let found = means(quantized, group, samples, limits)?;
        for layer in group {
            let Some((wanted, found)) = wanted.get(&layer.node).zip(found.get(&layer.node)) else {
                continue;
            };
            let errors: Vec<f64> = found.iter().zip(wanted).map(|(q, x)| q - x).collect();
            subtract(&mut quantized.graph, layer, &errors);
        }
    }
    Ok(layers.len())
}

/// Whether a weighted operator of a quantized graph has a bias that can be corrected.
pub(crate) fn has_bias(graph: &Graph, operator: &WeightedNode) -> bool {
    Bias::find(graph, operator).is_some()
}

/// The constant that is a weighted operator's bias.
struct Bias {
    /// Who reads it, and as which input.
    reader: NodeId,
    slot: usize,
    data: Tensor,
    /// The real values of its steps; none for floats.
    scales: Vec<f64>,
}

impl Bias {
    fn find(graph: &Graph, operator: &WeightedNode) -> Option<Bias> {
        if operator.op == WeightedOp::MatMul {
            return Bias::added(graph, operator.out);
        }
        let reader = graph.producer(graph[operator.node].input(WeightedNode::BIAS)?)?;
        let data = graph.constant(graph[reader].input(0)?)?.clone();
        let scales = graph.constant(graph[reader].input(1)?)?.to_reals()?.values;
        let fits = graph[reader].is("DequantizeLinear") && data.dtype() == DataType::Int32;
        fits.then_some(Bias { reader, slot: 0, data, scales })
    }

    fn added(graph: &Graph, out: ValueId) -> Option<Bias> {
        let [reader] = *graph.readers(out) else { return None };
        let node = &graph[reader];
        let slot = node.inputs.iter().position(|v| *v != Some(out))?;
        let data = graph.constant(node.input(slot)?)?.clone();
        let fits = node.is("Add") && data.rank() == 1 && data.dtype() == DataType::Float;
        fits.then_some(Bias { reader, slot, data, scales: Vec::new() })
    }

    /// Without `errors`, one for each element.
    fn minus(&self, errors: &[f64]) -> Option<Tensor> {
        let values = self.data.to_reals()?;
        if values.values.len() != errors.len() {
            return None;
        }
        let Some(last) = self.scales.len().checked_sub(1) else {
            let errors = Reals { dims: values.dims.clone(), values: errors.to_vec() };
            return (&values - &errors).to_tensor(DataType::Float);
        };
        let step = |i: usize| self.scales[i.min(last)];
        let less = |(i, (q, e)): (usize, (&f64, &f64))| q - (e / step(i)).round_ties_even();
        let both = values.values.iter().zip(errors).enumerate();
        let corrected: Vec<i64> = both.map(|pair| less(pair) as i64).collect();
        integers(DataType::Int32, self.data.dims(), &corrected)
    }
}

fn means(
    model: &Model,
    layers: &[&WeightedNode],
    samples: crate::accuracy::Samples,
    limits: Limits,
) -> Result<BTreeMap<NodeId, Vec<f64>>, Diagnostics> {
    let graph = &model.graph;
    // The channels of a `MatMul` are the last axis.
    let axis = |p: &WeightedNode| match p.op {
        _ if p.computes_floats() => None,
        _ => Some(1),
    };
    let name = |p: &&WeightedNode| {
        Some((quoted(&graph[graph[p.node].output(0)?].name), (p.node, axis(p))))
    };
    let nodes: BTreeMap<String, (NodeId, Option<usize>)> = layers.iter().filter_map(name).collect();
    let names: BTreeSet<String> = nodes.keys().cloned().collect();
    let make = |name: &str| Means { axis: nodes[name].1, sums: Vec::new(), count: 0.0 };
    let mut given = samples();
    let found = observe(&Builtin, model, &mut given, &WantedValues::Names(names), &make, limits)?;
    let mean = |m: &Means| m.sums.iter().map(|s| s / m.count.max(1.0)).collect();
    Ok(found.iter().map(|(name, m)| (nodes[name].0, mean(m))).collect())
}

pub(crate) fn subtract(graph: &mut Graph, layer: &WeightedNode, errors: &[f64]) {
    let Some(bias) = Bias::find(graph, layer) else { return };
    // A bias of one number for all channels stays one.
    let Some(data) = bias.minus(errors) else { return };
    let name = graph[bias.reader].input(bias.slot).map(|v| graph[v].name.clone());
    let to = graph.add_initializer(&format!("{}_corrected", name.unwrap_or_default()), data);
    graph.set_input(bias.reader, bias.slot, Some(to));
}
