//! What a program gives, as the outputs of the graph.

use crate::aten::complex;
use crate::diag::{Code, shown};
use crate::machine::{Elements, Item, Machine, Result};
use onnxd_plugin_sdk::ir::{Graph, Model};
use std::collections::{BTreeSet, HashSet};

/// Version of the file format.
const IR_VERSION: i64 = 8;

/// A model around a graph. Operators of other domains, which passes lower, are those of version 1.
pub(crate) fn model(graph: Graph, opset: i64) -> Model {
    let mut model = Model::new(graph, IR_VERSION, opset);
    let mut domains = BTreeSet::new();
    model.for_each_graph(|graph| {
        let nodes = graph.nodes().filter(|(_, node)| !node.is_standard());
        domains.extend(nodes.map(|(_, node)| node.domain.clone()));
    });
    for domain in domains {
        model.opsets.entry(domain).or_insert(1);
    }
    model
}

/// Writes to nodes where in the source they come from, as far as they do not say it.
pub(crate) fn documented(graph: &mut Graph) {
    for id in graph.node_ids() {
        let node = graph.node_mut(id);
        if let (true, Some(layer)) = (node.doc.is_empty(), node.layers.first()) {
            node.doc = match layer.place.as_str() {
                "" => layer.name.clone(),
                place => place.to_owned(),
            };
        }
        graph.edit_subgraphs(id, documented);
    }
}

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
