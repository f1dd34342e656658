//! Conditions and loops by functions: If, Case, While and their kin.

use super::branch::{branch, chosen};
use super::item::GraphItem;
use super::repeat::{Repetition, repeat};
use super::scope::{GraphRunner, Scope};
use super::truth::truth;
use super::{calls, effects, node};
use crate::wire::proto::{Attr, NodeDef};
use crate::wire::tensor::dims_of;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::Dim;

/// How many calls a loop or condition counts for: it needs more of the stack than one.
pub(crate) const WEIGHT: usize = 2;

/// Functions inside each other that are looked through for arguments that come back unchanged.
const TRACE_MAX: usize = 256;

/// Runs a node of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Option<Vec<GraphItem>>> {
    let depth = runner.depth.get();
    runner.depth.set(depth + WEIGHT);
    let given = nested(runner, scope, node, inputs);
    runner.depth.set(depth);
    given
}

fn nested<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Option<Vec<GraphItem>>> {
    let functions = match node.op.as_str() {
        "If" | "StatelessIf" => vec![needed(runner, scope, node, "then_branch")?]
            .into_iter()
            .chain([needed(runner, scope, node, "else_branch")?])
            .collect(),
        "Case" | "StatelessCase" => branches(node),
        "While" | "StatelessWhile" => return looped(runner, scope, node, inputs).map(Some),
        _ => return Ok(None),
    };
    let Some((choice, args)) = inputs.split_first().filter(|_| !functions.is_empty()) else {
        let message = "The node has no condition or no branches.";
        return Err(runner.problem(scope, node, Code::SourceSyntax, message));
    };
    let choice = match choice {
        GraphItem::Tensor(var) => Some(*var),
        GraphItem::Hole => None,
        _ => {
            let message = "The condition is no tensor.";
            return Ok(Some(runner.refuse(scope, node, Code::LayerUnsupported, message)));
        }
    };
    let Some(choice) = choice else {
        // What is wrong in the branches is still told.
        for function in functions {
            calls::call(runner, scope, node, function, args.to_vec())?;
        }
        return Ok(Some(vec![GraphItem::Hole; node::output_count(node, None)]));
    };
    let b = runner.builder();
    // What a branch writes is one more thing that it gives.
    let written = effects::written(runner, scope, node)?;
    let before = runner.states.now();
    let arm = |at: usize| {
        runner.states.take_back(before);
        let mut results = calls::call(runner, scope, node, functions[at], args.to_vec())?;
        results.extend(present(runner, &written));
        Ok(results)
    };
    let mut results = b.in_layer(scope.layer(node), |_| match node.op.as_str() {
        "If" | "StatelessIf" => branch(runner.driver, truth(b, choice)?, [&|| arm(0), &|| arm(1)]),
        _ => chosen(runner.driver, choice, functions.len(), &arm),
    })?;
    runner.states.take_back(before);
    write(runner, &written, results.split_off(results.len().saturating_sub(written.len())));
    Ok(Some(results))
}

/// The present values of variables.
fn present(runner: &GraphRunner<'_, '_>, names: &[String]) -> Vec<GraphItem> {
    names.iter().map(|name| runner.states.value(name).unwrap_or(GraphItem::Hole)).collect()
}

fn write(runner: &GraphRunner<'_, '_>, names: &[String], items: Vec<GraphItem>) {
    names.iter().zip(items).for_each(|(name, item)| runner.states.set(name, item));
}

/// The function that an attribute names.
fn needed<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    name: &str,
) -> Result<&'a str> {
    node::function(node, name).ok_or_else(|| {
        let message = format!("The node does not say which function is its `{name}`.");
        runner.problem(scope, node, Code::SourceSyntax, message)
    })
}

fn branches(node: &NodeDef) -> Vec<&str> {
    match node.attr.get("branches").and_then(|attr| attr.value.as_ref()) {
        Some(Attr::List(list)) => list.func.iter().map(|f| f.name.as_str()).collect(),
        _ => vec![],
    }
}

fn looped<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Vec<GraphItem>> {
    let condition = needed(runner, scope, node, "cond")?;
    let body = needed(runner, scope, node, "body")?;
    // What a turn writes is one more thing that it carries.
    let written = effects::written(runner, scope, node)?;
    let call = |function: &'a str, items: &[GraphItem]| {
        let (args, values) = items.split_at(items.len().min(inputs.len()));
        write(runner, &written, values.to_vec());
        let inner = calls::enter(runner, scope, node, function, args.to_vec())?;
        let mut results = calls::results(runner, &inner, node, function)?;
        let (name, n, m) = (shown(function), results.len(), inputs.len());
        if function == body && n != m {
            let message = format!("The function `{name}` gives {n} values, and the loop has {m}.");
            return Err(runner.problem(scope, node, Code::SourceSyntax, message));
        }
        results.extend(present(runner, &written));
        Ok(results)
    };
    let mut budget = TRACE_MAX;
    let constant = (0..inputs.len()).map(|at| passes(runner, body, at, &mut budget));
    let constant = constant.chain(written.iter().map(|_| false)).collect();
    let paths = runner.remembered();
    let repetition = Repetition {
        name: "body",
        turn: &|items| {
            runner.remember(paths);
            call(body, items)
        },
        condition: &|items| {
            let results = call(condition, items)?;
            results.first().cloned().ok_or_else(|| {
                let message = "The condition of the loop gives nothing.";
                runner.problem(scope, node, Code::SourceSyntax, message)
            })
        },
        declared: declared(node),
        constant,
    };
    let begins = [inputs.to_vec(), present(runner, &written)].concat();
    let repeated = || repeat(runner.driver, &begins, &repetition);
    let mut results = runner.builder().in_layer(scope.layer(node), |_| repeated())?;
    write(runner, &written, results.split_off(inputs.len().min(results.len())));
    Ok(results)
}

/// The shapes that the node declares for the values of the loop.
fn declared(node: &NodeDef) -> Vec<Option<Vec<Dim>>> {
    match node.attr.get("output_shapes").and_then(|attr| attr.value.as_ref()) {
        Some(Attr::List(list)) => list.shape.iter().map(dims_of).collect(),
        _ => vec![],
    }
}

/// Whether a function gives its argument number `at` as its result of the same number.
fn passes(runner: &GraphRunner<'_, '_>, function: &str, at: usize, budget: &mut usize) -> bool {
    let Some((&function, function_def)) = runner.library.get_key_value(function) else {
        return false;
    };
    let (Some(signature), Some(body)) = (&function_def.signature, runner.body(function)) else {
        return false;
    };
    let result = signature.output_arg.get(at).and_then(|arg| function_def.ret.get(&arg.name));
    let (Some(result), Some(arg)) = (result, signature.input_arg.get(at)) else { return false };
    let mut text = result.as_str();
    while *budget > 0 {
        *budget -= 1;
        let (name, slot) = match node::reference(text) {
            Some(node::Reference::Slot(name, slot)) => (name, slot),
            Some(node::Reference::Output(name, _, slot)) => (name, slot),
            None => return false,
        };
        if name == arg.name {
            return true;
        }
        let Some(node) = body.find(name).map(|index| &body.nodes[index]) else { return false };
        let next = match node.op.as_str() {
            "Identity" => node.input.first(),
            "While" | "StatelessWhile" => {
                let inner = node::function(node, "body");
                match inner.is_some_and(|inner| passes(runner, inner, slot, budget)) {
                    true => node.input.get(slot),
                    false => None,
                }
            }
            _ => None,
        };
        match next {
            Some(next) => text = next,
            None => return false,
        }
    }
    false
}

#[cfg(test)]
mod tests;
