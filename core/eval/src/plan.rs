//! What is known of a graph before any run: the order of its nodes, and what may be computed together or kept.

use crate::fault::layer_of;
use crate::fold::is_deterministic;
use crate::step_nodes::may_follow;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Attr, Graph, NodeId, Tensor, ValueId};
use std::collections::HashMap;
use std::sync::OnceLock;

/// What is known of a graph before any run.
pub(crate) struct GraphPlan {
    /// Nodes in the order of evaluation.
    pub(crate) order: Vec<NodeId>,
    /// For each place in `order`: values that nothing reads afterwards.
    pub(crate) last_reads: Vec<Vec<ValueId>>,
    /// For each place in `order`: what may be computed along with the node.
    pub(crate) next_steps: Vec<Option<Next>>,
    /// For each place in `order` whose node computes the same in every run: what it computed.
    pub(crate) constants: Vec<Option<OnceLock<Vec<Tensor>>>>,
    /// (own value, value of the enclosing graph).
    pub(crate) captures: Vec<(ValueId, ValueId)>,
    pub(crate) values: usize,
}

impl GraphPlan {
    pub(crate) fn new(graph: &Graph) -> Result<GraphPlan, Diagnostic> {
        let order = graph.topological().map_err(|cycle| {
            let layer = layer_of(&graph[cycle[0]], Some(graph));
            Diagnostic::new(Code::OnnxInvalid, "the node depends on its own output").at(layer)
        })?;
        let values = graph.value_ids().count();
        let mut kept = vec![false; values];
        graph.outputs().iter().for_each(|v| kept[v.index()] = true);
        let mut last_reads = vec![Vec::new(); order.len()];
        for (place, id) in order.iter().enumerate().rev() {
            let node = &graph[*id];
            for v in node.reads().chain(node.outputs.iter().flatten().copied()) {
                if !std::mem::replace(&mut kept[v.index()], true) {
                    last_reads[place].push(v);
                }
            }
        }
        let next_steps = next_steps(graph, &order);
        let constants = constants(graph, &order);
        let captures = graph.captures().collect();
        Ok(GraphPlan { order, last_reads, next_steps, constants, captures, values })
    }
}

/// What may be computed along with a node, as its next step.
#[derive(Clone, Copy)]
pub(crate) struct Next {
    /// The place of the node.
    pub(crate) place: usize,
    /// The place of a Sigmoid before it, where the node is the Mul of SiLU.
    pub(crate) gate: Option<usize>,
}

/// For each node of `order` what may follow it as a step.
fn next_steps(graph: &Graph, order: &[NodeId]) -> Vec<Option<Next>> {
    let places: HashMap<NodeId, usize> = order.iter().copied().zip(0..).collect();
    let place = |id: NodeId| places.get(&id).copied();
    let follows = |id: NodeId| {
        let node = &graph[id];
        node.is_standard() && may_follow(&node.op) && node.outputs.len() == 1
    };
    let next_step = |id: &NodeId| {
        let node = &graph[*id];
        let begins = node.op == "Conv" || may_follow(&node.op);
        let [Some(v)] = node.outputs[..] else { return None };
        if !begins || !node.is_standard() {
            return None;
        }
        let readers = graph.readers(v);
        match (graph.uses(v), readers) {
            (1, [reader]) if follows(*reader) => Some(Next { place: place(*reader)?, gate: None }),
            (2, [a, b]) => {
                let (gate, product) = if graph[*a].op == "Sigmoid" { (*a, *b) } else { (*b, *a) };
                let s = graph[gate].output(0).filter(|s| graph.uses(*s) == 1)?;
                let silu = graph[gate].op == "Sigmoid" && graph[product].op == "Mul";
                let silu = silu && follows(gate) && follows(product);
                let silu = silu && graph.readers(s) == [product];
                silu.then(|| Some(Next { place: place(product)?, gate: Some(place(gate)?) }))?
            }
            _ => None,
        }
    };
    order.iter().map(next_step).collect()
}

/// Room for the outputs of each node of `order` that has nothing but constants for inputs, such as
/// the dequantized weights of a model that is run on many samples.
fn constants(graph: &Graph, order: &[NodeId]) -> Vec<Option<OnceLock<Vec<Tensor>>>> {
    let mut known = vec![false; graph.value_ids().len()];
    for v in graph.value_ids() {
        known[v.index()] = graph[v].initializer().is_some();
    }
    graph.inputs().iter().for_each(|v| known[v.index()] = false);
    let mut constant = |id: &NodeId| {
        let node = &graph[*id];
        let bound = node.attrs.iter().any(|(_, a)| matches!(a, Attr::Ref { .. } | Attr::Graph(_)));
        let all = node.inputs.iter().flatten().all(|v| known[v.index()]);
        if node.inputs.is_empty() || bound || !all || !is_deterministic(node) {
            return None;
        }
        node.outputs.iter().flatten().for_each(|v| known[v.index()] = true);
        Some(OnceLock::new())
    };
    order.iter().map(&mut constant).collect()
}

/// What a graph is known by, while the model is borrowed.
pub(crate) fn address<T>(of: &T) -> usize {
    std::ptr::from_ref(of).addr()
}
