//! Operators that put the same values elsewhere, so that integers pass through them as they are.

use crate::network::scalar;
use onnxd_plugin_sdk::ir::{Attr, Dim, Graph, Node, ValueId};

/// Operators whose first input alone holds values that reach the result.
const MOVES: &[&str] = &[
    "DepthToSpace",
    "Dropout",
    "Expand",
    "Flatten",
    "Gather",
    "Identity",
    "Pad",
    "Reshape",
    "Resize",
    "Slice",
    "SpaceToDepth",
    "Squeeze",
    "Tile",
    "Transpose",
    "Unsqueeze",
];

/// Whether the node only moves the values of its first input.
pub(crate) fn is_move(graph: &Graph, node: &Node) -> bool {
    if !MOVES.contains(&node.op.as_str()) {
        return false;
    }
    let mut rest = node.inputs.iter().skip(1).flatten();
    if !rest.all(|v| graph.constant(*v).is_some()) {
        return false;
    }
    let text = |name: &str, default: &'static str| match node.attr(name) {
        Some(Attr::Str(s)) => s.to_vec(),
        _ => default.into(),
    };
    let constant = |slot: usize| node.input(slot).and_then(|v| graph.constant(v));
    match node.op.as_str() {
        "Pad" => {
            text("mode", "constant") != b"constant"
                || constant(2).is_none_or(|t| scalar(t) == Some(0.0))
        }
        "Resize" => text("mode", "nearest") == b"nearest",
        "Dropout" => constant(2).is_none_or(|t| t.bytes().iter().all(|b| *b == 0)),
        _ => true,
    }
}

/// How many consecutive elements of the result each channel of a feature map became, if the node
/// keeps the channels in order and together.
pub(crate) fn block(graph: &Graph, node: &Node) -> Option<usize> {
    let shape = |v: Option<ValueId>| {
        let sizes = graph[v?].ty.as_ref()?.shape()?;
        let known = |d: &Dim| d.known().and_then(|d| usize::try_from(d).ok());
        sizes.iter().skip(1).map(known).collect::<Option<Vec<_>>>()
    };
    let (from, to) = (shape(node.input(0))?, shape(node.output(0))?);
    let keeps = match node.op.as_str() {
        "Identity" | "Dropout" => true,
        "Flatten" => node.int("axis", 1) == 1,
        "Reshape" | "Squeeze" => true,
        _ => false,
    };
    let (channels, kept) = (*from.first()?, *to.first()?);
    let sizes = (from.iter().product::<usize>(), to.iter().product::<usize>());
    if !keeps || channels == 0 || sizes.0 != sizes.1 || kept % channels != 0 {
        return None;
    }
    let block = kept / channels;
    (block == 1 || to.len() == 1).then_some(block)
}
