//! Calls of functions, which are inlined.

use super::effects;
use super::item::GraphItem;
use super::node;
use super::scope::{DEPTH_MAX, GraphRunner, Scope};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use std::collections::HashMap;

/// What a call costs beside its nodes, in nodes.
const CALL_WORK: usize = 20;

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
    let function = match node.op.as_str() {
        "PartitionedCall" | "StatefulPartitionedCall" | "RemoteCall" => node::function(node, "f"),
        // A call of TensorFlow 1: the operator is the function.
        op => runner.library.contains_key(op).then_some(op),
    };
    let Some(function) = function else { return Ok(None) };
    // The first input of a RemoteCall is the device.
    let skipped = usize::from(node.op == "RemoteCall");
    call(runner, scope, node, function, inputs.get(skipped..).unwrap_or_default().to_vec())
        .map(Some)
}

/// What a function gives that `node` calls.
///
/// # Errors
/// Those of [`enter`] and [`results`].
pub(crate) fn call<'a>(
    runner: &GraphRunner<'a, '_>,
    caller: &Scope<'a>,
    node: &'a NodeDef,
    function: &'a str,
    args: Vec<GraphItem>,
) -> Result<Vec<GraphItem>> {
    let scope = enter(runner, caller, node, function, args)?;
    results(runner, &scope, node, function)
}

/// The scope in which a function runs that `node` calls.
///
/// # Errors
/// `N0201` if there is no such function, or if it takes another number of arguments; `N0206` if a node of it waits for
/// itself.
pub(crate) fn enter<'a>(
    runner: &GraphRunner<'a, '_>,
    caller: &Scope<'a>,
    node: &'a NodeDef,
    function: &'a str,
    args: Vec<GraphItem>,
) -> Result<Scope<'a>> {
    let problem = |what: String| runner.problem(caller, node, Code::SourceSyntax, what);
    let (Some(found), Some(body)) = (runner.library.get(function), runner.body(function)) else {
        return Err(problem(format!("The graph has no function `{}`.", shown(function))));
    };
    let parameters = found.signature.iter().flat_map(|signature| &signature.input_arg);
    let parameters: Vec<&'a str> = parameters.map(|arg| arg.name.as_str()).collect();
    runner.work(caller, node, CALL_WORK + parameters.len())?;
    if parameters.len() != args.len() {
        let (name, n, m) = (shown(function), parameters.len(), args.len());
        return Err(problem(format!("The function `{name}` takes {n} arguments and gets {m}.")));
    }
    let args: HashMap<&str, Vec<GraphItem>> =
        parameters.into_iter().zip(args.into_iter().map(|item| vec![item])).collect();
    let mut scope = Scope::new(body, args, runner.path(caller, node, function));
    scope.function = Some(function);
    runner.ordered(&scope)?;
    Ok(scope)
}

/// What a function gives that `node` calls, in the scope that [`enter`] made.
///
/// # Errors
/// As [`GraphRunner::value`]; `N0213` if calls are nested too deeply.
pub(crate) fn results<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    function: &'a str,
) -> Result<Vec<GraphItem>> {
    let Some(function_def) = runner.library.get(function) else { return Ok(vec![]) };
    if runner.depth.get() >= DEPTH_MAX {
        let message = format!("More than {DEPTH_MAX} calls are inside each other.");
        return Err(runner.problem(scope, node, Code::SourceLimit, message));
    }
    runner.depth.set(runner.depth.get() + 1);
    let outputs = function_def.signature.iter().flat_map(|signature| &signature.output_arg);
    let result = |name: &'a str| {
        runner.work(scope, node, 1)?;
        let Some(text) = function_def.ret.get(name) else {
            let message = format!("The function `{}` does not give `{name}`.", shown(function));
            return Err(runner.problem(scope, node, Code::SourceSyntax, message));
        };
        runner.value(scope, text)
    };
    let ran = effects::run(runner, scope, None);
    let given = ran.and_then(|()| outputs.map(|arg| result(&arg.name)).collect());
    runner.depth.set(runner.depth.get() - 1);
    given
}

#[cfg(test)]
mod tests;
