//! What a program gives, as the outputs of the graph.

use crate::aten::complex;
use crate::diag::{Code, shown};
use crate::machine::{Elements, Item, Machine, Result};
pub(crate) use onnxd_plugin_sdk::lower::{documented, model};
use std::collections::HashSet;

/// What is said of an input that the program writes.
pub(crate) const INPUT: &str = "input";

/// Lists the tensors of what the program gives as outputs, in their order. What is in a dict has its key for a name.
///
/// # Errors
/// `N0203` if something is no tensor.
pub(crate) fn listed(machine: &Machine<'_>, result: &Item) -> Result<()> {
    let mut leaves = vec![];
    flattened(machine, result, "", &mut leaves)?;
    if leaves.is_empty() {
        let message = "The program gives no tensor.";
        return Err(machine.problem(Code::LayerUnsupported, message));
    }
    let mut taken = HashSet::new();
    for (i, (name, item)) in leaves.iter().enumerate() {
        let name = match name.as_str() {
            "" if leaves.len() == 1 => "output".to_owned(),
            "" => format!("output_{i}"),
            name => name.to_owned(),
        };
        let var = machine.var_of(item)?;
        let var = complex::real(machine.builder(), var)?;
        let name = if taken.insert(name.clone()) { name } else { format!("{name}_{i}") };
        machine.builder().output(var, &name)?;
    }
    Ok(())
}

/// The name of what is in a dict under `key`, or a part of what is under `path`.
pub(crate) fn key_path(path: &str, key: &str) -> String {
    if path.is_empty() { key.to_owned() } else { format!("{path}.{key}") }
}

/// What the key of a dict is called.
pub(crate) fn key_word(key: &Item) -> Option<String> {
    match key {
        Item::Text(key) => Some(key.to_string()),
        Item::Int(key) => Some(key.to_string()),
        Item::Float(key) => Some(key.to_string()),
        Item::Bool(key) => Some(if *key { "True" } else { "False" }.to_owned()),
        _ => None,
    }
}

/// Tensors with their names, empty outside of dicts.
fn flattened(
    machine: &Machine<'_>,
    item: &Item,
    path: &str,
    into: &mut Vec<(String, Item)>,
) -> Result<()> {
    let parts = |items: &[Item], into: &mut Vec<(String, Item)>| {
        let named = |i: usize| match path {
            "" => String::new(),
            path => key_path(path, &i.to_string()),
        };
        let mut all = items.iter().enumerate();
        all.try_for_each(|(i, item)| flattened(machine, item, &named(i), into))
    };
    match item {
        Item::None => {}
        Item::Dict(cell) => {
            for (key, item) in cell.borrow().iter() {
                let key = key_word(key).map_or_else(|| path.to_owned(), |key| key_path(path, &key));
                flattened(machine, item, &key, into)?;
            }
        }
        Item::List(cell) => match &*cell.borrow() {
            Elements::Known(items) => parts(items, into)?,
            Elements::Sequence(var) | Elements::Numbers(var, _) => {
                into.push((path.to_owned(), machine.tensor(*var)));
            }
        },
        Item::Tuple(items) | Item::Record(_, items) => parts(items, into)?,
        Item::Object(object) => {
            let message =
                format!("The program gives an object of class `{}`.", shown(&object.class));
            return Err(machine.problem(Code::LayerUnsupported, message));
        }
        other => into.push((path.to_owned(), other.clone())),
    }
    Ok(())
}
