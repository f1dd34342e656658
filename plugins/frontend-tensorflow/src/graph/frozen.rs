//! Frozen graphs: all weights are constants, and inputs and outputs are told by the nodes alone.

use super::leftovers;
use super::network::{self, GraphNetwork, Port, type_of};
use super::node::{self, library};
use super::nodes::Nodes;
use super::variables::Variables;
use crate::files;
use crate::params;
use crate::wire::proto::{Attr, GraphDef, NodeDef};
use crate::wire::tensor::dims_of;
use crate::wire::text;
use bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, ValueType};
use onnxd_plugin_sdk::{ExportOptions, Imported};
use std::collections::HashSet;

/// Candidates for outputs that a message names.
const CANDIDATES_MAX: usize = 12;

/// Before this version of graphs, a placeholder without axes was one whose shape is not known.
const SCALARS_SINCE: i32 = 24;

/// Reads a frozen graph.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    bytes: Bytes,
    is_text: bool,
    params: &params::Source,
    options: &ExportOptions,
) -> Result<Imported, Diagnostics> {
    let bytes = if is_text { text::encoded(&bytes, "GraphDef")?.into() } else { bytes };
    let graph: GraphDef = files::decoded(bytes, "graph of TensorFlow")?;
    let network = network(&graph, &params.inputs(), &params.outputs())?;
    let imported = network::import(&network, options);
    match params.outputs().is_empty() {
        true => imported.map_err(|found| guessed(&graph, found)),
        false => imported,
    }
}

/// What was found. Where something cannot be converted, and the outputs were guessed among several nodes, they are
/// named.
pub(crate) fn guessed(graph: &GraphDef, mut found: Diagnostics) -> Diagnostics {
    let (nodes, left) = leftovers::split(graph);
    let left: Vec<&str> = left.into_iter().map(|node| node.name.as_str()).collect();
    let unsupported = |found: &&mut Diagnostic| found.code == Code::LayerUnsupported.as_str();
    let Some(first) = found.0.iter_mut().find(unsupported).filter(|_| nodes.len() + left.len() > 1)
    else {
        return found;
    };
    let listed = |names: &[&str]| {
        let all: Vec<String> =
            names.iter().take(CANDIDATES_MAX).map(|name| format!("`{}`", shown(name))).collect();
        let more = names.len().saturating_sub(CANDIDATES_MAX);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        format!("{}{more}", all.join(", "))
    };
    let taken: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let mut help = format!("{} The outputs were guessed: {}.", first.help, listed(&taken));
    if !left.is_empty() {
        help.push_str(&format!(" Nothing reads {} either.", listed(&left)));
    }
    help.push_str(" Name those that count with `source.outputs`.");
    *first = first.clone().help(help.trim_start().to_owned());
    found
}

/// The inputs and outputs of a graph: those that are named, else what its nodes tell.
///
/// # Errors
/// `N0105` for params that name what the graph does not have, `N0201` for a graph without outputs.
pub(crate) fn network<'a>(
    graph: &'a GraphDef,
    in_places: &[String],
    out_places: &[String],
) -> Result<GraphNetwork<'a>, Diagnostic> {
    let (mut outputs, left) = outputs(graph);
    if !out_places.is_empty() {
        outputs = named(graph, "source.outputs", out_places)?;
    }
    refuse!(outputs.is_empty() =>
        Diagnostic::new(Code::SourceSyntax, "The graph has no node whose result could be an output."));
    let inputs = match in_places {
        [] if out_places.is_empty() => inputs(graph),
        [] => needed(graph, inputs(graph), &outputs),
        places => named(graph, "source.inputs", places)?,
    };
    let fact = |names: Vec<&str>| ("source.unread_nodes".to_owned(), names.join(", "));
    let metadata = (!left.is_empty()).then(|| fact(left)).into_iter().collect();
    Ok(GraphNetwork { graph, inputs, outputs, variables: Variables::default(), metadata })
}

/// The inputs that outputs depend on.
pub(crate) fn needed(graph: &GraphDef, inputs: Vec<Port>, outputs: &[Port]) -> Vec<Port> {
    let nodes = Nodes::new(&graph.node);
    let name = |text| node::reference(text).map(|found| found.name());
    let mut open: Vec<&str> = outputs.iter().filter_map(|port| name(&port.place)).collect();
    let mut found = HashSet::new();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            let read = nodes.node(next).into_iter().flat_map(|node| &node.input);
            open.extend(read.filter_map(|text| name(text)));
        }
    }
    inputs.into_iter().filter(|port| found.contains(port.place.as_str())).collect()
}

/// The placeholders, without those that freezing puts into the place of what a branch or loop does not use.
fn inputs(graph: &GraphDef) -> Vec<Port> {
    let placeholders = graph.node.iter().filter(|node| node::is_placeholder(node));
    let used = placeholders.filter(|node| {
        let last = node.name.rsplit('/').next().unwrap_or_default();
        !last.starts_with("unused_control_flow_input")
    });
    let mut ports: Vec<Port> = used.map(|node| port(graph, node)).collect();
    let is_open =
        |port: &&mut Port| port.ty.shape().is_none() && port.ty.dtype() == Some(DataType::Bool);
    let mut conditions = None;
    for port in ports.iter_mut().filter(is_open) {
        // A condition is one truth value, whether its placeholder says so or not.
        if conditions.get_or_insert_with(|| self::conditions(graph)).contains(port.name.as_str()) {
            port.ty = ValueType::Tensor { dtype: port.ty.dtype(), shape: Some(vec![]) };
        }
    }
    ports
}

/// The nodes that give the conditions of a graph, or the opposite of one.
fn conditions(graph: &GraphDef) -> HashSet<&str> {
    let nodes = Nodes::new(&graph.node);
    let condition = |node: &NodeDef| {
        let mut data = node.input.iter().filter(|text| !text.starts_with('^'));
        match node.op.as_str() {
            "Switch" | "RefSwitch" => data.nth(1),
            "If" | "StatelessIf" => data.next(),
            _ => None,
        }
        .and_then(|text| nodes.read(text))
    };
    let mut open: Vec<&NodeDef> = graph.node.iter().filter_map(condition).collect();
    let mut condition_nodes = HashSet::new();
    while let Some(node) = open.pop() {
        let passes = matches!(node.op.as_str(), "Identity" | "LogicalNot" | "Cast");
        if condition_nodes.insert(node.name.as_str()) && passes {
            open.extend(node.input.first().and_then(|text| nodes.read(text)));
        }
    }
    condition_nodes
}

fn port(graph: &GraphDef, node: &NodeDef) -> Port {
    Port { name: node.name.clone(), place: node.name.clone(), ty: declared(graph, node) }
}

/// The type that a node declares for its result.
fn declared(graph: &GraphDef, node: &NodeDef) -> ValueType {
    let number = match node::attr(node, "dtype").or_else(|| node::attr(node, "T")) {
        Some(Attr::Type(number)) => *number,
        _ => 0,
    };
    let shape = match node::attr(node, "shape") {
        Some(Attr::Shape(shape)) => dims_of(shape),
        _ => None,
    };
    let producer = graph.versions.as_ref().map_or(0, |versions| versions.producer);
    let legacy = node.op == "Placeholder" && (1..SCALARS_SINCE).contains(&producer);
    type_of(number, shape.filter(|dims| !(legacy && dims.is_empty())))
}

/// Tensors that params name.
///
/// # Errors
/// `N0105` for what the graph does not have.
pub(crate) fn named(
    graph: &GraphDef,
    key: &str,
    places: &[String],
) -> Result<Vec<Port>, Diagnostic> {
    let nodes = Nodes::new(&graph.node);
    let functions = library(graph);
    let mut seen = HashSet::new();
    let mut port = |place: &String| {
        let bad = |why: &str| {
            let message = format!("`{key}` names `{}`, which {why}.", shown(place));
            Err(Diagnostic::new(Code::ParamsBadValue, message))
        };
        let found = match node::reference(place) {
            Some(node::Reference::Slot(name, slot)) => nodes.node(name).map(|node| (node, slot)),
            _ => None,
        };
        let Some((node, slot)) = found else { return bad("the graph does not have") };
        if slot >= node::output_count(node, functions.get(node.op.as_str()).copied()) {
            return bad("its node does not give");
        }
        if key == "source.inputs" && !seen.insert((node.name.as_str(), slot)) {
            return bad("is there twice");
        }
        let ty = match key {
            "source.inputs" => declared(graph, node),
            _ => type_of(0, None),
        };
        let name = place.strip_suffix(":0").unwrap_or(place);
        Ok(Port { name: name.to_owned(), place: place.clone(), ty })
    };
    places.iter().map(&mut port).collect()
}

/// What the nodes give that nothing reads, and the names of such nodes that are no outputs.
fn outputs(graph: &GraphDef) -> (Vec<Port>, Vec<&str>) {
    let (nodes, left) = leftovers::split(graph);
    let functions = library(graph);
    let ports = nodes.into_iter().flat_map(|node| {
        let function = functions.get(node.op.as_str()).copied();
        let slots = 0..node::output_count(node, function);
        slots.map(|slot| {
            let place = match slot {
                0 => node.name.clone(),
                _ => format!("{}:{slot}", node.name),
            };
            Port { name: place.clone(), place, ty: type_of(0, None) }
        })
    });
    (ports.collect(), left.into_iter().map(|node| node.name.as_str()).collect())
}

#[cfg(test)]
mod tests;
