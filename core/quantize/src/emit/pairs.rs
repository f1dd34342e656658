//! Puts `QuantizeLinear` and `DequantizeLinear` where the plan wants integers.
//!
//! A value that an operator on integers computes is rounded for all readers, because in the integer
//! form there is nothing else; any other value only for those that want integers.

use crate::emit::weights;
use crate::graph::weighted::FLOATS;
use crate::plan::opt_in;
use crate::plan::propagation::clamped;
use crate::plan::request::Settings;
use crate::plan::{QuantizePlan, Quantized};
use crate::range::weights::finite;
use crate::range::{Scale, integers};
use crate::report::{QuantizedLayer, QuantizedTensor, Report, name_of};
use onnxd_ir::{Attr, DataType, Graph, Layers, Node, NodeId, Reals, Tensor, ValueId, ValueType};
use std::collections::BTreeMap;

/// The range of what a value was, by the value that the plan observes.
pub type Ranges = BTreeMap<ValueId, (f64, f64)>;

/// A graph that gets its pairs.
pub(crate) struct Placer<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) done: Report,
    /// How values are quantized.
    pub(crate) scales: BTreeMap<ValueId, Scale>,
    /// Scale and zero point as initializers, by the value that they were made for.
    parameters: BTreeMap<ValueId, (ValueId, ValueId)>,
    /// What the report says about ranges.
    method: &'g str,
    /// Names of nodes as the float graph has them: those without one are called by their outputs,
    /// which change.
    names: BTreeMap<NodeId, String>,
}

/// Adds `QuantizeLinear` or `DequantizeLinear` from one value to another, called after `name`.
pub(crate) fn add_linear(
    graph: &mut Graph,
    (op, from, to): (&str, ValueId, ValueId),
    (scale, zero): (ValueId, Option<ValueId>),
    axis: Option<i64>,
    (name, layers): (&str, &Layers),
) {
    let mut node = Node::new(op, [from, scale], [to]);
    node.inputs.extend(zero.map(Some));
    if let Some(axis) = axis {
        node = node.with("axis", Attr::Int(axis));
    }
    node.name = format!("{name}_{op}");
    node.layers.add(layers);
    graph.add_node(node);
}

/// Applies a plan to the graph that it was made for.
pub fn place(graph: &mut Graph, plan: &QuantizePlan, ranges: &Ranges, method: &str) -> Report {
    let scales = scales(graph, plan, ranges);
    let done = Report { signed: plan.signed, ..Report::default() };
    let left = plan.left.iter().map(|(node, _)| *node);
    let named = plan.choices().into_iter().chain(left);
    let names = named.map(|id| (id, name_of(graph, &graph[id]))).collect();
    let mut placer = Placer { graph, done, scales, parameters: BTreeMap::new(), method, names };
    placer.remove_clamps(&plan.clamps);
    for (v, quantized) in &plan.values {
        placer.value(*v, quantized, plan);
    }
    weights::quantize(&mut placer, &plan.weighted);
    placer.opt_in(plan);
    for (node, why) in &plan.left {
        let name = placer.name(*node);
        placer.done.leave(&name, *why);
    }
    placer.done
}

/// The scale of every value that is quantized. One without a range, because no sample reached
/// it, has the scale 1.
fn scales(graph: &Graph, plan: &QuantizePlan, ranges: &Ranges) -> BTreeMap<ValueId, Scale> {
    let scale = |q: &Quantized| {
        let constant = graph.constant(q.provider).and_then(Tensor::to_reals);
        let range = match constant {
            Some(constant) => {
                let ends = |(lo, hi): (f64, f64), x: &f64| (lo.min(*x), hi.max(*x));
                constant.values.iter().fold((0.0, 0.0), ends)
            }
            None => q.known.or(ranges.get(&q.observed).copied()).unwrap_or((0.0, 0.0)),
        };
        let Settings { symmetric, .. } = q.settings;
        let scale = Scale::of_range(range, q.settings.activation_levels(), symmetric);
        match real_type(graph, q.provider) {
            DataType::Float16 => Scale { scale: half_step(scale.scale), ..scale },
            _ => scale,
        }
    };
    plan.values.iter().map(|(v, q)| (*v, scale(q))).collect()
}

/// A scale as a constant.
fn step(scale: Scale, dtype: DataType) -> Tensor {
    let step = Reals::scalar(scale.scale).to_tensor(dtype);
    step.unwrap_or_else(|| Tensor::scalar(scale.scale as f32))
}

/// The type of the reals of a value, which is that of its scale.
fn real_type(graph: &Graph, v: ValueId) -> DataType {
    let declared = || graph[v].ty.as_ref().and_then(ValueType::dtype);
    let found = graph.constant(v).map(Tensor::dtype).or_else(declared);
    found.filter(|dtype| FLOATS.contains(dtype)).unwrap_or(DataType::Float)
}

/// A step as float16 holds it; smaller ones would lose too many digits, or all.
pub(crate) fn half_step(step: f64) -> f64 {
    const LEAST: f64 = 1.0 / (1 << 20) as f64;
    let half = Reals::scalar(step.max(LEAST)).to_tensor(DataType::Float16);
    let half = half.and_then(|t| t.to_reals()).map(|r| r.values[0]);
    half.filter(|s| s.is_finite()).unwrap_or(step)
}

impl Placer<'_> {
    /// What the report calls a node.
    pub(crate) fn name(&self, node: NodeId) -> String {
        let name = || name_of(self.graph, &self.graph[node]);
        self.names.get(&node).cloned().unwrap_or_else(name)
    }

    /// What params name: the factors of normalizations, and a row of the report for each.
    fn opt_in(&mut self, plan: &QuantizePlan) {
        let mut norms = Vec::new();
        for (id, settings) in &plan.opt_in {
            match opt_in::norm(self.graph, *id) {
                Some(norm) => norms.push((norm, *settings)),
                None => {
                    let (name, node) = (self.name(*id), &self.graph[*id]);
                    self.done.layers.push(QuantizedLayer {
                        name,
                        op: node.op.clone(),
                        rescaling: format!("{} on {}", node.op, settings.activation),
                        ..QuantizedLayer::default()
                    });
                }
            }
        }
        weights::quantize(self, &norms);
    }

    /// What came out of a clamp comes out of what computed its input.
    fn remove_clamps(&mut self, clamps: &[NodeId]) {
        for id in clamps {
            let graph = &mut *self.graph;
            let ends = clamped(graph, *id).zip(graph[*id].output(0));
            let Some((x, out)) = ends else { continue };
            let Some(producer) = graph.producer(x) else { continue };
            let slot = graph[producer].outputs.iter().position(|o| *o == Some(x));
            let clamp = graph.remove_node(*id);
            graph.set_output(producer, slot.unwrap_or(0), out);
            graph.node_mut(producer).layers.add(&clamp.layers);
        }
    }

    fn value(&mut self, v: ValueId, quantized: &Quantized, plan: &QuantizePlan) {
        let Some(scale) = self.scales.get(&v).copied() else { return };
        let name = self.graph[v].name.clone();
        if let Some(constant) = self.graph.constant(v).cloned() {
            let Some(pair) = self.constant(&name, &constant, scale) else { return };
            return self.read_instead(v, pair, plan);
        }
        self.done.tensors.push(QuantizedTensor {
            name: name.clone(),
            element_type: scale.dtype.to_string(),
            scales: vec![scale.scale],
            zero_points: vec![scale.zero_point],
            range: Some(scale.range()),
            method: self.method.to_owned(),
            ..QuantizedTensor::default()
        });
        let parameters = self.parameters(quantized.provider, scale);
        match self.graph.producer(v).filter(|_| quantized.computed) {
            Some(producer) => {
                let ty = self.graph[v].ty.clone();
                let float = self.graph.add_value(&format!("{name}_float"), ty);
                let slot = self.graph[producer].outputs.iter().position(|o| *o == Some(v));
                self.graph.set_output(producer, slot.unwrap_or(0), float);
                self.pair(float, parameters, Some(v), &name);
            }
            None => {
                let pair = self.pair(v, parameters, None, &name);
                self.read_instead(v, pair, plan);
            }
        }
    }

    /// Those who want integers read `to` instead of `v`.
    fn read_instead(&mut self, v: ValueId, to: ValueId, plan: &QuantizePlan) {
        for id in self.graph.readers(v).to_vec() {
            let Some(data) = plan.data(self.graph, id) else { continue };
            for slot in data {
                if self.graph[id].input(slot) == Some(v) {
                    self.graph.set_input(id, slot, Some(to));
                }
            }
        }
    }

    /// The initializers of a scale.
    fn parameters(&mut self, provider: ValueId, scale: Scale) -> (ValueId, ValueId) {
        if let Some(known) = self.parameters.get(&provider) {
            return *known;
        }
        let name = self.graph[provider].name.clone();
        let step = step(scale, real_type(self.graph, provider));
        let zero = integers(scale.dtype, &[], &[scale.zero_point]);
        let zero = zero.unwrap_or_else(|| Tensor::scalar(0u8));
        let step = self.graph.add_initializer(&format!("{name}_scale"), step);
        let zero = self.graph.add_initializer(&format!("{name}_zero_point"), zero);
        self.parameters.insert(provider, (step, zero));
        (step, zero)
    }

    /// `v` rounded to integers and back, as `out` or a new value.
    fn pair(
        &mut self,
        v: ValueId,
        (scale, zero): (ValueId, ValueId),
        out: Option<ValueId>,
        name: &str,
    ) -> ValueId {
        let layers = self.layers(v);
        let shape = self.graph[v].ty.as_ref().and_then(|t| Some(t.shape()?.to_vec()));
        let dtype = self.graph.constant(zero).map(Tensor::dtype);
        let integers = ValueType::Tensor { dtype, shape };
        let integers = self.graph.add_value(&format!("{name}_quantized"), Some(integers));
        let quantize = ("QuantizeLinear", v, integers);
        add_linear(self.graph, quantize, (scale, Some(zero)), None, (name, &layers));
        let back = out.unwrap_or_else(|| {
            let ty = self.graph[v].ty.clone();
            self.graph.add_value(&format!("{name}_dequantized"), ty)
        });
        self.dequantize(integers, (scale, Some(zero)), None, (back, name), &layers);
        back
    }

    /// Adds a `DequantizeLinear` that computes `out`.
    pub(crate) fn dequantize(
        &mut self,
        x: ValueId,
        (scale, zero): (ValueId, Option<ValueId>),
        axis: Option<usize>,
        (out, name): (ValueId, &str),
        layers: &Layers,
    ) {
        // The standard's default is left out.
        let axis = axis.filter(|axis| *axis != 1).map(|axis| axis as i64);
        add_linear(self.graph, ("DequantizeLinear", x, out), (scale, zero), axis, (name, layers));
    }

    /// A constant as integers and back.
    fn constant(&mut self, name: &str, constant: &Tensor, scale: Scale) -> Option<ValueId> {
        let values: Vec<i64> = finite(constant).ok()?.iter().map(|x| scale.quantize(*x)).collect();
        let data = integers(scale.dtype, constant.dims(), &values)?;
        let zero = integers(scale.dtype, &[], &[scale.zero_point])?;
        let x = self.graph.add_initializer(&format!("{name}_quantized"), data);
        let step = step(scale, constant.dtype());
        let step = self.graph.add_initializer(&format!("{name}_scale"), step);
        let zero = self.graph.add_initializer(&format!("{name}_zero_point"), zero);
        let out = self.graph.add_value(&format!("{name}_dequantized"), None);
        self.dequantize(x, (step, Some(zero)), None, (out, name), &Layers::default());
        Some(out)
    }

    /// The layers of who computes a value, else of its first reader.
    fn layers(&self, v: ValueId) -> Layers {
        let by = self.graph.producer(v).or_else(|| self.graph.readers(v).first().copied());
        by.map(|id| self.graph[id].layers.clone()).unwrap_or_default()
    }
}
