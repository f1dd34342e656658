//! Removes nodes that no output depends on, and local functions that nothing applies.

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
        model.for_each_graph_mut(&mut |graph, _| remove_nodes(graph, cx));
        remove_functions(model, cx);
        Ok(())
    }
}

/// Readers before producers, so that one sweep suffices.
fn remove_nodes(graph: &mut Graph, cx: &mut PassContext) {
    for id in graph.topological().unwrap_or_default().into_iter().rev() {
        let dead = graph[id].outputs.iter().flatten().all(|v| graph.uses(*v) == 0);
        if dead && !cx.fuel.is_empty() {
            graph.remove_node(id);
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
    use onnxd_plugin_sdk::rewrite::check::check_pass_same;

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
}
