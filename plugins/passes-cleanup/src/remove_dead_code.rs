//! Removes nodes that no output depends on, optional outputs and outputs of sub-graphs that nothing reads, and local
//! functions that nothing applies.

use crate::dead_outputs;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{Graph, Model};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext};
use std::collections::HashSet;

pub(crate) struct RemoveDeadCode;

impl Pass for RemoveDeadCode {
    fn name(&self) -> &'static str {
        "remove-dead-code"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, opset| remove_nodes(graph, opset, cx));
        remove_functions(model, cx);
        Ok(())
    }
}

/// Readers before producers, so that one sweep suffices.
fn remove_nodes(graph: &mut Graph, opset: i64, cx: &mut PassContext) {
    for id in graph.topological().unwrap_or_default().into_iter().rev() {
        if cx.fuel.is_empty() {
            return;
        }
        if graph[id].outputs.iter().flatten().all(|v| graph.uses(*v) == 0) {
            graph.remove_node(id);
            cx.rewrote();
        } else if dead_outputs::remove(graph, id, opset) {
            graph.edit_subgraphs(id, |inner| remove_nodes(inner, opset, cx));
            cx.rewrote();
        } else if dead_outputs::leave_out(graph, id, opset) {
            cx.rewrote();
        }
    }
}

pub(crate) fn remove_functions(model: &mut Model, cx: &mut PassContext) {
    loop {
        let mut applied: HashSet<(String, String)> = HashSet::new();
        model.for_each_graph(|graph| {
            applied.extend(graph.nodes().map(|(_, n)| (n.domain.clone(), n.op.clone())));
        });
        let before = model.functions.len();
        model.functions.retain(|f| applied.contains(&(f.domain.clone(), f.name.clone())));
        let removed = before - model.functions.len();
        (0..removed).for_each(|_| cx.rewrote());
        if removed == 0 {
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_pass_same, check_pass_skip};

    #[test]
    fn a_chain_nobody_reads() {
        let model = check_pass_same(
            &RemoveDeadCode,
            "g (float[2] x) => (float[2] y)
             {
               a = Relu(x)
               b = Neg(a)
               y = Abs(x)
             }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn optional_outputs_that_nothing_reads() {
        let outputs = |shapes: &str, nodes: &str| {
            let graph =
                format!("g (float[2,3,4] x, float[4] s) => (float[{shapes}] y) {{ {nodes} }}");
            let model = check_pass_same(&RemoveDeadCode, &graph);
            model.graph.nodes().next().unwrap().1.outputs.len()
        };
        assert_eq!(outputs("2,3,4", "y, mean, deviation = LayerNormalization(x, s)"), 1);
        let nodes = "v, mean, y = LayerNormalization(x, s)";
        check_pass_skip(
            &RemoveDeadCode,
            "",
            &format!("g (float[2,3,4] x, float[4] s) => (float[2,3,1] y) {{ {nodes} }}"),
        );
        assert_eq!(outputs("2,3,3", "y, at = MaxPool<kernel_shape = [2]>(x)"), 1);
    }

    /// Without them it would not train.
    #[test]
    fn statistics_stay() {
        check_pass_skip(
            &RemoveDeadCode,
            "",
            "g (float[2,3,4] x, float[3] c) => (float[2,3,4] y)
             { y, mean, variance = BatchNormalization<training_mode = 1>(x, c, c, c, c) }",
        );
    }

    #[test]
    fn outputs_of_branches_that_nothing_reads() {
        let model = check_pass_same(
            &RemoveDeadCode,
            "g (float[2] x, bool c) => (float[2] y)
             {
               d, y = If (c) <
                 then_branch = t () => (float[2] p, float[2] q) { p = Relu(x) q = Neg(x) },
                 else_branch = e () => (float[2] r, float[2] s) { r = Neg(x) s = Abs(x) }
               >
             }",
        );
        assert_eq!(nodes_inside(&model), [1, 1]);
    }

    /// `a` is read by what `b` becomes, `c` by nothing but itself, and the last output by nothing.
    #[test]
    fn what_a_loop_carries_for_nothing() {
        let model = check_pass_same(
            &RemoveDeadCode,
            "g (float[2] x) => (float[2] y, float[3,2] z)
             <int64 n = {3}, bool go = {1}>
             {
               a, y, c, z, w = Loop (n, go, x, x, x) <
                 body = l (int64 i, bool k, float[2] p, float[2] q, float[2] r)
                   => (bool k2, float[2] p2, float[2] q2, float[2] r2, float[2] s, float[2] t) {
                   k2 = Identity(k)
                   p2 = Neg(p)
                   q2 = Add(p, q)
                   r2 = Exp(r)
                   s = Mul(p, q)
                   t = Mul(q, q)
                 }
               >
             }",
        );
        assert_eq!(nodes_inside(&model), [4]);
        let (_, node) = model.graph.nodes().next().unwrap();
        assert_eq!((node.inputs.len(), node.outputs.len()), (4, 3));
    }

    #[test]
    fn what_a_scan_gives_for_nothing() {
        let model = check_pass_same(
            &RemoveDeadCode,
            "g (float[3,2] x, float[2] h) => (float[2] y, float[2,3] z)
             {
               y, c, w, z = Scan <num_scan_inputs = 1, scan_output_axes = [0, 1],
                 body = l (float[2] p, float[2] q, float[2] v)
                   => (float[2] p2, float[2] q2, float[2] s, float[2] t) {
                   p2 = Add(p, v)
                   q2 = Mul(q, v)
                   s = Neg(q)
                   t = Mul(p, v)
                 }
               > (h, h, x)
             }",
        );
        assert_eq!(nodes_inside(&model), [2]);
        let (_, node) = model.graph.nodes().next().unwrap();
        assert_eq!((node.inputs.len(), node.outputs.len()), (2, 2));
    }

    #[test]
    fn what_decides_whether_to_go_on_stays() {
        check_pass_skip(
            &RemoveDeadCode,
            "",
            "g (float[2] x) => (float[2] y)
             <int64 n = {3}, bool go = {1}, float zero = {0.0}, float one = {1.0}>
             {
               a, y = Loop (n, go, zero, x) <
                 body = l (int64 i, bool k, float p, float[2] q)
                   => (bool k2, float p2, float[2] q2) {
                   k2 = Less(p, one)
                   p2 = Add(p, one)
                   q2 = Neg(q)
                 }
               >
             }",
        );
    }

    fn nodes_inside(model: &Model) -> Vec<usize> {
        let inner = model.graph.nodes().flat_map(|(_, node)| node.subgraphs());
        inner.map(Graph::node_count).collect()
    }
}
