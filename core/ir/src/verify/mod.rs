//! Verification: everything that is wrong with a model, at once.
//!
//! Linear in the size of the model. Sub-graphs are visited with a work list, to a limited depth.

mod functions;
mod operators;
mod structure;
#[cfg(test)]
mod tests;

pub(crate) use functions::Functions;
pub use functions::recursive_function;

use crate::schema::OpSchema;
use crate::text::NESTING_MAX;
use crate::{Function, Graph, Model, Node, Opsets};
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, Layer, shown};

/// Findings that are kept; a model with more is broken throughout.
pub const FINDINGS_MAX: usize = 100;

/// How much is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum VerifyLevel {
    /// Producers, names, cycles, captures, initializers.
    Structure,
    /// Also domains, functions, operators, attributes and types, as the standard demands.
    Full,
}

/// Everything that is wrong with `model`: `N0502` with the node as layer, `N0504` for versions that
/// are too new.
pub fn verify(model: &Model, level: VerifyLevel) -> Diagnostics {
    let mut findings = Findings::new(Code::OnnxInvalid);
    structure::check(&model.graph, &mut findings);
    for function in &model.functions {
        structure::check(&function.graph, &mut findings);
    }
    if level == VerifyLevel::Full {
        functions::check(model, &mut findings);
        operators::check_interface(&model.graph, &mut findings);
        operators::check(model, &mut findings);
    }
    findings.list
}

/// Whether a pass left the graph sound: every value read is produced, edges are recorded on both
/// sides, no cycles. Findings are `N0901`, a defect of whoever changed the graph.
pub fn verify_structure(graph: &Graph) -> Diagnostics {
    let mut findings = Findings::new(Code::InvariantBroken);
    structure::check(graph, &mut findings);
    findings.list
}

/// What keeps `node` from being an application of the operator `schema`: counts, attributes, types.
pub fn verify_node(graph: &Graph, node: &Node, schema: &OpSchema) -> Diagnostics {
    let mut findings = Findings::new(Code::OnnxInvalid);
    operators::against(graph, node, schema, &mut findings);
    findings.list
}

/// Collects findings up to the limit.
pub(crate) struct Findings {
    code: Code,
    list: Diagnostics,
}

impl Findings {
    pub(crate) fn new(code: Code) -> Findings {
        Findings { code, list: Diagnostics::default() }
    }

    fn add(&mut self, message: String) {
        self.push(Diagnostic::new(self.code, message));
    }

    pub(crate) fn add_at(&mut self, graph: &Graph, node: &Node, message: String) {
        self.push(Diagnostic::new(self.code, message).at(source_layer(graph, node)));
    }

    pub(crate) fn into_list(self) -> Diagnostics {
        self.list
    }

    pub(crate) fn push(&mut self, finding: Diagnostic) {
        // The body of a function is looked at once for each of its applications.
        if !self.full() && !self.list.0.contains(&finding) {
            self.list.push(finding);
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.list.0.len()
    }

    /// Forgets all but the first `count` findings.
    pub(crate) fn truncate(&mut self, count: usize) {
        self.list.0.truncate(count);
    }

    pub(crate) fn full(&self) -> bool {
        self.list.0.len() >= FINDINGS_MAX
    }
}

/// How a node is called: by its name, or by what it computes.
pub fn layer(graph: &Graph, node: &Node) -> Layer {
    let first = node.outputs.iter().flatten().next();
    let name = match first {
        _ if !node.name.is_empty() => shown(&node.name),
        Some(v) if v.index() < graph.value_ids().len() => {
            format!("{} -> {}", node.op, shown(&graph[*v].name))
        }
        _ => node.op.clone(),
    };
    Layer::new(name, &node.op)
}

/// Where a diagnostic about a node points: to the layer of the source network that it came from, as
/// its author wrote it, and to the node itself by its type; to the node alone where no layer is known.
pub fn source_layer(graph: &Graph, node: &Node) -> Layer {
    let own = layer(graph, node);
    let Some(source) = node.layers.first() else { return own };
    // The node of an ONNX file is its own layer.
    if node.layers.len() == 1 && source.kind == node.op {
        return Layer { place: source.place.clone(), ..own };
    }
    let name = match node.layers.len() {
        1 => source.name.clone(),
        n => format!("{} and {} more", source.name, n - 1),
    };
    let separator = if source.kind.is_empty() { "" } else { ", " };
    let kind = format!("{}{separator}node {}", source.kind, own.name);
    Layer { name, kind, place: source.place.clone() }
}

/// A graph to be visited.
struct Visit<'m> {
    graph: &'m Graph,
    outer: Option<&'m Graph>,
    opsets: &'m Opsets,
    /// The enclosing function.
    function: Option<&'m Function>,
}

/// Calls `f` for `start` and the graphs inside it, outer before inner.
fn walk<'m>(start: Visit<'m>, findings: &mut Findings, f: impl Fn(&Visit<'m>, &mut Findings)) {
    let mut pending = vec![(start, 0)];
    while let Some((visit, depth)) = pending.pop() {
        if findings.full() {
            return;
        }
        f(&visit, findings);
        for (_, node) in visit.graph.nodes() {
            for inner in node.subgraphs() {
                if depth >= NESTING_MAX {
                    let what = format!("Sub-graphs are nested more than {NESTING_MAX} deep.");
                    return findings.add_at(visit.graph, node, what);
                }
                let inner = Visit { graph: inner, outer: Some(visit.graph), ..visit };
                pending.push((inner, depth + 1));
            }
        }
    }
}
