//! Walks a model from one version to another, node by node.

use crate::carry;
use crate::row::{self, Row};
use crate::site::{Known, Site};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics};
use onnxd_ir::schema::{self, OpSchema};
use onnxd_ir::{Graph, Model, NodeId, Opsets, infer, verify};
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

/// One version up or down.
#[derive(Clone, Copy)]
struct Step {
    from: i64,
    to: i64,
    target: i64,
}

impl Step {
    fn up(self) -> bool {
        self.to > self.from
    }

    /// The version whose changes are made or taken back.
    fn since(self) -> i64 {
        self.from.max(self.to)
    }
}

/// Converts every graph; what cannot be converted is in the answer, and the model then is broken.
pub(crate) fn convert(model: &mut Model, to: i64) -> Diagnostics {
    let functions: HashSet<(String, String)> =
        model.functions.iter().map(|f| (f.domain.clone(), f.name.clone())).collect();
    let mut walk = Walk { functions, found: Diagnostics::default(), changed: false };
    while let Some(from) = standard(&model.opsets).filter(|v| *v != to) {
        let step = Step { from, to: from + (to - from).signum(), target: to };
        set_standard(&mut model.opsets, step.to);
        walk.changed = false;
        walk.graph(&mut model.graph, step, &Known::new());
        if walk.changed {
            // Later steps look at the types of what was added. Contradictions show in the end.
            let _ = infer::infer(model);
        }
    }
    for function in &mut model.functions {
        while let Some(from) = standard(&function.opsets).filter(|v| *v != to) {
            let step = Step { from, to: from + (to - from).signum(), target: to };
            set_standard(&mut function.opsets, step.to);
            walk.graph(&mut function.graph, step, &Known::new());
        }
    }
    walk.found
}

struct Walk {
    /// Domain and name of local functions: they may have the names of operators.
    functions: HashSet<(String, String)>,
    found: Diagnostics,
    changed: bool,
}

impl Walk {
    /// Takes one step in a graph and, before that, in its sub-graphs.
    fn graph(&mut self, graph: &mut Graph, step: Step, known: &Known) {
        for id in graph.node_ids() {
            // Adapters remove constants that nothing reads any more.
            if graph.node(id).is_none() {
                continue;
            }
            if graph[id].subgraphs().next().is_some() {
                let captured = captured(graph, id, known);
                let mut captured = captured.into_iter();
                graph.edit_subgraphs(id, |inner| {
                    let known = captured.next().unwrap_or_default();
                    self.graph(inner, step, &known);
                });
            }
            self.node(graph, id, step, known);
        }
    }

    fn node(&mut self, graph: &mut Graph, id: NodeId, step: Step, known: &Known) {
        let node = &graph[id];
        let is_function = || self.functions.contains(&(node.domain.clone(), node.op.clone()));
        if !node.is_standard() || (!self.functions.is_empty() && is_function()) {
            return;
        }
        let row = row::find(&node.op, step.since());
        let history = schema::history("", &node.op);
        if row.is_none() && history.iter().all(|s| s.since != step.since()) {
            return;
        }
        let before = graph.node_bound();
        let site = Site { graph, id, to: step.to, target: step.target, known };
        let outcome = adapt(site, row, step);
        self.changed |= row.is_some() || graph.node_bound() > before;
        if let Err(why) = outcome {
            let finding = refusal(graph, id, step, &why);
            self.found.push(finding);
            graph.node_mut(id).domain = STUCK.into();
        }
    }
}

/// What each sub-graph of a node knows of the constants around it.
pub(crate) fn captured(graph: &Graph, id: NodeId, known: &Known) -> Vec<Known> {
    let of = |inner: &Graph| {
        let found = inner.captures().filter_map(|(own, outer)| {
            let constant = graph.constant(outer).or_else(|| known.get(&outer));
            Some((own, constant?.clone()))
        });
        found.collect()
    };
    graph[id].subgraphs().map(of).collect()
}

fn adapt(mut site: Site<'_>, row: Option<&Row>, step: Step) -> Result<(), String> {
    let op = site.node().op.clone();
    let old = schema::find("", &op, step.from);
    let adapter = row.and_then(|r| if step.up() { r.up } else { r.down });
    if let Some(adapter) = adapter {
        adapter(&mut site)?;
    }
    let now = site.node().op.clone();
    let Some(new) = schema::find("", &now, step.to) else {
        return Err(format!("`{now}` exists since opset {}", first_version(&now)));
    };
    if new.deprecated && step.to == step.target {
        return Err(format!("`{now}` is deprecated"));
    }
    if now == op
        && let Some(old) = old
    {
        carry::attributes(&mut site, old, new)?;
    }
    carry::trim(&mut site, new);
    fits(site.graph, site.id, new)
}

fn first_version(op: &str) -> i64 {
    schema::history("", op).first().map_or(0, |s| s.since)
}

/// Whether a node is what the standard describes.
fn fits(graph: &Graph, id: NodeId, schema: &OpSchema) -> Result<(), String> {
    let found = verify::verify_node(graph, &graph[id], schema);
    match found.0.as_slice() {
        [] => Ok(()),
        all => {
            let texts: Vec<&str> = all.iter().map(|d| d.message.trim_end_matches('.')).collect();
            Err(texts.join("; "))
        }
    }
}

fn refusal(graph: &Graph, id: NodeId, step: Step, why: &str) -> Diagnostic {
    let limit = if step.up() { "highest" } else { "lowest" };
    let node = &graph[id];
    let message =
        format!("`{}` cannot be converted from opset {} to {}: {why}", node.op, step.from, step.to);
    let help = format!("The {limit} opset that this node can have is {}.", step.from);
    let layer = verify::layer(graph, node);
    Diagnostic::new(Code::OpsetConversion, message).at(layer).help(help)
}
