//! Takes the quantizers of training out of a graph, and keeps what they learned.

use crate::canonical::canonicalize;
use crate::graph::transposed;
use crate::network::scalar;
use crate::plan::Output;
use onnxd_plugin_sdk::ir::ops::{Clip, DequantizeLinear, QuantizeLinear};
use onnxd_plugin_sdk::ir::{At, DataType, Graph, Model, Node, NodeId, Tensor, ValueId, axis_at};
use std::collections::HashMap;

/// Key in the metadata of a layer, whose value is the place of its weights in [`Learned`].
const KEY: &str = "onnxd.n2d2.weights";

/// What the layers of a network have learned.
#[derive(Debug, Default)]
pub(crate) struct Learned {
    /// How results are represented, by the value that holds them.
    pub(crate) outputs: HashMap<ValueId, Output>,
    weights: Vec<Vec<i32>>,
}

impl Learned {
    /// Reads and removes pairs of `QuantizeLinear` and `DequantizeLinear`, and dequantizes constants.
    /// What has another form stays, and is computed in floating point.
    pub(crate) fn take_out(model: &mut Model) -> Learned {
        let graph = &mut model.graph;
        let mut learned = Learned::default();
        for id in graph.topological().unwrap_or_default() {
            if let Some(dq) = At::<DequantizeLinear>::find(graph, id) {
                let _ = learned.constant(graph, &dq);
            }
        }
        // While the quantizers are there, no normalization behind one is folded into what is
        // before it.
        canonicalize(graph, &model.opsets);
        for id in graph.topological().unwrap_or_default() {
            if let Some(dq) = At::<DequantizeLinear>::find(graph, id) {
                let _ = learned.output(graph, &dq);
            }
        }
        learned
    }

    /// The integers of a layer's weights, outputs first.
    pub(crate) fn weights_of(&self, node: &Node) -> Option<&[i32]> {
        let (_, at) = node.metadata.iter().find(|(key, _)| key == KEY)?;
        self.weights.get(at.parse::<usize>().ok()?).map(Vec::as_slice)
    }

    fn constant(&mut self, graph: &mut Graph, dq: &At<DequantizeLinear>) -> Option<()> {
        let data = graph.constant(dq.x).filter(|t| !t.dtype().is_float())?.to_reals()?;
        let steps = graph.constant(dq.x_scale)?.to_reals()?.values;
        let zeros = match dq.x_zero_point {
            Some(v) => graph.constant(v)?.to_reals()?.values,
            None => vec![0.0],
        };
        let rank = data.dims.len();
        let axis = axis_at(dq.axis, rank).unwrap_or(rank);
        let along = data.dims.get(axis).copied().unwrap_or(1).max(1);
        let inner = data.dims.iter().skip(axis + 1).product::<usize>().max(1);
        if dq.block_size != 0 || [&steps, &zeros].iter().any(|l| l.len() != 1 && l.len() != along) {
            return None;
        }
        let of = |list: &[f64], i: usize| list[if list.len() == 1 { 0 } else { i / inner % along }];
        let values = data.values.iter().enumerate();
        let integers: Vec<i32> = values.map(|(i, q)| (q - of(&zeros, i)) as i32).collect();
        let reals = integers.iter().enumerate();
        let reals = reals.map(|(i, q)| (f64::from(*q) * of(&steps, i)) as f32).collect();
        for reader in graph.readers(dq.out).to_vec() {
            let rows_last = match graph[reader].op.as_str() {
                "Conv" => false,
                "Gemm" => graph[reader].int("transB", 0) == 0,
                "MatMul" if rank == 2 => true,
                _ => continue,
            };
            if graph[reader].input(1) != Some(dq.out) {
                continue;
            }
            let own = match rows_last {
                true => transposed(&integers, data.dims[0], data.dims[1]),
                false => integers.clone(),
            };
            let at = self.weights.len().to_string();
            self.weights.push(own);
            graph.node_mut(reader).metadata.push((KEY.to_owned(), at));
        }
        let name = graph[dq.out].name.clone();
        let w = graph.add_initializer(&name, Tensor::from_vec(data.dims, reals));
        graph.replace_uses(dq.out, w);
        graph.remove_node(dq.node);
        Some(())
    }

    fn output(&mut self, graph: &mut Graph, dq: &At<DequantizeLinear>) -> Option<()> {
        let only = |graph: &Graph, v: ValueId| graph.uses(v) == 1 && !graph.is_output(v);
        let q = At::<QuantizeLinear>::find(graph, graph.producer(dq.x)?)?;
        let [step, same] = [q.y_scale, dq.x_scale].map(|v| graph.constant(v).and_then(scalar));
        let step = step.filter(|s| same == Some(*s) && *s > 0.0 && s.is_finite())?;
        let zero = |v: Option<ValueId>| match v {
            Some(v) => graph.constant(v).is_some_and(|t| t.bytes().iter().all(|b| *b == 0)),
            None => true,
        };
        let plain = q.block_size == 0 && dq.block_size == 0;
        if !plain || !only(graph, q.out) || !zero(q.y_zero_point) || !zero(dq.x_zero_point) {
            return None;
        }
        let stored = q.y_zero_point.and_then(|v| graph.constant(v)).map(Tensor::dtype);
        let (signed, mut bits) = match stored.unwrap_or(DataType::Uint8) {
            DataType::Uint8 => (false, 8),
            DataType::Int8 => (true, 8),
            DataType::Uint16 => (false, 16),
            DataType::Int16 => (true, 16),
            _ => return None,
        };
        let (mut first, mut nodes) = (q.x, vec![dq.node, q.node]);
        if let Some(clip) = graph.producer(q.x).and_then(|id| At::<Clip>::find(graph, id))
            && only(graph, q.x)
            && !signed
            && let Some(fewer) = levels(graph, &clip, step).filter(|fewer| *fewer <= bits)
        {
            (first, bits) = (clip.input, fewer);
            nodes.push(clip.node);
        }
        let producer = graph.producer(first).filter(|_| only(graph, first))?;
        let slot = graph[producer].outputs.iter().position(|v| *v == Some(first))?;
        for node in nodes {
            graph.remove_node(node);
        }
        graph.set_output(producer, slot, dq.out);
        self.outputs.insert(dq.out, Output { signed, bits, scale: step.into() });
        separate_activations(graph, dq.out);
        Some(())
    }
}

/// Bits of the integers that a clip before a quantizer leaves.
fn levels(graph: &Graph, clip: &At<Clip>, step: f32) -> Option<u32> {
    let bound = |v: Option<ValueId>| scalar(graph.constant(v?)?);
    let (lo, hi) = (bound(clip.min)?, bound(clip.max)?);
    let top = hi / step;
    let levels = top.round() as u32 + 1;
    let whole = lo == 0.0 && (top - top.round()).abs() < 1e-3 && levels < 1 << 17;
    (whole && levels > 1 && levels.is_power_of_two()).then(|| levels.ilog2())
}

/// An activation behind a quantizer is none of the layer before the quantizer.
fn separate_activations(graph: &mut Graph, v: ValueId) {
    let activates = |id: &NodeId| graph[*id].is("Relu") || graph[*id].is("Clip");
    let readers: Vec<NodeId> = graph.readers(v).iter().copied().filter(activates).collect();
    if readers.is_empty() {
        return;
    }
    let (name, ty) = (format!("{}_rounded", graph[v].name), graph[v].ty.clone());
    let same = graph.add_value(&name, ty);
    let layers = graph[readers[0]].layers.clone();
    graph.add_node(Node { layers, ..Node::new("Identity", [v], [same]) });
    for reader in readers {
        for slot in 0..graph[reader].inputs.len() {
            if graph[reader].input(slot) == Some(v) {
                graph.set_input(reader, slot, Some(same));
            }
        }
    }
}
