//! Finds every node that cannot be computed before anything is computed, so that a person reads one
//! list, and refuses functions that multiply without end.

use crate::domain::{opset, standard};
use crate::executor::Executor;
use crate::fault::layer_of;
use crate::plan::address;
use crate::table;
use onnxd_diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_ir::verify::{self, FINDINGS_MAX};
use onnxd_ir::{Attr, Function, Graph, Node, Opsets};
use std::collections::{HashMap, HashSet};

/// Runs of graphs that one run of the model may come to, loops counted once. Functions that apply
/// others twice double them with every level, which no depth that is allowed keeps in bounds.
const ACTIVATIONS_MAX: usize = 1 << 21;

/// The nodes reached from the main graph that no kernel and no function computes, and functions
/// that apply themselves, or others too often.
pub(crate) fn check(executor: &Executor) -> Result<(), Diagnostics> {
    let mut problems = Diagnostics::default();
    let mut more = 0usize;
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
                match problems.0.len() < FINDINGS_MAX {
                    true => problems.push(missing(graph, node, opsets)),
                    false => more += 1,
                }
            }
        }
    }
    if more > 0 {
        let text = format!("{more} more nodes have no kernel");
        problems.push(Diagnostic::new(Code::OperatorUnsupported, text));
    }
    if let Some(function) = verify::recursive_function(executor.model) {
        let text = format!("function `{}` applies itself", shown(&function.name));
        problems.push(Diagnostic::new(Code::OnnxInvalid, text));
    } else if activations(executor) > ACTIVATIONS_MAX {
        let text = format!("functions apply each other more than {ACTIVATIONS_MAX} times in a run");
        problems.push(Diagnostic::new(Code::OperatorUnsupported, text));
    }
    problems.or_ok(())
}

/// Runs of graphs in a run of the model, where no function applies itself.
fn activations(executor: &Executor) -> usize {
    let main = &executor.model.graph;
    let mut known: HashMap<usize, usize> = HashMap::new();
    let mut pending = vec![main];
    while let Some(graph) = pending.last().copied() {
        let (mut unknown, key) = (Vec::new(), address(graph));
        if !known.contains_key(&key) {
            let found = within(executor, graph, &known, &mut unknown);
            if unknown.is_empty() {
                known.insert(key, found);
            }
        }
        match unknown.is_empty() {
            true => drop(pending.pop()),
            false => pending.append(&mut unknown),
        }
    }
    known[&address(main)]
}

/// Runs of graphs in a run of `graph`, itself counted; functions that are not yet `known` are listed.
fn within<'m>(
    executor: &'m Executor,
    graph: &'m Graph,
    known: &HashMap<usize, usize>,
    unknown: &mut Vec<&'m Graph>,
) -> usize {
    let mut all = 1usize;
    for (_, node) in graph.nodes() {
        let inside = node.subgraphs().map(|g| within(executor, g, known, unknown)).max();
        let references = node.attrs.iter().any(|(_, a)| matches!(a, Attr::Ref { kind: 5, .. }));
        let inside = inside.unwrap_or(usize::from(references));
        all = all.saturating_add(match executor.function(node).map(|f| &f.graph) {
            // A sub-graph that is given to a function may be run wherever the function runs one.
            Some(f) => match known.get(&address(f)) {
                Some(times) => times.saturating_mul(inside.max(1)),
                None => {
                    unknown.push(f);
                    0
                }
            },
            None => inside,
        });
    }
    all
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
