//! The order in which variables are read and written. Nodes run when a result needs them; those that read or write a
//! variable that is written run before, one after the other, as the edges of the graph say.

use super::item::GraphItem;
use super::node::{self, name_of};
use super::nodes::Nodes;
use super::order;
use super::scope::{DEPTH_MAX, GraphRunner, Scope, Writes};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// Nodes that only pass a handle on, one behind the other.
const IDENTITIES_MAX: usize = 64;

/// Runs the nodes that read or write variables which are written: of a function all, of the main graph those that a
/// result waits for.
///
/// # Errors
/// As [`GraphRunner::value`].
pub(crate) fn run<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    wanted: Option<&HashSet<usize>>,
) -> Result<()> {
    let body = &scope.body;
    let writes = |node: &NodeDef| !written_inputs(runner, node).is_empty();
    if !*body.writes.get_or_init(|| body.nodes.iter().any(writes)) {
        return Ok(());
    }
    let is_wanted = |index: &usize| wanted.is_none_or(|wanted| wanted.contains(index));
    let mut names = HashSet::new();
    let mut writers = HashSet::new();
    for index in (0..body.nodes.len()).filter(is_wanted) {
        let node = &body.nodes[index];
        runner.work(scope, node, 1)?;
        for name in written(runner, scope, node)? {
            if body.is_inside_flow(index) {
                runner.states.lose(&name, scope.layer(node));
            }
            names.insert(name);
        }
        if writes(node) {
            writers.insert(index);
        }
    }
    if writers.is_empty() {
        return Ok(());
    }
    for index in order::sequence(body).into_iter().filter(is_wanted) {
        let node = &body.nodes[index];
        let reads = || -> Result<bool> {
            for text in data_inputs(node) {
                let name = variable_of(runner, scope, text)?;
                if name.is_some_and(|name| names.contains(&name)) {
                    return Ok(true);
                }
            }
            Ok(false)
        };
        if !writers.contains(&index) && (is_passed(node) || !reads()?) {
            continue;
        }
        match body.is_inside_flow(index) {
            true => {
                for text in data_inputs(node) {
                    let name = variable_of(runner, scope, text)?;
                    if let Some(name) = name.filter(|name| names.contains(name)) {
                        runner.states.lose(&name, scope.layer(node));
                    }
                }
            }
            false => runner.evaluate(scope, index)?,
        }
    }
    Ok(())
}

/// Whether a node has no effect and gives a handle on, or looks at it alone.
fn is_passed(node: &NodeDef) -> bool {
    matches!(
        node.op.as_str(),
        "Enter" | "RefEnter" | "VarIsInitializedOp" | "IsVariableInitialized" | "VariableShape"
    )
}

/// The variables that a node writes, itself or by functions that it calls.
///
/// # Errors
/// As [`GraphRunner::value`].
pub(crate) fn written<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
) -> Result<Vec<String>> {
    let (mut all, mut seen) = (vec![], HashSet::new());
    let texts: Vec<&str> = data_inputs(node).collect();
    for input in written_inputs(runner, node) {
        let Some(text) = texts.get(input) else { continue };
        let Some(name) = variable_of(runner, scope, text)? else { continue };
        let text = Some(text).filter(|_| runner.states.value(&name).is_none());
        let initial = text.map(|text| runner.value(scope, leaf(&scope.body, text))).transpose()?;
        if let Some(GraphItem::Tensor(var)) = initial {
            runner.states.begin(&name, var);
        }
        if seen.insert(name.clone()) {
            all.push(name);
        }
    }
    Ok(all)
}

/// The inputs of a node whose variables it writes, itself or by functions that it calls.
fn written_inputs(runner: &GraphRunner<'_, '_>, node: &NodeDef) -> Vec<usize> {
    if node::is_write(&node.op) {
        return vec![0];
    }
    // Functions of conditions do not get the condition.
    let skipped = usize::from(matches!(
        node.op.as_str(),
        "If" | "StatelessIf" | "Case" | "StatelessCase" | "RemoteCall"
    ));
    let mut found = vec![];
    for function in node::called(node, &runner.library) {
        let writes = of_function(runner, function);
        found.extend(writes.range(..node.input.len()).map(|at| at + skipped));
    }
    found
}

/// The parameters that a function writes to.
fn of_function(runner: &GraphRunner<'_, '_>, function: &str) -> Rc<Writes> {
    let Some((&function, found)) = runner.library.get_key_value(function) else {
        return Rc::default();
    };
    if let Some(known) = runner.writes.borrow().get(function) {
        return known.clone();
    }
    // What calls itself is refused when it runs.
    runner.writes.borrow_mut().insert(function, Rc::default());
    if runner.depth.get() >= DEPTH_MAX {
        return Rc::default();
    }
    runner.depth.set(runner.depth.get() + 1);
    let args = found.signature.iter().flat_map(|signature| &signature.input_arg);
    let args: HashMap<&str, usize> =
        args.enumerate().map(|(i, arg)| (arg.name.as_str(), i)).collect();
    let mut all = Writes::new();
    if let Some(body) = runner.body(function) {
        for node in body.nodes {
            let inputs = written_inputs(runner, node);
            let texts: Vec<&str> = match inputs.is_empty() {
                true => vec![],
                false => data_inputs(node).collect(),
            };
            for input in inputs {
                let name = texts.get(input).map(|text| leaf(&body, text));
                all.extend(name.and_then(|name| args.get(name)));
            }
        }
    }
    runner.depth.set(runner.depth.get() - 1);
    let all = Rc::new(all);
    runner.writes.borrow_mut().insert(function, all.clone());
    all
}

fn data_inputs(node: &NodeDef) -> impl Iterator<Item = &str> {
    node.input.iter().filter(|text| !text.starts_with('^')).map(String::as_str)
}

/// The name of the node or argument that a handle comes from. What writes a variable of TensorFlow 1 gives it on.
fn leaf<'b>(body: &Nodes<'b>, text: &'b str) -> &'b str {
    let mut name = name_of(text);
    for _ in 0..IDENTITIES_MAX {
        let node = body.node(name);
        let passes = |node: &&NodeDef| {
            matches!(node.op.as_str(), "Identity" | "Enter" | "RefEnter")
                || node::is_write(&node.op) && !node.op.contains("Resource")
        };
        match node.filter(passes).and_then(|node| node.input.first()) {
            Some(text) => name = name_of(text),
            None => break,
        }
    }
    name
}

/// The variable that an input of a node is, or is a handle of. A frozen one is a constant.
///
/// # Errors
/// As [`GraphRunner::value`].
pub(crate) fn variable<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    input: usize,
) -> Result<Option<String>> {
    match data_inputs(node).nth(input) {
        Some(text) => variable_of(runner, scope, text),
        None => Ok(None),
    }
}

/// As [`variable`], by the text of the input.
fn variable_of<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    text: &str,
) -> Result<Option<String>> {
    let direct = name_of(text);
    let name = leaf(&scope.body, text);
    let found = scope.body.node(name);
    let item = match (scope.args.get(name), found) {
        (Some(items), _) => items.first().cloned(),
        (None, Some(node)) if node.op == "VarHandleOp" => Some(runner.value(scope, &node.name)?),
        (None, Some(node)) if is_variable(node) => {
            // Behind an Identity it is a value that was read.
            let is_itself = direct == name || !is_read(scope, direct);
            return Ok(is_itself.then(|| runner.states.name(scope.function, node)));
        }
        (None, Some(node)) if node.op == "Const" => Some(runner.value(scope, &node.name)?),
        _ => None,
    };
    Ok(match item {
        Some(GraphItem::Resource(variable)) => Some(variable.name.clone()),
        Some(GraphItem::Tensor(var)) => runner.states.constant(var),
        _ => None,
    })
}

/// Whether a node is a variable of TensorFlow 1.
fn is_variable(node: &NodeDef) -> bool {
    matches!(node.op.as_str(), "Variable" | "VariableV2")
}

fn is_read(scope: &Scope<'_>, name: &str) -> bool {
    scope.body.node(name).is_some_and(|node| node.op == "Identity")
}

/// The values of inputs as they are now: variables of TensorFlow 1 that a node reads by itself, and such that were
/// frozen, may have been written. Functions that a node calls do so themselves.
pub(crate) fn present<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    mut inputs: Vec<GraphItem>,
) -> Vec<GraphItem> {
    if runner.states.is_empty() || !node::called(node, &runner.library).is_empty() {
        return inputs;
    }
    let first = usize::from(node::is_write(&node.op));
    for (at, text) in data_inputs(node).enumerate().skip(first) {
        let found = scope.body.node(name_of(text));
        let Some(input) = inputs.get_mut(at) else { break };
        let name = match (found.filter(|node| is_variable(node)), &input) {
            (Some(read), _) => Some(runner.states.name(scope.function, read)),
            (None, GraphItem::Tensor(var)) => runner.states.constant(*var),
            (None, _) => None,
        };
        if let Some(name) = name {
            *input = runner.states.read(runner.driver, &name, input.clone());
        }
    }
    inputs
}
