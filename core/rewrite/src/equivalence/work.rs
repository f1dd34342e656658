//! How much work it is to run a part of a model.

use onnxd_ir::{Dim, Graph, GraphPart, Model, Node, NodeId, ValueId, ValueType};
use std::collections::HashSet;

/// Size of axes that a model leaves open.
const OPEN_SIZE: usize = 2;
/// Work of a node whose sizes are not known.
const UNKNOWN_WORK: u64 = 1 << 20;
/// Work of an element that is drawn or compared: several operations in double precision, none of them vectors.
const ELEMENT_WORK: u64 = 32;

/// The sizes that a value gets; `None` if its rank is not known.
pub(super) fn sizes(ty: &ValueType) -> Option<Vec<usize>> {
    let size = |d: &Dim| d.known().map_or(OPEN_SIZE, |n| usize::try_from(n).unwrap_or(0));
    Some(ty.shape()?.iter().map(size).collect())
}

fn elements(graph: &Graph, v: ValueId) -> u64 {
    let sizes = graph[v].ty.as_ref().and_then(sizes);
    sizes.map_or(UNKNOWN_WORK, |s| s.iter().fold(1u64, |n, s| n.saturating_mul(*s as u64)))
}

/// About how many multiplications and additions a part takes, each node `functions` more.
pub(super) fn work(functions: u64, part: &GraphPart) -> u64 {
    let graph = &part.graph;
    let nodes = graph.nodes().map(|(_, n)| of_node(graph, n).saturating_add(functions));
    let nodes = nodes.fold(0, u64::saturating_add);
    let handled = graph.inputs().iter().chain(graph.outputs());
    let handled = handled.map(|v| elements(graph, *v)).fold(0, u64::saturating_add);
    nodes.saturating_add(handled.saturating_mul(ELEMENT_WORK))
}

/// What a node may take that applies a function.
pub(super) fn inside_functions(whole: &Model) -> u64 {
    whole.functions.iter().map(|f| f.graph.node_count() as u64).sum()
}

fn of_node(graph: &Graph, node: &Node) -> u64 {
    if node.subgraphs().next().is_some() {
        return UNKNOWN_WORK.saturating_mul(64);
    }
    let all = |values: &[Option<ValueId>]| {
        values.iter().flatten().map(|v| elements(graph, *v)).fold(0, u64::saturating_add)
    };
    all(&node.outputs).saturating_mul(depth(graph, node)).saturating_add(all(&node.inputs))
}

/// What has to be computed for values to follow from the inputs of a model.
pub(super) struct Reached<'m> {
    model: &'m Model,
    functions: u64,
    nodes: HashSet<NodeId>,
    inputs: HashSet<ValueId>,
}

impl<'m> Reached<'m> {
    /// Nothing so far.
    pub(super) fn of(model: &'m Model) -> Reached<'m> {
        let functions = inside_functions(model);
        Reached { model, functions, nodes: HashSet::new(), inputs: HashSet::new() }
    }

    /// Adds `v`. Gives the work that it takes beside what was added before, as [`work`] counts it.
    pub(super) fn add(&mut self, v: ValueId) -> u64 {
        let graph = &self.model.graph;
        let handled = |v: ValueId| elements(graph, v).saturating_mul(ELEMENT_WORK);
        let (mut pending, mut work) = (vec![v], handled(v));
        while let Some(v) = pending.pop() {
            match graph.producer(v) {
                Some(id) if self.nodes.insert(id) => {
                    let node = of_node(graph, &graph[id]).saturating_add(self.functions);
                    work = work.saturating_add(node);
                    pending.extend(graph[id].reads());
                }
                None if graph.constant(v).is_none() && self.inputs.insert(v) => {
                    work = work.saturating_add(handled(v));
                }
                _ => {}
            }
        }
        work
    }
}

/// How many products go into one element of the output.
fn depth(graph: &Graph, node: &Node) -> u64 {
    let sizes_of = |i: usize| node.input(i).and_then(|v| graph[v].ty.as_ref()).and_then(sizes);
    let product = |sizes: &[usize]| sizes.iter().fold(1u64, |n, s| n.saturating_mul(*s as u64));
    match node.op.as_str() {
        "Conv" | "ConvInteger" | "QLinearConv" | "ConvTranspose" | "DeformConv" => {
            sizes_of(if node.op == "QLinearConv" { 3 } else { 1 })
                .map_or(64, |w| product(&w[1.min(w.len())..]))
        }
        "MatMul" | "Gemm" | "MatMulInteger" | "QLinearMatMul" => {
            sizes_of(0).and_then(|x| x.last().copied()).map_or(64, |k| k as u64)
        }
        "LSTM" | "GRU" | "RNN" => {
            sizes_of(1).map_or(4096, |w| product(&w[w.len().min(2)..]).saturating_mul(8))
        }
        "Attention" | "Einsum" | "DFT" | "STFT" => 256,
        _ => 1,
    }
}
