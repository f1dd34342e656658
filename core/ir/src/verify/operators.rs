//! Nodes against the standard: domains, operators, counts, attributes, types.

use super::functions::Functions;
use super::{Findings, Visit, walk};
use crate::schema::{self, OpSchema, Param, ParamKind, ParamType};
use crate::text::KINDS;
use crate::{Attr, Function, Graph, Model, Node, ValueId, ValueType};
use onnxd_diagnostics::{Code, Diagnostic, nearest, shown};
use std::collections::{BTreeSet, HashMap};

/// Inputs and outputs of the main graph have a type.
pub(super) fn check_interface(graph: &Graph, findings: &mut Findings) {
    if graph.outputs().is_empty() {
        findings.add("The graph has no outputs, so it computes nothing.".to_owned());
    }
    for (what, values) in [("input", graph.inputs()), ("output", graph.outputs())] {
        for v in values {
            let typed = match &graph[*v].ty {
                Some(ValueType::Tensor { dtype, .. }) => dtype.is_some(),
                other => other.is_some(),
            };
            if !typed {
                let name = shown(&graph[*v].name);
                findings.add(format!("The {what} `{name}` has no type."));
            }
        }
    }
}

pub(super) fn check(model: &Model, findings: &mut Findings) {
    let context = Context { model, functions: Functions::of(&model.functions) };
    let subgraph_counts = model.functions.iter().map(|f| Visit {
        graph: &f.graph,
        outer: None,
        opsets: &f.opsets,
        function: Some(f),
    });
    let graph = &model.graph;
    let main = Visit { graph, outer: None, opsets: &model.opsets, function: None };
    for start in std::iter::once(main).chain(subgraph_counts) {
        context.check_imports(&start, findings);
        walk(start, findings, |visit, findings| {
            for (_, node) in visit.graph.nodes() {
                // What would not be kept is not looked for: each finding takes a while.
                if findings.full() {
                    return;
                }
                context.node(visit, node, findings);
            }
        });
    }
}

struct Context<'m> {
    model: &'m Model,
    functions: Functions<'m>,
}

impl Context<'_> {
    /// Every domain that is used is imported, in a version that is known.
    fn check_imports(&self, start: &Visit<'_>, findings: &mut Findings) {
        let mut used = BTreeSet::new();
        let mut pending = vec![start.graph];
        while let Some(graph) = pending.pop() {
            for (_, node) in graph.nodes() {
                used.insert(if node.is_standard() { "" } else { node.domain.as_str() });
                pending.extend(node.subgraphs());
            }
        }
        for domain in used {
            let Some(version) = version_of(start, domain) else {
                let message = format!("The model uses the domain \"{domain}\" but imports none.");
                findings.add(message);
                continue;
            };
            if let Some(newest) = schema::max_version(domain).filter(|max| version > *max) {
                let message = format!(
                    "The model imports version {version} of the domain \"{domain}\"; \
                     the newest known is {newest}."
                );
                findings.push(Diagnostic::new(Code::OnnxVersion, message));
            }
        }
    }

    fn node(&self, visit: &Visit<'_>, node: &Node, findings: &mut Findings) {
        for (name, attr) in &node.attrs {
            if let Attr::Ref { name: refers, .. } = attr {
                reference(visit, node, name, refers, findings);
            }
        }
        if let Some(i) = self.functions.applied(node) {
            return application(visit.graph, node, &self.model.functions[i], findings);
        }
        let Some(version) = version_of(visit, &node.domain) else { return };
        let Some(schema) = schema::find(&node.domain, &node.op, version) else {
            // What is not the standard's passes through.
            if schema::max_version(&node.domain).is_some() {
                findings.add_at(visit.graph, node, unknown(node, version));
            }
            return;
        };
        if schema.deprecated {
            let message = format!("`{}` must not be used in opset {version}.", node.op);
            findings.add_at(visit.graph, node, message);
            return;
        }
        against(visit.graph, node, schema, findings);
        subgraph_counts(visit.graph, node, findings);
    }
}

/// Only the attributes of the enclosing function can be referred to.
fn reference(visit: &Visit<'_>, node: &Node, name: &str, refers: &str, findings: &mut Findings) {
    let declares = |f: &Function| {
        f.attributes.iter().any(|a| a == refers) || f.defaults.iter().any(|(n, _)| n == refers)
    };
    if !visit.function.is_some_and(declares) {
        let message = format!(
            "The attribute `{}` refers to `@{}`, which no enclosing function has.",
            shown(name),
            shown(refers)
        );
        findings.add_at(visit.graph, node, message);
    }
}

fn version_of(visit: &Visit<'_>, domain: &str) -> Option<i64> {
    let own = matches!(domain, "" | "ai.onnx");
    let names: &[&str] = if own { &["", "ai.onnx"] } else { &[domain] };
    names.iter().find_map(|n| visit.opsets.get(*n).copied())
}

fn unknown(node: &Node, version: i64) -> String {
    let op = shown(&node.op);
    match schema::history(&node.domain, &node.op).first() {
        Some(first) => {
            format!("`{op}` exists since opset {}, the model imports {version}.", first.since)
        }
        None => {
            let mut names: Vec<&str> = schema::operators(&node.domain).collect();
            names.sort_unstable(); // the answer must not depend on the table's order
            let near = nearest(&node.op, names);
            let near = near.map(|n| format!("; `{n}` is one")).unwrap_or_default();
            format!("`{op}` is no operator of the domain \"{}\"{near}.", node.domain)
        }
    }
}

/// A node that applies a local function.
fn application(g: &Graph, node: &Node, f: &Function, findings: &mut Findings) {
    let sides = [
        ("inputs", node.inputs.len(), f.graph.inputs().len()),
        ("outputs", node.outputs.len(), f.graph.outputs().len()),
    ];
    for (what, found, most) in sides.into_iter().filter(|(_, found, most)| found > most) {
        let message = format!("The function has {most} {what}, the node {found}.");
        findings.add_at(g, node, message);
    }
    for name in f.attributes.iter().filter(|n| node.attr(n).is_none()) {
        findings.add_at(g, node, format!("The attribute `{name}` is missing."));
    }
}

/// A node against the operator that it applies.
pub(super) fn against(g: &Graph, node: &Node, schema: &OpSchema, findings: &mut Findings) {
    counts(g, node, schema, findings);
    attributes(g, node, schema, findings);
    types(g, node, schema, findings);
}

/// Whether later releases add inputs and attributes to the operators of a domain in place, as they
/// do where its versions stand still.
fn grows(node: &Node) -> bool {
    schema::max_version(&node.domain).is_none()
}

fn counts(g: &Graph, node: &Node, schema: &OpSchema, findings: &mut Findings) {
    let sides = [
        ("inputs", node.inputs.len(), schema.inputs_min, schema.inputs_max),
        ("outputs", node.outputs.len(), schema.outputs_min, schema.outputs_max),
    ];
    for (what, found, min, max) in sides {
        if found < min || (found > max && !grows(node)) {
            let range = match max {
                usize::MAX => format!("at least {min}"),
                _ if min == max => format!("{min}"),
                _ => format!("{min} to {max}"),
            };
            let message = format!("`{}` has {range} {what}, the node has {found}.", schema.name);
            findings.add_at(g, node, message);
        }
    }
    for (param, input) in schema.inputs.iter().zip(&node.inputs) {
        if param.kind == ParamKind::Single && input.is_none() {
            findings.add_at(g, node, format!("The input `{}` is missing.", param.name));
        }
    }
}

fn attributes(g: &Graph, node: &Node, schema: &OpSchema, findings: &mut Findings) {
    for (name, attr) in &node.attrs {
        let Some(attr_schema) = schema.attribute(name) else {
            // Names with two underscores are reserved for whoever runs the model.
            if !name.starts_with("__") && !grows(node) {
                let near = nearest(name, schema.attributes.iter().map(|a| a.name));
                let near = near.map(|n| format!(" (`{n}`?)")).unwrap_or_default();
                let name = shown(name);
                findings.add_at(g, node, format!("`{}` has no attribute `{name}`{near}.", node.op));
            }
            continue;
        };
        let untyped_reference = matches!(attr, Attr::Ref { kind: 0, .. });
        if attr.kind() != attr_schema.kind && !untyped_reference {
            let kind = |n: i32| KINDS.get(n as usize).copied().unwrap_or(KINDS[0]);
            let message = format!(
                "The attribute `{name}` must be of type {}, it is of type {}.",
                kind(attr_schema.kind),
                kind(attr.kind())
            );
            findings.add_at(g, node, message);
        }
    }
    for missing in schema.attributes.iter().filter(|a| a.required && node.attr(a.name).is_none()) {
        findings.add_at(g, node, format!("The attribute `{}` is missing.", missing.name));
    }
}

fn types(g: &Graph, node: &Node, schema: &OpSchema, findings: &mut Findings) {
    let mut bound: HashMap<&str, (&str, &ValueType)> = HashMap::new();
    let inputs = node.inputs.iter().enumerate().map(|(i, v)| (schema.input(i), v));
    let outputs = node.outputs.iter().enumerate().map(|(i, v)| (schema.output(i), v));
    for (param, v) in inputs.chain(outputs) {
        let (Some(param), Some(v)) = (param, v) else { continue };
        let Some(ty) = &g[*v].ty else { continue };
        if let Some(allowed) = schema.types_of(param).filter(|types| !types.allows(ty)) {
            let message = format!(
                "`{}` ({}) is {ty}; opset {} allows {allowed}.",
                shown(&g[*v].name),
                param.name,
                schema.since
            );
            findings.add_at(g, node, message);
            continue;
        }
        let Some(letter) = shared_letter(param) else { continue };
        let (first, other) = *bound.entry(letter).or_insert((param.name, ty));
        if !same_elements(other, ty) {
            let message = format!(
                "The inputs `{first}` and `{}` must have the same type; they are {other} and {ty}.",
                param.name
            );
            findings.add_at(g, node, message);
        }
    }
}

/// The letter whose type all parameters of the node share.
fn shared_letter(param: &Param) -> Option<&'static str> {
    let free = matches!(param.kind, ParamKind::Variadic { homogeneous: false, .. });
    match param.ty {
        ParamType::Letter(letter) if !free => Some(letter),
        _ => None,
    }
}

/// Whether two types agree but for shapes, as far as both are known.
fn same_elements(a: &ValueType, b: &ValueType) -> bool {
    match (a, b) {
        (ValueType::Tensor { dtype: a, .. }, ValueType::Tensor { dtype: b, .. })
        | (ValueType::Sparse { dtype: a, .. }, ValueType::Sparse { dtype: b, .. }) => {
            a.is_none() || b.is_none() || a == b
        }
        (ValueType::Sequence(a), ValueType::Sequence(b))
        | (ValueType::Optional(a), ValueType::Optional(b)) => same_elements(a, b),
        (ValueType::Map(ka, a), ValueType::Map(kb, b)) => ka == kb && same_elements(a, b),
        (a, b) => a == b,
    }
}

/// What If and Loop demand of their sub-graphs.
fn subgraph_counts(g: &Graph, node: &Node, findings: &mut Findings) {
    let wanted = |list: &[Option<ValueId>]| list.len();
    for (name, attr) in &node.attrs {
        let Attr::Graph(body) = attr else { continue };
        let (inputs, outputs) = (body.inputs().len(), body.outputs().len());
        let fits = match node.op.as_str() {
            "If" => inputs == 0 && outputs == wanted(&node.outputs),
            "Loop" => inputs == wanted(&node.inputs).max(2) && outputs > wanted(&node.outputs),
            "Scan" => outputs == wanted(&node.outputs),
            _ => true,
        };
        if !fits {
            let message = format!(
                "The sub-graph `{name}` has {inputs} inputs and {outputs} outputs, which does not \
                 fit the {} inputs and {} outputs of `{}`.",
                node.inputs.len(),
                node.outputs.len(),
                node.op
            );
            findings.add_at(g, node, message);
        }
    }
}
