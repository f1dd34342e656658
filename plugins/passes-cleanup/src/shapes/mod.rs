//! Simplifies shape arithmetic by what inference knows of sizes.
//!
//! - A small tensor of whole numbers or truth values whose elements are all known becomes a constant.
//! - `Reshape` and `Expand` get a constant shape where the data says the rest: 0 or -1 for
//!   `Reshape`, 1 for `Expand`.
//! - `Expand` goes where its input has the shape already, or another operand of what reads it.
//!
//! ```onnx
//! before (float[N,4,6] x) => (float[N,4,3,2] y)
//! <int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest = {3, 2}>
//! {
//!   s = Shape(x)
//!   n = Gather(s, zero)
//!   c = Gather(s, one)
//!   to = Concat<axis = 0>(n, c, rest)
//!   y = Reshape(x, to)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,4,6] x) => (float[N,4,3,2] y)
//! <int64[4] to_known = {0, 4, 3, 2}>
//! {
//!   y = Reshape(x, to_known)
//! }
//! ```

mod constants;
mod expand;
mod reshape;
mod vectors;

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{Dim, Facts, Graph, Model, NodeId, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Rewriter};
use vectors::Available;

pub(crate) struct SimplifyShapes;

impl Pass for SimplifyShapes {
    fn name(&self) -> &'static str {
        "simplify-shapes"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let facts = cx.facts(model);
        let opset = model.opset();
        simplify(&mut model.graph, opset, &facts, cx);
        Ok(())
    }
}

/// The first version in which `Reshape` takes the shape as an input.
const OPSET_MIN: i64 = 5;

/// What looks at one node; an empty reason where there is nothing to do.
type NodeRule = fn(&mut Rewriter, &Facts, NodeId) -> Rewrite;

/// In this order: what is a constant needs no other form.
const STEPS: &[NodeRule] = &[
    constants::known,
    reshape::target,
    expand::identity,
    expand::before_broadcast,
    expand::target,
];

fn simplify(graph: &mut Graph, opset: i64, facts: &Facts, cx: &mut PassContext) {
    let order = graph.topological().unwrap_or_default();
    for id in order.iter().copied() {
        let mut inside = facts.inside(id).iter();
        if inside.len() > 0 && graph.node(id).is_some() {
            graph.edit_subgraphs(id, |inner| {
                let facts = inside.next().expect("what is known of each sub-graph");
                simplify(inner, opset, facts, cx);
            });
        }
        for step in STEPS {
            attempt(graph, opset, id, cx, |cx| step(cx, facts, id));
        }
    }
    let vectors: Vec<NodeId> =
        order.iter().copied().filter(|id| is_symbolic(graph, facts, *id)).collect();
    if opset < OPSET_MIN || vectors.is_empty() {
        return;
    }
    // What is equal comes first, what takes fewer nodes begins at those who read it.
    let all = Available::from_graph(graph, facts, &order);
    for id in vectors.iter().copied() {
        attempt(graph, opset, id, cx, |cx| vectors::share(cx, &all, id));
    }
    for id in vectors.into_iter().rev() {
        attempt(graph, opset, id, cx, |cx| vectors::rebuild(cx, &all, id));
    }
}

/// Whether the node computes sizes that differ from run to run.
fn is_symbolic(graph: &Graph, facts: &Facts, id: NodeId) -> bool {
    let items = graph.node(id).and_then(|node| facts.elements(node.output(0)?));
    items.is_some_and(|(_, items)| items.iter().any(|d| matches!(d, Dim::Symbol(_))))
}

/// Looks at a node that is still there.
fn attempt(
    graph: &mut Graph,
    opset: i64,
    id: NodeId,
    cx: &mut PassContext,
    step: impl FnOnce(&mut Rewriter) -> Rewrite,
) {
    let Some(node) = graph.node(id).filter(|_| !cx.fuel.is_empty()) else { return };
    let at = node.outputs.iter().flatten().next().copied();
    let mut rewriter = Rewriter::new(graph, opset);
    match step(&mut rewriter) {
        Ok(()) => {
            rewriter.finish();
            cx.rewrote();
        }
        Err(why) if why.0.is_empty() => {}
        Err(why) => cx.skip(at.map_or("", |v| &graph[v].name), why),
    }
}

/// The elements of the shape `v`, if it is computed.
fn computed<'f>(cx: &Rewriter, facts: &'f Facts, v: ValueId) -> Option<&'f [Dim]> {
    let (scalar, items) = facts.elements(v).filter(|_| cx.graph.constant(v).is_none())?;
    (!scalar).then_some(items)
}

/// Lets input `slot` of a node read a constant in place of the computed `old`.
fn set_sizes(cx: &mut Rewriter, id: NodeId, slot: usize, old: ValueId, sizes: Vec<i64>) {
    let v = cx.derive(old, "known", Tensor::vector(sizes));
    cx.graph.set_input(id, slot, Some(v));
    cx.sweep(vec![old]);
}

#[cfg(test)]
mod tests;
