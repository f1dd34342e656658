//! Puts `QuantizeLinear` and `DequantizeLinear` where the plan wants integers.
//!
//! A value that an operator on integers computes is rounded for all readers, because in the integer
//! form there is nothing else; any other value only for those that want integers.

use crate::emit::placer::{Placer, half_step, real_type};
use crate::emit::weights;
use crate::plan::opt_in;
use crate::plan::propagation::clamped;
use crate::plan::request::Settings;
use crate::plan::{QuantizePlan, Quantized};
use crate::range::Scale;
use crate::report::{Report, name_of};
use onnxd_ir::{DataType, Graph, NodeId, Tensor, ValueId};
use onnxd_proto::onnxd::{QuantizedLayer, QuantizedTensor};
use std::collections::BTreeMap;

/// The range of what a value was, by the value that the plan observes.
pub type Ranges = BTreeMap<ValueId, (f64, f64)>;

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

impl Placer<'_> {
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
        let (min, max) = scale.range();
        self.done.tensors.push(QuantizedTensor {
            name: name.clone(),
            element_type: scale.dtype.to_string(),
            scales: vec![scale.scale],
            zero_points: vec![scale.zero_point],
            min: Some(min),
            max: Some(max),
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
}
