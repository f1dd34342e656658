//! Local functions: unique, not recursive.

use super::Findings;
use crate::{Function, Model, Node};
use std::collections::HashMap;

/// Domain, name and overload.
type FunctionKey<'m> = (&'m str, &'m str, &'m str);

/// The functions of a model by domain, name and overload.
pub(crate) struct Functions<'m>(HashMap<FunctionKey<'m>, usize>);

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

    fn recursive(&self, model: &'m Model) -> Option<&'m Function> {
        let calls: Vec<Vec<usize>> = model.functions.iter().map(|f| calls(f, self)).collect();
        on_cycle(&calls).map(|i| &model.functions[i])
    }
}

fn key(f: &Function) -> FunctionKey<'_> {
    (domain(&f.domain), &f.name, &f.overload)
}

pub(super) fn check(model: &Model, findings: &mut Findings) {
    let functions = Functions::of(&model.functions);
    for (i, f) in model.functions.iter().enumerate() {
        if functions.0.get(&key(f)) != Some(&i) {
            findings.add(format!("The function `{}` is defined twice.", f.name));
        }
    }
    if let Some(f) = functions.recursive(model) {
        let name = &f.name;
        findings.add(format!("The function `{name}` applies itself, directly or through others."));
    }
}

/// A local function that applies itself, directly or through others; found in linear time.
pub fn recursive_function(model: &Model) -> Option<&Function> {
    Functions::of(&model.functions).recursive(model)
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

/// A function that leads back to itself, if there is one.
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
    // What is left lies on a cycle or behind one; going back from caller to caller leads onto it.
    let left = callers.iter().position(|n| *n > 0)?;
    let mut caller = vec![left; calls.len()];
    for f in (0..calls.len()).filter(|f| callers[*f] > 0) {
        calls[f].iter().for_each(|called| caller[*called] = f);
    }
    Some((0..calls.len()).fold(left, |f, _| caller[f]))
}
