//! What training with fake quantization leaves: weights in float that the graph rounds while it
//! runs, `QuantizeLinear(W) -> DequantizeLinear`. They become the integers that they are rounded
//! to, with the scales that were learned.

use crate::graph::quantized::{each_graph, is_linear, quantized_by};
use onnxd_eval::eval_node;
use onnxd_ir::{Graph, Model, NodeId, Tensor};

/// Turns every constant that a `QuantizeLinear` rounds into its integers; returns the names of the
/// constants.
pub fn fold_fake_quantization(model: &mut Model) -> Vec<String> {
    let opset = model.opset();
    let mut folded = Vec::new();
    each_graph(&mut model.graph, &mut |graph| {
        for id in graph.node_ids() {
            folded.extend(fold_one(graph, id, opset));
        }
    });
    folded
}

/// The name of the constant that the node rounded; `None` if it stays because it rounds none, its
/// scale is not known or it is a result of the graph.
fn fold_one(graph: &mut Graph, id: NodeId, opset: i64) -> Option<String> {
    let node = graph.node(id).filter(|node| is_linear(node, "QuantizeLinear"))?;
    let (x, q) = (node.input(0)?, quantized_by(graph, node).ok()?.q);
    // The kernel rounds to integers of 64 bits first.
    let room = graph.constant(x)?.len().saturating_mul(size_of::<i64>());
    if graph.is_output(q) {
        return None;
    }
    let operand = |v: &Option<_>| match v {
        Some(v) => graph.constant(*v).cloned().map(Some),
        None => Some(None),
    };
    let operands: Vec<Option<Tensor>> = node.inputs.iter().map(operand).collect::<Option<_>>()?;
    let integers = eval_node(node, opset, &operands, room).ok()?.into_iter().next()?;
    let name = graph[x].name.clone();
    graph.remove_node(id);
    graph.set_initializer(q, Some(integers));
    Some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::{DataType, text};

    #[test]
    fn weights_become_what_they_are_rounded_to() {
        let graph = text::parse_graph(
            "g (float[1,2] x) => (float[1,2] y, uint8[1,2] z)
             <float[2,2] w = {0.1, -3.0, 0.26, 0.04}, float[2] s = {0.1, 0.02}, int8[2] o = {0, 0},
              float t = {0.5}, uint8 p = {128}, float[1,2] k = {1.0, 2.0}>
             {
               q = QuantizeLinear<axis = 1>(w, s, o)
               d = DequantizeLinear<axis = 1>(q, s, o)
               xq = QuantizeLinear(x, t, p)
               xd = DequantizeLinear(xq, t, p)
               y = MatMul(xd, d)
               z = QuantizeLinear(k, t, p)
             }",
        );
        let mut model = Model::new(graph.unwrap(), 8, 17);
        assert_eq!(fold_fake_quantization(&mut model), ["w"]);
        let graph = &model.graph;
        let q = graph.constant(graph.value_named("q").unwrap()).unwrap();
        assert_eq!((q.dtype(), q.to_i64s().unwrap()), (DataType::Int8, vec![1, -128, 3, 2]));
        // What depends on the input, and what the graph returns, stay.
        let rounds = graph.nodes().filter(|(_, node)| node.op == "QuantizeLinear").count();
        assert_eq!(rounds, 2);
        assert!(fold_fake_quantization(&mut model).is_empty());
    }
}
