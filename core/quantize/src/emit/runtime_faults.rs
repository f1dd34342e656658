//! Works around two faults of ONNX Runtime (seen in 1.31). Where it knows all sizes, it makes one `Gemm` of a `MatMul`
//! with more than two axes and the `Add` of a vector. It has no operator on integers for such a `Gemm` with a bias in
//! float, dequantizes the weights in each run and takes 1.2 to 5 times as long as the operator on integers. A vector
//! with further axes of size 1 is added as it is.
//!
//! On processors without instructions for sums of 8-bit products it computes on `uint8` where a model says `int8`. The
//! `QuantizeLinear` that it writes before that `Gemm` claims `int8` from operator set 21 on, and the model is refused.

use crate::graph::quantized::{dequantize_source, rank_of};
use onnxd_ir::{DataType, Graph, Model, Node, NodeId, Tensor, infer};

/// The operator set whose `QuantizeLinear` says its type.
const TYPED_SINCE: i64 = 21;

/// Gives the biases of products as many axes as the products have, where ONNX Runtime would make a `Gemm` of both.
pub fn keep_bias_unfused(model: &mut Model) {
    let typed = model.opset() >= TYPED_SINCE;
    // What is wrong with the types is found when the result is verified.
    let _ = infer(model);
    let graph = &mut model.graph;
    for id in graph.node_ids() {
        if let Some((add, slot, rank)) = sum(graph, &graph[id], typed) {
            widen(graph, add, slot, rank);
        }
    }
}

/// The sum of a product and a vector, where the vector is, and the axes of the product.
fn sum(graph: &Graph, node: &Node, typed: bool) -> Option<(NodeId, usize, usize)> {
    let x = node.input(0).filter(|_| node.is("MatMul"))?;
    let value = dequantize_source(graph, x).ok()?;
    let dims = graph[x].shape();
    let fused = dims.is_some_and(|dims| dims.iter().all(|dim| dim.known().is_some()));
    let bytes = value.dtype == DataType::Int8 && typed
        || matches!(value.dtype, DataType::Int8 | DataType::Uint8) && fused;
    if !bytes || dequantize_source(graph, node.input(1)?).is_err() {
        return None;
    }
    let rank = rank_of(graph, x).or_else(|| rank_of(graph, value.q)).filter(|rank| *rank > 2)?;
    let out = node.output(0)?;
    let [add] = *graph.readers(out) else { return None };
    let slot = graph[add].inputs.iter().position(|v| *v != Some(out))?;
    let vector = rank_of(graph, graph[add].input(slot)?) == Some(1);
    (graph[add].is("Add") && vector).then_some((add, slot, rank))
}

fn widen(graph: &mut Graph, add: NodeId, slot: usize, rank: usize) {
    let Some(v) = graph[add].input(slot) else { return };
    let name = format!("{}_wide", graph[v].name);
    let constant = graph.constant(v).and_then(|vector| {
        vector.reshaped([vec![1; rank - 1], vector.dims().to_vec()].concat()).ok()
    });
    let wide = match constant {
        Some(wide) => graph.add_initializer(&name, wide),
        None => {
            let axes = Tensor::vector((0..rank as i64 - 1).collect());
            let axes = graph.add_initializer(&format!("{name}_axes"), axes);
            let wide = graph.add_value(&name, None);
            graph.add_node(Node::new("Unsqueeze", [v, axes], [wide]));
            wide
        }
    };
    graph.set_input(add, slot, Some(wide));
    if graph.constant(v).is_some() {
        graph.drop_unread([v]);
    }
}
