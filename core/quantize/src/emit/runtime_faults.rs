//! Works around a fault of ONNX Runtime (seen in 1.31) on processors without instructions for sums
//! of 8-bit products. There it computes on `uint8` where a model says `int8`, and it makes one
//! `Gemm` of a `MatMul` with more than two axes and the `Add` of a vector. The `QuantizeLinear`
//! that it writes in between claims `int8` from operator set 21 on, and the model is refused. A
//! vector with further axes of size 1 is added as it is.

use crate::graph::quantized::{dequantize_source, rank_of};
use onnxd_ir::{DataType, Graph, Model, Node, NodeId, Tensor, infer};

/// The operator set whose `QuantizeLinear` says its type.
const TYPED_SINCE: i64 = 21;

/// Gives the biases of weighted operators with `int8` as many axes as the weighted operators have.
pub fn keep_bias_unfused(model: &mut Model) {
    if model.opset() < TYPED_SINCE {
        return;
    }
    // What is wrong with the types is found when the result is verified.
    let _ = infer(model);
    let graph = &mut model.graph;
    for id in graph.node_ids() {
        if let Some((add, slot, rank)) = sum(graph, &graph[id]) {
            widen(graph, add, slot, rank);
        }
    }
}

/// The sum of a product and a vector, where the vector is, and the axes of the product.
fn sum(graph: &Graph, node: &Node) -> Option<(NodeId, usize, usize)> {
    let x = node.input(0).filter(|_| node.is("MatMul"))?;
    let value = dequantize_source(graph, x).ok().filter(|value| value.dtype == DataType::Int8)?;
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
