//! Which variables are written before a node runs. An ONNX model keeps nothing between runs, so a value that was
//! written cannot be read; what is written and never read is left out.

use super::node::{self, Reference};
use super::run::{Body, DEPTH_MAX, Item, Runner, Scope};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::rc::Rc;

/// Names of variables.
pub(crate) type Written = Rc<HashSet<String>>;

/// Nodes that only pass a handle on, one behind the other.
const IDENTITIES_MAX: usize = 64;

/// The parameters of functions that they write to, by position.
pub(crate) type Writes = BTreeSet<usize>;

/// The variables that are written before `node` runs, as far as the order of nodes says it.
///
/// # Errors
/// As [`Runner::value`].
pub(crate) fn before<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
) -> Result<Written> {
    let writes = |node: &NodeDef| !written_inputs(runner, node).is_empty();
    if !*scope.body.writes.get_or_init(|| scope.body.nodes.iter().any(writes)) {
        return Ok(scope.written.clone());
    }
    let mut all = HashSet::clone(&scope.written);
    let mut seen = HashSet::new();
    let mut open: Vec<&'a NodeDef> = vec![node];
    while let Some(next) = open.pop() {
        for text in &next.input {
            let found = scope.body.find(name_of(text));
            let Some(index) = found.filter(|index| seen.insert(*index)) else { continue };
            runner.work(scope, node, 1)?;
            let before = &scope.body.nodes[index];
            for input in written_inputs(runner, before) {
                if let Some(name) = variable(runner, scope, before, input)? {
                    all.insert(name);
                }
            }
            open.push(before);
        }
    }
    Ok(Rc::new(all))
}

/// The variable of TensorFlow 1 that a node reads by itself, if it is written before the node runs.
///
/// # Errors
/// As [`Runner::value`].
pub(crate) fn stale<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
) -> Result<Option<&'a str>> {
    let of = |text: &'a String| {
        let index = scope.body.find(leaf(&scope.body, text))?;
        let found = &scope.body.nodes[index];
        matches!(found.op.as_str(), "Variable" | "VariableV2").then_some(found.name.as_str())
    };
    let read: Vec<&str> =
        node.input.iter().filter(|text| !text.starts_with('^')).filter_map(of).collect();
    if read.is_empty() {
        return Ok(None);
    }
    let written = before(runner, scope, node)?;
    Ok(read.into_iter().find(|name| written.contains(*name)))
}

/// As [`before`], for functions that a node runs again and again: what they write is written before they run again.
///
/// # Errors
/// As [`Runner::value`].
pub(crate) fn before_and_in<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
) -> Result<Written> {
    let before = before(runner, scope, node)?;
    let mut all = HashSet::clone(&before);
    for input in written_inputs(runner, node) {
        all.extend(variable(runner, scope, node, input)?);
    }
    Ok(Rc::new(all))
}

/// The inputs of a node whose variables it writes, itself or by functions that it calls.
fn written_inputs(runner: &Runner<'_, '_>, node: &NodeDef) -> Vec<usize> {
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
fn of_function(runner: &Runner<'_, '_>, function: &str) -> Rc<Writes> {
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
            for input in written_inputs(runner, node) {
                let name = data_input(node, input).map(|text| leaf(&body, text));
                all.extend(name.and_then(|name| args.get(name)));
            }
        }
    }
    runner.depth.set(runner.depth.get() - 1);
    let all = Rc::new(all);
    runner.writes.borrow_mut().insert(function, all.clone());
    all
}

fn data_input(node: &NodeDef, at: usize) -> Option<&str> {
    node.input.iter().filter(|text| !text.starts_with('^')).nth(at).map(String::as_str)
}

/// The name of the node or argument that a handle comes from.
fn leaf<'b>(body: &Body<'b>, text: &'b str) -> &'b str {
    let mut name = name_of(text);
    for _ in 0..IDENTITIES_MAX {
        let node = body.find(name).map(|index| &body.nodes[index]);
        let passes =
            node.filter(|node| matches!(node.op.as_str(), "Identity" | "Enter" | "RefEnter"));
        match passes.and_then(|node| node.input.first()) {
            Some(text) => name = name_of(text),
            None => break,
        }
    }
    name
}

/// The variable that an input of a node is a handle of.
fn variable<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    input: usize,
) -> Result<Option<String>> {
    let Some(text) = data_input(node, input) else { return Ok(None) };
    let name = leaf(&scope.body, text);
    let item = match scope.args.get(name) {
        Some(items) => items.first().cloned(),
        None => match scope.body.find(name).map(|index| &scope.body.nodes[index]) {
            Some(node) if node.op == "VarHandleOp" => Some(runner.value(scope, &node.name)?),
            Some(node) if matches!(node.op.as_str(), "Variable" | "VariableV2") => {
                return Ok(Some(node.name.clone()));
            }
            _ => None,
        },
    };
    Ok(match item {
        Some(Item::Resource(variable)) => Some(variable.name.clone()),
        _ => None,
    })
}

/// The node or argument that a text names, also a control input.
fn name_of(text: &str) -> &str {
    let text = text.trim_start_matches('^');
    match node::reference(text) {
        Some(Reference::Slot(name, _) | Reference::Output(name, ..)) => name,
        None => text,
    }
}
