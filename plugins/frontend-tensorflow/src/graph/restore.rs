//! Which tensor of the checkpoint is the value of which variable, as the function or nodes that restore them say it.

use super::node::{self, FunctionLibrary, name_of};
use super::nodes::Nodes;
use crate::wire::proto::{MetaGraphDef, NodeDef};
use crate::wire::tensor::tensor_of;
use std::collections::{HashMap, HashSet};

/// Nodes that only pass a value on, one behind the other.
const IDENTITIES_MAX: usize = 64;

/// A tensor of the checkpoint, or a part of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CheckpointSlice {
    pub(crate) key: String,
    pub(crate) slice: String,
}

/// The stored tensors by the nodes of the main graph that make the variables.
pub(crate) fn stored<'a>(
    meta: &'a MetaGraphDef,
    main: &Nodes<'a>,
    library: &FunctionLibrary<'a>,
) -> HashMap<&'a str, CheckpointSlice> {
    let mut slices = HashMap::new();
    let name = meta.saver_def.iter().map(|saver| saver.restore_op_name.as_str()).next();
    let Some(node) = name.and_then(|name| main.node(name_of(name))) else {
        return slices;
    };
    let function = node::function(node, "f").or(Some(node.op.as_str()));
    let Some(function) = function.and_then(|name| library.get(name)) else {
        // TensorFlow 1: the node waits for all that assign.
        assigned(main, &waited_for(main, node), |variable, stored| {
            slices.insert(variable, stored);
        });
        return slices;
    };
    let body = Nodes::new(&function.node_def);
    let parameters = function.signature.iter().flat_map(|signature| &signature.input_arg);
    let data = node.input.iter().filter(|text| !text.starts_with('^'));
    let handles: HashMap<&str, &'a str> =
        parameters.map(|arg| arg.name.as_str()).zip(data.map(|text| leaf(main, text))).collect();
    let all: Vec<&NodeDef> = body.nodes.iter().collect();
    assigned(&body, &all, |parameter, stored| {
        if let Some(variable) = handles.get(parameter) {
            slices.insert(variable, stored);
        }
    });
    slices
}

/// Hands on the nodes or arguments to which `nodes` assign tensors of the checkpoint.
fn assigned<'b>(
    body: &Nodes<'b>,
    nodes: &[&'b NodeDef],
    mut each: impl FnMut(&'b str, CheckpointSlice),
) {
    let mut texts: HashMap<&str, Option<Vec<String>>> = HashMap::new();
    let mut strings = |text: &'b str| {
        let name = leaf(body, text);
        texts.entry(name).or_insert_with(|| constant(body, name)).clone()
    };
    let mut restored: HashMap<&str, Option<[Vec<String>; 2]>> = HashMap::new();
    for node in nodes.iter().filter(|node| node.op.starts_with("Assign")) {
        let [variable, value, ..] = node.input.as_slice() else { continue };
        let Some((source, output)) = source(body, value) else { continue };
        if source.op != "RestoreV2" {
            continue;
        }
        let lists = restored.entry(&source.name).or_insert_with(|| {
            let [_, names, slices, ..] = source.input.as_slice() else { return None };
            Some([strings(names)?, strings(slices)?])
        });
        let Some([names, slices]) = lists else { continue };
        if let (Some(key), Some(slice)) = (names.get(output), slices.get(output)) {
            each(leaf(body, variable), CheckpointSlice { key: key.clone(), slice: slice.clone() });
        }
    }
}

/// The words of a constant.
fn constant(body: &Nodes<'_>, name: &str) -> Option<Vec<String>> {
    let tensor = tensor_of(node::constant(body.node(name)?)?).ok()?;
    let word = |bytes: &bytes::Bytes| String::from_utf8_lossy(bytes).into_owned();
    Some(tensor.as_strings()?.iter().map(word).collect())
}

/// The nodes that a node waits for, directly or not.
fn waited_for<'b>(body: &Nodes<'b>, node: &'b NodeDef) -> Vec<&'b NodeDef> {
    let (mut open, mut seen, mut found) = (vec![node], HashSet::new(), vec![]);
    while let Some(node) = open.pop() {
        found.push(node);
        for text in &node.input {
            let index = body.find(name_of(text));
            open.extend(index.filter(|i| seen.insert(*i)).map(|i| &body.nodes[i]));
        }
    }
    found
}

/// The node that computes a value, and which of its outputs it is.
fn source<'b>(body: &Nodes<'b>, text: &'b str) -> Option<(&'b NodeDef, usize)> {
    let mut text = text;
    for _ in 0..IDENTITIES_MAX {
        let node = body.read(text)?;
        if node.op != "Identity" {
            return Some((node, node::reference(text)?.at()));
        }
        text = node.input.first()?;
    }
    None
}

/// The name of the node or argument that a handle comes from.
fn leaf<'b>(body: &Nodes<'b>, text: &'b str) -> &'b str {
    let mut name = name_of(text);
    for _ in 0..IDENTITIES_MAX {
        let node = body.node(name).filter(|node| node.op == "Identity");
        match node.and_then(|node| node.input.first()) {
            Some(text) => name = name_of(text),
            None => break,
        }
    }
    name
}
