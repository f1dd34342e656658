//! Computes what depends on constants only, so that runtimes need not and other passes see the values.
//!
//! A result may be larger than what it is computed from by [`GROWTH_BYTES_MAX`] at most: a model that describes its
//! weights by `ConstantOfShape` or `Expand` stays small. `DequantizeLinear` and its kin stay: they
//! say how a weight is stored.

use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::eval;
use onnxd_plugin_sdk::ir::{Attr, Graph, Model, Node, NodeId, Tensor};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Skip, for_each_graph_mut};

/// How much larger a folded result may be than its operands.
const GROWTH_BYTES_MAX: usize = 64 << 10;

/// Operators whose presence is the point.
const KEPT: [&str; 4] =
    ["QuantizeLinear", "DequantizeLinear", "DynamicQuantizeLinear", "OptionalHasElement"];

pub(crate) struct FoldConstants;

impl Pass for FoldConstants {
    fn name(&self) -> &'static str {
        "fold-constants"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostic> {
        for_each_graph_mut(model, &mut |graph, opset| fold(graph, opset, cx));
        Ok(())
    }
}

fn fold(graph: &mut Graph, opset: i64, cx: &mut PassContext) {
    for id in graph.topological().unwrap_or_default() {
        if cx.fuel.is_empty() {
            break;
        }
        let Some(operands) = operands(graph, &graph[id]) else { continue };
        let at = graph[id].output(0).map(|v| graph[v].name.clone()).unwrap_or_default();
        match compute(graph, id, opset, &operands) {
            Ok(results) => {
                replace(graph, id, results);
                cx.rewrote();
            }
            Err(reason) => cx.skip(&at, reason),
        }
    }
}

/// The node's inputs, if all are constants and the node may be computed at all.
fn operands(graph: &Graph, node: &Node) -> Option<Vec<Option<Tensor>>> {
    let foldable = node.is_standard()
        && eval::is_deterministic(node)
        && !KEPT.contains(&node.op.as_str())
        && node.subgraphs().next().is_none()
        && node.output(0).is_some()
        && !node.attrs.iter().any(|(_, a)| matches!(a, Attr::Ref { .. }));
    let constant = |v: &Option<_>| match v {
        None => Some(None),
        Some(v) => graph.constant(*v).cloned().map(Some),
    };
    if foldable { node.inputs.iter().map(constant).collect() } else { None }
}

fn compute(
    graph: &Graph,
    id: NodeId,
    opset: i64,
    operands: &[Option<Tensor>],
) -> Result<Vec<Tensor>, Skip> {
    let node = &graph[id];
    if node.outputs.iter().flatten().any(|v| graph.is_output(*v)) {
        return Skip::because("it computes a graph output");
    }
    let operand_bytes: usize = operands.iter().flatten().map(Tensor::byte_len).sum();
    let bytes_max = operand_bytes + GROWTH_BYTES_MAX;
    eval::eval_node(node, opset, operands, bytes_max).map_err(|d| Skip(d.message))
}

fn replace(graph: &mut Graph, id: NodeId, results: Vec<Tensor>) {
    let node = graph.remove_node(id);
    for (output, result) in node.outputs.into_iter().zip(results) {
        if let Some(v) = output {
            graph.set_initializer(v, Some(result));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    #[test]
    fn a_chain_of_constants() {
        let model = check_pass_same(
            &FoldConstants,
            "g (float[6] x) => (float[2,3] y)
             <int64[2] a = {1, 1}>
             {
               one = Constant<value = int64[2] {1, 2}>()
               shape = Add(a, one)
               y = Reshape(x, shape)
             }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn a_result_that_is_much_larger_is_left_alone() {
        check_pass_skip(
            &FoldConstants,
            "",
            "g (float[1] x) => (float[1000,1000] y)
             <int64[2] shape = {1000, 1000}>
             {
               zeros = ConstantOfShape(shape)
               y = Add(x, zeros)
             }",
        );
    }

    #[test]
    fn an_attribute_that_the_caller_of_a_function_gives_is_not_known() {
        let mut model = Model::new(Graph::new("g"), 8, 17);
        let mut body = Graph::new("F");
        let c = body.add_initializer("c", Tensor::vector(vec![-1.0f32]));
        let y = body.add_value("y", None);
        let alpha = Attr::Ref { name: "slope".into(), kind: 1 };
        body.add_node(Node::new("LeakyRelu", [c], [y]).with("alpha", alpha));
        let z = body.add("z", onnxd_plugin_sdk::ir::ops::Relu::new(y));
        body.mark_output(z);
        let opsets = model.opsets.clone();
        let function = onnxd_plugin_sdk::ir::Function { graph: body, opsets, ..Default::default() };
        model.functions.push(function);
        let mut cx = PassContext::new("test", onnxd_plugin_sdk::rewrite::Fuel::UNLIMITED);
        FoldConstants.run(&mut model, &mut cx).unwrap();
        assert_eq!((cx.report.rewrites, model.functions[0].graph.node_count()), (0, 2));
    }

    #[test]
    fn inside_a_branch() {
        check_pass_same(
            &FoldConstants,
            "g (bool b, float[2] x) => (float[2] y)
             {
               y = If (b) <
                 then_branch = t () => (float[2] p) <float[2] w = {1.0, 2.0}> { s = Add(w, w) p = Mul(x, s) },
                 else_branch = e () => (float[2] q) { q = Neg(x) }
               >
             }",
        );
    }
}
