//! Local functions: unique, not recursive.

use super::Findings;
use crate::{Function, Model, Node};
use std::collections::HashMap;

/// Domain, name and overload.
type Key<'m> = (&'m str, &'m str, &'m str);

/// The functions of a model by domain, name and overload.
pub(crate) struct Functions<'m>(HashMap<Key<'m>, usize>);

fn domain(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

impl<'m> Functions<'m> {
    pub(crate) fn of(functions: &'m [Function]) -> Functions<'m> {
        let keys = functions.iter().enumerate().map(|(i, f)| (key(f), i));
        Functions(keys.collect())
    }

    /// The function that `node` applies.
    pub(crate) fn applied(&self, node: &Node) -> Option<usize> {
        let key = (domain(&node.domain), node.op.as_str(), node.overload.as_str());
        self.0.get(&key).copied()
    }
}

fn key(f: &Function) -> Key<'_> {
    (domain(&f.domain), &f.name, &f.overload)
}

pub(super) fn check(model: &Model, findings: &mut Findings) {
    let functions = Functions::of(&model.functions);
    for (i, f) in model.functions.iter().enumerate() {
        if functions.0.get(&key(f)) != Some(&i) {
            findings.add(format!("The function `{}` is defined twice.", f.name));
        }
    }
    let calls: Vec<Vec<usize>> = model.functions.iter().map(|f| calls(f, &functions)).collect();
    if let Some(i) = on_cycle(&calls) {
        let name = &model.functions[i].name;
        findings.add(format!("The function `{name}` applies itself, directly or through others."));
    }
}

/// The functions that `f` applies, also in sub-graphs.
fn calls(f: &Function, functions: &Functions<'_>) -> Vec<usize> {
    let mut found = Vec::new();
    let mut pending = vec![&f.graph];
    while let Some(graph) = pending.pop() {
        for (_, node) in graph.nodes() {
            found.extend(functions.applied(node));
            pending.extend(node.subgraphs());
        }
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// A function that cannot be ordered before all that apply it, if there is one.
fn on_cycle(calls: &[Vec<usize>]) -> Option<usize> {
    let mut callers = vec![0usize; calls.len()];
    calls.iter().flatten().for_each(|f| callers[*f] += 1);
    let mut free: Vec<usize> = (0..calls.len()).filter(|f| callers[*f] == 0).collect();
    while let Some(f) = free.pop() {
        for called in &calls[f] {
            callers[*called] -= 1;
            if callers[*called] == 0 {
                free.push(*called);
            }
        }
    }
    callers.iter().position(|n| *n > 0)
}
