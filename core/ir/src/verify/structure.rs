//! The graph as a graph: names, producers, readers, captures, cycles, initializers.

use super::{Findings, Visit, walk};
use crate::{Dim, Graph, NodeId, Opsets, Origin, Value, ValueId, ValueType};
use onnxd_diagnostics::shown;
use std::collections::HashSet;

/// Nodes that a message about a cycle names.
const CYCLE_SHOWN: usize = 5;

pub(super) fn check(graph: &Graph, findings: &mut Findings) {
    let opsets = &Opsets::new();
    let start = Visit { graph, outer: None, opsets, function: None };
    walk(start, findings, |visit, findings| one(visit.graph, visit.outer, findings));
}

fn one(g: &Graph, outer: Option<&Graph>, findings: &mut Findings) {
    let before = findings.list.0.len();
    ids(g, outer, findings);
    if findings.list.0.len() > before {
        return; // what follows relies on the ids
    }
    names(g, findings);
    origins(g, findings);
    let linked = readers(g, findings);
    let outputs: HashSet<ValueId> = g.outputs().iter().copied().collect();
    for v in g.value_ids() {
        initializer(g, v, findings);
        let used = !g.readers(v).is_empty() || outputs.contains(&v);
        if used && produces_nothing(g, v) {
            let name = shown(&g[v].name);
            let message = format!("Nothing defines `{name}`, which is {}.", use_of(g, v));
            match g.readers(v).first() {
                Some(reader) => findings.add_at(g, &g[*reader], message),
                None => findings.add(message),
            }
        }
    }
    if linked && let Err(nodes) = g.topological() {
        cycle(g, &nodes, findings);
    }
}

fn use_of(g: &Graph, v: ValueId) -> &'static str {
    if g.readers(v).is_empty() { "listed as an output" } else { "read here" }
}

fn produces_nothing(g: &Graph, v: ValueId) -> bool {
    let value = &g[v];
    value.origin() == Origin::None && value.initializer().is_none() && !g.sparse.contains_key(&v)
}

/// Every id belongs to its graph.
fn ids(g: &Graph, outer: Option<&Graph>, findings: &mut Findings) {
    let count = g.value_ids().len();
    for (_, node) in g.nodes() {
        let mut all = node.reads().chain(node.outputs.iter().flatten().copied());
        if all.any(|v| v.index() >= count) {
            findings.add_at(g, node, "The node names a value of another graph.".to_owned());
        }
    }
    if g.inputs().iter().chain(g.outputs()).any(|v| v.index() >= count) {
        findings.add(format!("`{}` lists a value of another graph.", shown(&g.name)));
    }
    let visible = outer.map_or(0, |o| o.value_ids().len());
    for (inner, _) in g.captures().filter(|(_, captured)| captured.index() >= visible) {
        let name = shown(&g[inner].name);
        findings.add(format!("`{name}` stands for a value that no enclosing graph has."));
    }
}

/// Every value has a name, under which it is found: so no two have the same.
fn names(g: &Graph, findings: &mut Findings) {
    for v in g.value_ids() {
        let name = g[v].name.as_str();
        if name.is_empty() {
            findings.add(format!("A value of the graph `{}` has no name.", shown(&g.name)));
        } else if g.value_named(name) != Some(v) {
            findings.add(format!("The name `{}` is used for several values.", shown(name)));
        }
    }
}

/// What a value says about its origin is what the origin says.
fn origins(g: &Graph, findings: &mut Findings) {
    let inputs: HashSet<ValueId> = g.inputs().iter().copied().collect();
    if inputs.len() < g.inputs().len() {
        findings.add(format!("The graph `{}` lists an input twice.", shown(&g.name)));
    }
    for v in g.value_ids() {
        let value = &g[v];
        let sound = match value.origin() {
            Origin::Input => inputs.contains(&v),
            Origin::Node(id, slot) => g.node(id).is_some_and(|n| n.output(slot) == Some(v)),
            Origin::None | Origin::Captured(_) => !inputs.contains(&v),
        };
        if !sound {
            let name = shown(&value.name);
            findings.add(format!("`{name}` is not produced where it says."));
        } else if value.initializer().is_some() && matches!(value.origin(), Origin::Node(..)) {
            findings.add(format!("`{}` is both computed and constant.", shown(&value.name)));
        }
    }
    for (id, node) in g.nodes() {
        for (slot, output) in node.outputs.iter().enumerate() {
            if let Some(v) = output.filter(|v| g[*v].origin() != Origin::Node(id, slot)) {
                let message = format!("`{}` has several producers.", shown(&g[v].name));
                findings.add_at(g, node, message);
            }
        }
    }
}

/// Whether the recorded readers are the actual ones.
fn readers(g: &Graph, findings: &mut Findings) -> bool {
    // The actual ones of all values in one list, those of a value from `start` to the next.
    let mut start = vec![0usize; g.value_ids().len() + 1];
    for v in g.nodes().flat_map(|(_, node)| node.reads()) {
        start[v.index() + 1] += 1;
    }
    for i in 1..start.len() {
        start[i] += start[i - 1];
    }
    let mut actual = vec![None; start[start.len() - 1]];
    let mut end = start.clone();
    for (id, node) in g.nodes() {
        for v in node.reads() {
            actual[end[v.index()]] = Some(id);
            end[v.index()] += 1;
        }
    }
    let mut linked = true;
    let mut recorded = Vec::new();
    for v in g.value_ids() {
        recorded.clear();
        recorded.extend(g.readers(v).iter().copied().map(Some));
        recorded.sort_unstable();
        if recorded != actual[start[v.index()]..start[v.index() + 1]] {
            linked = false;
            findings.add(format!("The readers of `{}` are not those recorded.", shown(&g[v].name)));
        }
    }
    linked
}

/// The declared type of an initializer is that of its data.
fn initializer(g: &Graph, v: ValueId, findings: &mut Findings) {
    let Value { name, ty: Some(declared), .. } = &g[v] else { return };
    let Some(data) = g[v].initializer() else { return };
    let dims = data.dims().iter().map(|d| i64::try_from(*d).map_or(Dim::Unknown, Dim::Known));
    let actual = ValueType::tensor(data.dtype(), dims);
    let dtype = declared.dtype().is_none_or(|t| t == data.dtype());
    let shape = declared.shape().is_none_or(|shape| {
        let mut pairs = shape.iter().zip(data.dims());
        let fits = |(declared, size): (&Dim, &usize)| {
            declared.known().is_none_or(|n| usize::try_from(n) == Ok(*size))
        };
        shape.len() == data.rank() && pairs.all(fits)
    });
    if !(dtype && shape && matches!(declared, ValueType::Tensor { .. })) {
        let name = shown(name);
        findings.add(format!("`{name}` is declared as {declared}, its data are {actual}."));
    }
}

fn cycle(g: &Graph, nodes: &[NodeId], findings: &mut Findings) {
    // Nodes behind a cycle are reported by `topological` too; the first ones suffice to find it.
    let shown_nodes: Vec<String> = nodes
        .iter()
        .take(CYCLE_SHOWN)
        .map(|id| format!("`{}`", super::layer(g, &g[*id]).name))
        .collect();
    let more = if nodes.len() > CYCLE_SHOWN { ", ..." } else { "" };
    let message = format!("Nodes depend on each other: {}{more}.", shown_nodes.join(", "));
    findings.add_at(g, &g[nodes[0]], message);
}
