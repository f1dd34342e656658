//! Which nodes that nothing reads are outputs of a frozen graph. Freezing leaves nodes behind that are none: handles,
//! results of loops that the network does not need, sizes that were computed for nothing.

use super::node::{self, name_of};
use crate::schema;
use crate::wire::proto::{GraphDef, NodeDef};
use std::collections::{HashMap, HashSet};

/// Nodes that give nothing of a network's results.
const NO_RESULT: [&str; 3] = ["Const", "Placeholder", "PlaceholderV2"];

/// Nodes that tell sizes, not elements.
const SIZES: [&str; 5] = ["Shape", "ShapeN", "Size", "Rank", "VariableShape"];

/// Names that TensorFlow gives to parts of conditions, the last part of the path.
const CONDITIONS: [&str; 3] = ["pred_id", "switch_t", "switch_f"];

/// The nodes whose results are outputs, and those whose results nothing reads and that are none.
pub(crate) fn split(graph: &GraphDef) -> (Vec<&NodeDef>, Vec<&NodeDef>) {
    let nodes = Nodes::new(graph);
    let unread = graph.node.iter().filter(|node| !nodes.read.contains(node.name.as_str()));
    let mut found: Vec<&NodeDef> = unread.filter(|node| gives_tensors(node)).collect();
    let mut left = vec![];
    let rules: [&dyn Fn(&NodeDef) -> bool; 5] = [
        &|node| !is_part_of_control_flow(node, &nodes),
        &|node| !nodes.is_vectorized(node),
        &|node| nodes.depends_on_inputs(node),
        &|node| !nodes.is_constant(node),
        &|node| !nodes.is_part_of_input(node),
    ];
    // A rule that nothing would be left of does not count: the node is what somebody froze the graph for.
    for keeps in rules {
        let (kept, dropped): (Vec<_>, Vec<_>) = found.iter().partition(|node| keeps(node));
        if !kept.is_empty() {
            found = kept;
            left.extend(dropped);
        }
    }
    (found, left)
}

/// Whether a node gives tensors, and neither handles nor nothing.
fn gives_tensors(node: &NodeDef) -> bool {
    if NO_RESULT.contains(&node.op.as_str()) || node::is_write(&node.op) {
        return false;
    }
    let is_handle =
        |name: &str| name.ends_with("handle") || name.starts_with("flow") || name == "resource";
    schema::find(&node.op).is_none_or(|operator| {
        // Lists of tensors go on by their flow or handle.
        !operator.outputs.iter().all(|arg| is_handle(arg.name))
    })
}

/// Results of a loop or condition beside those that are read, and the Identity nodes that TensorFlow puts behind each.
fn is_part_of_control_flow(node: &NodeDef, nodes: &Nodes<'_>) -> bool {
    match node.op.as_str() {
        "Exit" | "RefExit" => true,
        "Identity" => {
            let last = node.name.rsplit('/').next().unwrap_or_default();
            let from = node.input.first().and_then(|text| nodes.node(text));
            let of_call = from.is_some_and(|from| {
                is_functional(&from.op) && node.name.starts_with(&format!("{}/Identity", from.name))
            });
            of_call || CONDITIONS.contains(&last)
        }
        _ => false,
    }
}

fn is_functional(op: &str) -> bool {
    matches!(op, "While" | "StatelessWhile" | "If" | "StatelessIf" | "Case" | "StatelessCase")
}

struct Nodes<'a> {
    by_name: HashMap<&'a str, &'a NodeDef>,
    /// Names of nodes that others read.
    read: HashSet<&'a str>,
    /// Names of nodes of loop bodies that were computed for all iterations at once.
    vectorized: HashSet<&'a str>,
    /// Names of nodes that placeholders lead to, sizes aside.
    dependent: HashSet<&'a str>,
}

impl<'a> Nodes<'a> {
    fn new(graph: &'a GraphDef) -> Nodes<'a> {
        let by_name = graph.node.iter().map(|node| (node.name.as_str(), node)).collect();
        let read = graph.node.iter().flat_map(|node| &node.input);
        let read = read.map(|text| name_of(text)).collect();
        let vectorized =
            graph.node.iter().filter_map(|node| Some(node.name.split_once("/pfor/")?.0)).collect();
        let dependent = dependent(graph);
        Nodes { by_name, read, vectorized, dependent }
    }

    fn node(&self, text: &str) -> Option<&'a NodeDef> {
        self.by_name.get(name_of(text)).copied()
    }

    fn is_vectorized(&self, node: &NodeDef) -> bool {
        self.vectorized.contains(node.name.as_str())
    }

    fn depends_on_inputs(&self, node: &NodeDef) -> bool {
        self.dependent.contains(node.name.as_str())
    }

    /// Whether a node takes a part of an input, under the name that TensorFlow gives by itself. Loops ask it for the
    /// size of an element.
    fn is_part_of_input(&self, node: &NodeDef) -> bool {
        let last = node.name.rsplit('/').next().unwrap_or_default();
        let number = last.strip_prefix("strided_slice").map(|rest| rest.trim_start_matches('_'));
        let from = node.input.first().and_then(|text| self.node(text));
        node.op == "StridedSlice"
            && number.is_some_and(|rest| rest.chars().all(|c| c.is_ascii_digit()))
            && from.is_some_and(node::is_placeholder)
    }

    /// Whether a node passes a constant on.
    fn is_constant(&self, node: &NodeDef) -> bool {
        let from = node.input.first().and_then(|text| self.node(text));
        node.op == "Identity" && from.is_some_and(|from| from.op == "Const")
    }
}

/// Names of the nodes that elements of placeholders lead to.
fn dependent(graph: &GraphDef) -> HashSet<&str> {
    let mut readers: HashMap<&str, Vec<&NodeDef>> = HashMap::new();
    for node in graph.node.iter().filter(|node| !SIZES.contains(&node.op.as_str())) {
        for text in node.input.iter().filter(|text| !text.starts_with('^')) {
            readers.entry(name_of(text)).or_default().push(node);
        }
    }
    let placeholders = graph.node.iter().filter(|node| node::is_placeholder(node));
    let mut open: Vec<&str> = placeholders.map(|node| node.name.as_str()).collect();
    let mut found = HashSet::new();
    while let Some(name) = open.pop() {
        if found.insert(name) {
            open.extend(readers.get(name).into_iter().flatten().map(|node| node.name.as_str()));
        }
    }
    found
}
