//! Walks a model from one version to another, node by node.

use crate::carry;
use crate::context::{Done, LowerContext, OpsetStep, Refusal, refuse};
use crate::row::AdapterRow;
use crate::table;
use onnxd_build::GraphBuilder;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::{Graph, Model, Node, NodeId, Opsets, schema, verify};
use std::collections::HashSet;

/// The domain that nodes are moved to which cannot be converted: no later step looks at them.
const STUCK: &str = "onnxd.stuck";

/// Version of the standard's own operators, if any is imported.
pub(crate) fn standard(opsets: &Opsets) -> Option<i64> {
    opsets.get("").or_else(|| opsets.get("ai.onnx")).copied()
}

fn set_standard(opsets: &mut Opsets, version: i64) {
    opsets.remove("ai.onnx");
    opsets.insert(String::new(), version);
}

/// Converts every graph; what cannot be converted is in the answer, and the model then is broken.
pub(crate) fn convert(model: &mut Model, to: i64) -> Diagnostics {
    let functions: HashSet<(String, String)> =
        model.functions.iter().map(|f| (f.domain.clone(), f.name.clone())).collect();
    let mut walk = ConversionWalk { functions, found: Diagnostics::default() };
    walk.all_steps(&mut model.graph, &mut model.opsets, to);
    for function in &mut model.functions {
        walk.all_steps(&mut function.graph, &mut function.opsets, to);
    }
    walk.found
}

/// Lets `f` edit `graph` with operators of `opsets`. Sizes that are known now need not be those of
/// every caller, so shapes are computed where they were, and nothing is folded.
pub(crate) fn edit(graph: &mut Graph, opsets: &Opsets, f: impl FnOnce(&GraphBuilder)) {
    let builder = GraphBuilder::new(std::mem::take(graph), opsets.clone());
    let builder = builder.without_folding().lenient();
    f(&builder);
    *graph = builder.finish();
}

struct ConversionWalk {
    /// Domain and name of local functions: they may have the names of operators.
    functions: HashSet<(String, String)>,
    found: Diagnostics,
}

impl ConversionWalk {
    fn all_steps(&mut self, graph: &mut Graph, opsets: &mut Opsets, target: i64) {
        while let Some(from) = standard(opsets).filter(|v| *v != target) {
            let step = OpsetStep { from, to: from + (target - from).signum(), target };
            set_standard(opsets, step.to);
            edit(graph, opsets, |b| self.graph(b, step));
        }
    }

    /// Takes one step in a graph and, before that, in its sub-graphs.
    fn graph(&mut self, b: &GraphBuilder, step: OpsetStep) {
        let all = b.graph().node_ids();
        for id in all {
            // Adapters remove constants that nothing reads any more.
            let inner = b.graph().node(id).map(|node| node.subgraphs().next().is_some());
            let Some(inner) = inner else { continue };
            if inner {
                b.in_subgraphs(id, |b| self.graph(b, step));
            }
            self.node(b, id, step);
        }
    }

    fn node(&mut self, b: &GraphBuilder, id: NodeId, step: OpsetStep) {
        let Some((row, op)) = self.change(&b.graph()[id], step) else { return };
        let mut s = LowerContext::new(b, id, step);
        if let Err(Refusal(why)) = in_layers_of(b, id, || adapt(&mut s, row, &op)) {
            self.found.push(refusal(b, s, &why));
            let is_there = b.graph().node(id).is_some();
            if is_there {
                STUCK.clone_into(&mut b.graph_mut().node_mut(id).domain);
            }
        }
    }

    /// What the standard changed in the operator of a node, and the operator, if anything.
    fn change(
        &self,
        node: &Node,
        step: OpsetStep,
    ) -> Option<(Option<&'static AdapterRow>, String)> {
        let is_function = || self.functions.contains(&(node.domain.clone(), node.op.clone()));
        if !node.is_standard() || (!self.functions.is_empty() && is_function()) {
            return None;
        }
        let row = table::find(&node.op, step.since());
        let history = schema::history("", &node.op);
        let changed = row.is_some() || history.iter().any(|s| s.since == step.since());
        changed.then(|| (row, node.op.clone()))
    }
}

/// Lets `f` add nodes that come from the layers of node `id` and are named after what it computes.
pub(crate) fn in_layers_of<R>(b: &GraphBuilder, id: NodeId, f: impl FnOnce() -> R) -> R {
    let (layers, prefix) = {
        let graph = b.graph();
        let node = &graph[id];
        let first = node.outputs.iter().flatten().next();
        (node.layers.clone(), first.map_or(&node.op, |v| &graph[*v].name).clone())
    };
    b.in_layers(layers, &prefix, |_| f())
}

fn adapt(s: &mut LowerContext<'_>, row: Option<&AdapterRow>, op: &str) -> Done {
    let step = s.step;
    let old = schema::find("", op, step.from);
    if let Some(adapter) = row.and_then(|r| if step.up() { r.up } else { r.down }) {
        adapter(s)?;
    }
    if s.is_replaced() {
        // The builder has looked at each node that it added.
        return Ok(());
    }
    let now = s.op();
    let Some(new) = schema::find("", &now, step.to) else {
        return refuse(format!("`{now}` exists since opset {}", first_version(&now)));
    };
    if new.deprecated && step.to == step.target {
        return refuse(format!("`{now}` is deprecated"));
    }
    if let Some(old) = old.filter(|_| now == op) {
        carry::attributes(s, old, new)?;
    }
    carry::trim(s, new)?;
    s.fits(new)
}

fn first_version(op: &str) -> i64 {
    schema::history("", op).first().map_or(0, |s| s.since)
}

fn refusal(b: &GraphBuilder, s: LowerContext<'_>, why: &str) -> Diagnostic {
    let step = s.step;
    let limit = if step.up() { "highest" } else { "lowest" };
    let node = s.into_node();
    let message =
        format!("`{}` cannot be converted from opset {} to {}: {why}", node.op, step.from, step.to);
    let help = format!("The {limit} opset that this node can have is {}.", step.from);
    let layer = verify::layer(&b.graph(), &node);
    Diagnostic::new(Code::OpsetConversion, message).at(layer).help(help)
}
