//! Inlines local functions, so that what looks at nodes finds all
//! of them. What applies a function outside of the main graph is inside of another one, and comes
//! to light when that is inlined.

use crate::remove_dead_code::remove_functions;
use onnxd_plugin_sdk::diagnostics::{Diagnostics, shown};
use onnxd_plugin_sdk::ir::text::inline;
use onnxd_plugin_sdk::ir::{Function, Graph, Model, Node, NodeId, Opsets, ValueId, verify};
use onnxd_plugin_sdk::opset;
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Skip};
use std::collections::{BTreeMap, BTreeSet};

/// Nodes that bodies add at most: functions that apply others twice double them with every level.
const NODES_MAX: usize = 1 << 17;

/// Sub-graphs nested deeper keep their functions.
const DEPTH_MAX: usize = 24;

/// Domain, name and overload.
type FunctionKey = (String, String, String);

pub(crate) struct InlineFunctions;

impl Pass for InlineFunctions {
    fn name(&self) -> &'static str {
        "inline-functions"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        if model.functions.is_empty() || verify::recursive_function(model).is_some() {
            return Ok(());
        }
        one_opset(model);
        let mut inliner = Inliner::from_model(model);
        inliner.graph(&mut model.graph, cx, 0);
        let Inliner { opsets, inlined, applications, .. } = inliner;
        if applications > 0 {
            model.opsets = opsets;
            let text = format!(
                "inlined functions: {}; nodes that applied them: {applications}",
                inlined.len()
            );
            cx.report.notes.push(text);
            remove_functions(model, cx);
        }
        Ok(())
    }
}

/// Converts functions to the model's version of the standard's operators, or all to the newest that
/// one of them has. Where neither is possible, functions of other versions stay.
fn one_opset(model: &mut Model) {
    let versions: BTreeSet<i64> =
        model.functions.iter().filter_map(|f| version(&f.opsets, "")).collect();
    let own = version(&model.opsets, "");
    let newest = versions.last().copied();
    if versions.len() + usize::from(own.is_some_and(|own| !versions.contains(&own))) > 1 {
        let _ = [own, newest].into_iter().flatten().any(|to| opset::convert(model, to).is_ok());
    }
}

/// The standard's domain has two spellings.
fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

fn version(opsets: &Opsets, domain: &str) -> Option<i64> {
    opsets.iter().find(|(d, _)| standard(d) == domain).map(|(_, version)| *version)
}

struct Inliner {
    functions: BTreeMap<FunctionKey, Function>,
    /// What the model imports.
    opsets: Opsets,
    inlined: BTreeSet<FunctionKey>,
    applications: usize,
    nodes: usize,
}

impl Inliner {
    fn from_model(model: &Model) -> Inliner {
        let key = |f: &Function| (standard(&f.domain).into(), f.name.clone(), f.overload.clone());
        Inliner {
            functions: model.functions.iter().map(|f| (key(f), f.clone())).collect(),
            opsets: model.opsets.clone(),
            inlined: BTreeSet::new(),
            applications: 0,
            nodes: 0,
        }
    }

    /// The function that a node applies.
    fn applied(&self, node: &Node) -> Option<(FunctionKey, &Function)> {
        let key = (standard(&node.domain).to_owned(), node.op.clone(), node.overload.clone());
        let function = self.functions.get(&key)?;
        Some((key, function))
    }

    fn graph(&mut self, graph: &mut Graph, cx: &mut PassContext, depth: usize) {
        let mut pending = graph.node_ids();
        while let Some(id) = pending.pop() {
            if graph[id].subgraphs().next().is_some() && depth < DEPTH_MAX {
                graph.edit_subgraphs(id, |inner| self.graph(inner, cx, depth + 1));
            }
            let Some((key, _)) = self.applied(&graph[id]) else { continue };
            if cx.fuel.is_empty() {
                return;
            }
            let bound = graph.node_bound();
            let place = verify::layer(graph, &graph[id]).name;
            match self.apply(graph, id, &key) {
                Ok(()) => {
                    cx.rewrote();
                    self.applications += 1;
                    self.inlined.insert(key);
                    pending.extend(graph.nodes_from(bound));
                }
                Err(why) => cx.skip(&place, Skip(why)),
            }
        }
    }

    /// Puts the body of a function where `id` applies it.
    fn apply(&mut self, graph: &mut Graph, id: NodeId, key: &FunctionKey) -> Result<(), String> {
        let (function, node) = (&self.functions[key], &graph[id]);
        if self.nodes + function.graph.node_count() > NODES_MAX {
            return Err(format!("inlined functions add more than {NODES_MAX} nodes"));
        }
        if node.subgraphs().next().is_some() {
            return Err("the function takes a sub-graph as attribute".into());
        }
        let opsets = self.imports(function)?;
        let mut body = function.body_for(node);
        let (mut bindings, mut left_out) = (Vec::new(), Vec::new());
        for (i, (own, declared)) in
            body.inputs().to_vec().into_iter().zip(function.graph.inputs()).enumerate()
        {
            match node.input(i) {
                Some(given) => bindings.push((function.graph[*declared].name.as_str(), given)),
                None => {
                    leave_out(&mut body, own);
                    left_out.push(own);
                }
            }
        }
        body.unmark_inputs(&left_out);
        let prefix = if node.name.is_empty() { &function.name } else { &node.name }.clone();
        let bound = graph.node_bound();
        let made =
            inline(graph, &prefix, &body, &bindings).map_err(|d| d.into_finding().message)?;
        self.nodes += body.node_count();
        self.opsets.extend(opsets);
        deliver(graph, id, bound, &made);
        Ok(())
    }

    /// Domains that the model has to import for the body of a function.
    fn imports(&self, function: &Function) -> Result<Opsets, String> {
        let mut missing = Opsets::new();
        for (domain, wanted) in &function.opsets {
            let domain = standard(domain);
            match version(&self.opsets, domain) {
                None => drop(missing.insert(domain.to_owned(), *wanted)),
                Some(own) if own != *wanted && self.computes(&function.graph, domain) => {
                    let domain = if domain.is_empty() { "ai.onnx" } else { domain };
                    return Err(format!(
                        "the function is written in version {wanted} of the operators of `{}`, and \
                         the model in {own}",
                        shown(domain)
                    ));
                }
                Some(_) => {}
            }
        }
        Ok(missing)
    }

    /// Whether a node of `graph` is an operator of `domain`, and no function.
    fn computes(&self, graph: &Graph, domain: &str) -> bool {
        let mut pending = vec![graph];
        while let Some(graph) = pending.pop() {
            for (_, node) in graph.nodes() {
                if standard(&node.domain) == domain && self.applied(node).is_none() {
                    return true;
                }
                pending.extend(node.subgraphs());
            }
        }
        false
    }
}

/// Takes an input that is not given from those who read it.
fn leave_out(graph: &mut Graph, v: ValueId) {
    let mut readers = graph.readers(v).to_vec();
    readers.dedup();
    for id in readers {
        for slot in 0..graph[id].inputs.len() {
            if graph[id].input(slot) == Some(v) {
                graph.set_input(id, slot, None);
            }
        }
        graph.edit_subgraphs(id, |inner| {
            let captures = inner.captures().filter(|(_, outer)| *outer == v);
            let captures: Vec<ValueId> = captures.map(|(own, _)| own).collect();
            for own in captures {
                leave_out(inner, own);
                inner.release(own);
            }
        });
    }
}

/// What node `id` computed is what its body made, of nodes from number `bound` on.
pub(crate) fn deliver(graph: &mut Graph, id: NodeId, bound: usize, made: &[ValueId]) {
    let call = graph.remove_node(id);
    let mut delivered: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for (own, made) in call.outputs.iter().zip(made) {
        let Some(own) = *own else { continue };
        let producer = graph.producer(*made).filter(|producer| producer.index() >= bound);
        let slot = producer.and_then(|p| graph[p].outputs.iter().position(|o| *o == Some(*made)));
        match producer.zip(slot) {
            Some((producer, slot)) => {
                graph.set_output(producer, slot, own);
                graph.replace_uses(*made, own);
                delivered.insert(*made, own);
            }
            // An input that is handed on, or an output that is listed twice.
            None => {
                let from = delivered.get(made).copied().unwrap_or(*made);
                graph.add_node(Node::new("Identity", [from], [own]));
            }
        }
    }
}

#[cfg(test)]
#[path = "inline_functions_tests.rs"]
mod tests;
