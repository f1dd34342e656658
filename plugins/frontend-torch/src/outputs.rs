//! What a program gives, as the outputs of the graph.

use crate::aten::complex;
use crate::diag::{Code, shown};
use crate::machine::{Elements, Item, Machine, Result};
pub(crate) use onnxd_plugin_sdk::lower::{documented, model};
use std::collections::HashSet;

/// Lists the tensors of what the program gives as outputs, in their order; `names` are the source's, as far as it
/// has them.
///
/// # Errors
/// `N0203` if something is no tensor.
pub(crate) fn listed(machine: &Machine<'_>, result: &Item, names: &[String]) -> Result<()> {
    let mut leaves = vec![];
    flattened(machine, result, &mut leaves)?;
    if leaves.is_empty() {
        let message = "The program gives no tensor.";
        return Err(machine.problem(Code::LayerUnsupported, message));
    }
    let mut taken = HashSet::new();
    for (i, item) in leaves.iter().enumerate() {
        let name = match names.get(i).filter(|_| names.len() == leaves.len()) {
            Some(name) => name.clone(),
            None if leaves.len() == 1 => "output".to_owned(),
            None => format!("output_{i}"),
        };
        let var = machine.var_of(item)?;
        let var = complex::real(machine.builder(), var)?;
        let name = if taken.insert(name.clone()) { name } else { format!("{name}_{i}") };
        machine.builder().output(var, &name)?;
    }
    Ok(())
}

fn flattened(machine: &Machine<'_>, item: &Item, into: &mut Vec<Item>) -> Result<()> {
    match item {
        Item::None => {}
        Item::Dict(cell) => {
            for (_, item) in cell.borrow().iter() {
                flattened(machine, item, into)?;
            }
        }
        Item::List(cell) => match &*cell.borrow() {
            Elements::Known(items) => {
                items.iter().try_for_each(|item| flattened(machine, item, into))?;
            }
            Elements::Sequence(var) | Elements::Numbers(var, _) => into.push(machine.tensor(*var)),
        },
        Item::Tuple(items) | Item::Record(_, items) => {
            items.iter().try_for_each(|item| flattened(machine, item, into))?;
        }
        Item::Object(object) => {
            let message =
                format!("The program gives an object of class `{}`.", shown(&object.class));
            return Err(machine.problem(Code::LayerUnsupported, message));
        }
        other => into.push(other.clone()),
    }
    Ok(())
}
