//! Puts the branch of an `If` with a constant condition in its place.
//!
//! ```onnx
//! before (float[2] x) => (float[2] y)
//! <bool c = {1}>
//! {
//!   y = If (c) <
//!     then_branch = t () => (float[2] p) { p = Relu(x) },
//!     else_branch = e () => (float[2] q) { q = Neg(x) }
//!   >
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2] x) => (float[2] y)
//! {
//!   y = Relu(x)
//! }
//! ```

use crate::inline_functions::deliver;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::text::inline;
use onnxd_plugin_sdk::ir::{Attr, Graph, Model, NodeId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Skip};

pub(crate) struct InlineBranches;

impl Pass for InlineBranches {
    fn name(&self) -> &'static str {
        "inline-branches"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        model.for_each_graph_mut(&mut |graph, _| {
            let mut pending = graph.node_ids();
            while let Some(id) = pending.pop() {
                let Some(node) = graph.node(id).filter(|node| node.is("If")) else { continue };
                let at = node.outputs.iter().flatten().next().map(|v| graph[*v].name.clone());
                if cx.fuel.is_empty() {
                    return;
                }
                let bound = graph.node_bound();
                match in_place(graph, id) {
                    // A branch inside may read its condition from here.
                    Ok(()) => {
                        cx.rewrote();
                        pending.extend(graph.nodes_from(bound));
                    }
                    Err(why) => cx.skip(&at.unwrap_or_default(), why),
                }
            }
        });
        Ok(())
    }
}

fn in_place(graph: &mut Graph, id: NodeId) -> Rewrite {
    let node = &graph[id];
    let condition = node.input(0).and_then(|v| graph.constant(v)?.to_i64s());
    let name = match condition.as_deref() {
        Some([0]) => "else_branch",
        Some([_]) => "then_branch",
        _ => return Skip::because("the condition is not constant"),
    };
    let Some(Attr::Graph(branch)) = node.attr(name) else {
        return Skip::because(format!("it has no `{name}`"));
    };
    let mut body: Graph = Graph::clone(branch);
    let (layers, captures) = (node.layers.clone(), body.close());
    let bindings: Vec<_> = captures.iter().map(|(name, v)| (name.as_str(), *v)).collect();
    let bound = graph.node_bound();
    let made = inline(graph, "", &body, &bindings).map_err(|d| Skip(d.into_finding().message))?;
    deliver(graph, id, bound, &made);
    for id in graph.nodes_from(bound) {
        graph.node_mut(id).layers.add(&layers);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::text::print_graph;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("inline_branches.rs"), &InlineBranches);
    }

    /// Inner branches first; what a branch only hands on, and what it holds.
    #[test]
    fn nested_branches_and_what_they_hand_on() {
        let model = check_pass_same(
            &InlineBranches,
            "g (float[2] x, bool b) => (float[2] y, float[2] z, float[2] k)
             <bool no = {0}, float[2] w = {1.0, 2.0}>
             {
               p = Neg(x)
               y, z, k = If (no) <
                 then_branch = t () => (float[2] a, float[2] c, float[2] d) {
                   a = Neg(p) c = Identity(p) d = Identity(a)
                 },
                 else_branch = e () => (float[2] p2, float[2] r, float[2] q) <float[2] q = {3.0, 4.0}> {
                   p2 = Identity(x)
                   r = If (b) <
                     then_branch = u () => (float[2] m) { m = Add(p, w) },
                     else_branch = v () => (float[2] n) { n = Mul(p, q) }
                   >
                 }
               >
             }",
        );
        let text = print_graph(&model.graph);
        assert_eq!(text.matches("= If<").count(), 1, "{text}");
        assert!(text.contains("y = Identity(x)") && !text.contains("Neg(p)"), "{text}");
    }

    #[test]
    fn a_condition_that_varies_stays() {
        check_pass_skip(
            &InlineBranches,
            "the condition is not constant",
            "g (float[2] x, bool c) => (float[2] y)
             {
               y = If (c) <
                 then_branch = t () => (float[2] p) { p = Relu(x) },
                 else_branch = e () => (float[2] q) { q = Neg(x) }
               >
             }",
        );
    }
}
