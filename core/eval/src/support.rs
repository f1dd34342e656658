//! Finds every node that cannot be computed before anything is computed, so that a person reads one
//! complete list.

use crate::executor::{Executor, standard};
use crate::fault::layer_of;
use crate::table;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::{Function, Graph, Node, Opsets, verify};
use std::collections::HashSet;

/// Version of the operator set of `domain`; the standard's own is found under both spellings, 0 if
/// absent.
pub(crate) fn opset(opsets: &Opsets, domain: &str) -> i64 {
    let alias = if standard(domain).is_empty() { ["", "ai.onnx"] } else { [domain, domain] };
    alias.iter().find_map(|d| opsets.get(*d)).copied().unwrap_or(0)
}

/// All nodes reached from the main graph that no kernel and no function computes, and functions
/// that apply themselves.
pub(crate) fn check(executor: &Executor) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut seen: HashSet<*const Function> = HashSet::new();
    let mut pending = vec![(&executor.model.graph, &executor.model.opsets)];
    while let Some((graph, opsets)) = pending.pop() {
        for (_, node) in graph.nodes() {
            pending.extend(node.subgraphs().map(|g| (g, opsets)));
            if let Some(function) = executor.function(node) {
                if seen.insert(std::ptr::from_ref(function)) {
                    pending.push((&function.graph, &function.opsets));
                }
            } else if kernel_missing(node, opsets) {
                problems.push(missing(graph, node, opsets));
            }
        }
    }
    if let Some(function) = verify::recursive_function(executor.model) {
        let text = format!("function `{}` applies itself", shown(&function.name));
        problems.push(Diagnostic::new(Code::OnnxInvalid, text));
    }
    problems.or_ok(())
}

impl Executor<'_> {
    /// The local function that `node` applies.
    pub(crate) fn function(&self, node: &Node) -> Option<&Function> {
        let key = (standard(&node.domain), node.op.as_str(), node.overload.as_str());
        self.functions.get(&key).copied()
    }
}

fn kernel_missing(node: &Node, opsets: &Opsets) -> bool {
    table::find(node, opset(opsets, &node.domain)).is_none()
}

fn missing(graph: &Graph, node: &Node, opsets: &Opsets) -> Diagnostic {
    let op = shown(&node.op);
    let version = opset(opsets, &node.domain);
    let what = match standard(&node.domain) {
        "" => format!("operator {op} of opset {version}"),
        domain => format!("operator {op} of domain {}", shown(domain)),
    };
    Diagnostic::new(Code::OperatorUnsupported, format!("{what} has no kernel"))
        .at(layer_of(node, Some(graph)))
}
