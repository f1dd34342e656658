//! Operators that are no weighted operators but have a form on integers: they follow where their inputs are
//! integers and their output is wanted as such.

use crate::graph::weighted::FLOATS;
use crate::plan::opt_in;
use onnxd_ir::ops::{Clip, Pad, Relu, Resize};
use onnxd_ir::{At, Graph, Node, NodeId, Tensor, ValueId};

/// How an operator treats integers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Propagation {
    /// Elements of the first input go elsewhere or away: all outputs have its scale.
    Layout,
    /// Computes from all inputs a value with a scale of its own.
    Compute,
    /// Keeps values within bounds; saturation does the same.
    Clamp,
    /// Computes on integers because params name it, whatever computes its inputs.
    OptIn,
}

pub(crate) const LAYOUT: &[&str] = &[
    "DepthToSpace", "Expand", "Flatten", "Gather", "GatherElements", "GatherND", "Identity",
    "Reshape", "Slice", "SpaceToDepth", "Split", "Squeeze", "Tile", "TopK", "Transpose",
    "Unsqueeze",
];

const COMPUTE: &[&str] = &[
    "Add", "AveragePool", "Concat", "GlobalAveragePool", "LeakyRelu", "Mul", "ReduceMean",
    "Sigmoid",
];

/// Of these some follow.
const SOMETIMES: &[&str] = &["Clip", "MaxPool", "Pad", "Relu", "Resize"];

impl Propagation {
    /// Whether nodes with this operator of the standard can follow.
    pub(crate) fn knows(op: &str) -> bool {
        [LAYOUT, COMPUTE, SOMETIMES].concat().contains(&op)
    }

    /// What the node is.
    pub fn of_node(graph: &Graph, id: NodeId) -> Option<Propagation> {
        let node = &graph[id];
        if !node.is_standard() {
            return None;
        }
        let moves = match node.op.as_str() {
            "Pad" => keeps_zero(graph, id),
            "Resize" => At::<Resize>::find(graph, id).is_some_and(|r| r.mode == "nearest"),
            // Its indices would be read as well.
            "MaxPool" => node.output(1).is_none(),
            op => LAYOUT.contains(&op),
        };
        if moves {
            return Some(Propagation::Layout);
        }
        if COMPUTE.contains(&node.op.as_str()) {
            return Some(Propagation::Compute);
        }
        let clamps = node.is("Relu") || zero_based(graph, id);
        clamps.then_some(Propagation::Clamp)
    }

    /// The outputs that are quantized.
    pub(crate) fn results(self, node: &Node) -> impl Iterator<Item = ValueId> + '_ {
        let most = match self {
            Propagation::OptIn => usize::from(!opt_in::is_place(node)),
            // The others hold places.
            _ if node.is("TopK") => 1,
            _ => usize::MAX,
        };
        node.outputs.iter().take(most).flatten().copied()
    }

    /// The inputs that are to be integers.
    pub fn data(self, graph: &Graph, node: &Node) -> Vec<(usize, ValueId)> {
        if self == Propagation::OptIn {
            return opt_in::data(graph, node);
        }
        let most = if self == Propagation::Compute { usize::MAX } else { 1 };
        // The axes of a reduction are no data.
        let most = if node.is("ReduceMean") { 1 } else { most };
        let slots = node.inputs.iter().enumerate().take(most);
        slots.filter_map(|(slot, value)| Some((slot, (*value)?))).collect()
    }
}

/// Padding that brings in no value but zero, which every scale has.
fn keeps_zero(graph: &Graph, id: NodeId) -> bool {
    let Some(pad) = At::<Pad>::find(graph, id) else { return false };
    let zero = |v| graph.constant(v).and_then(Tensor::to_reals).is_some_and(|r| r.values == [0.0]);
    pad.mode != "constant" || pad.constant_value.is_none_or(zero)
}

/// A `Clip` from zero to a constant above it.
fn zero_based(graph: &Graph, id: NodeId) -> bool {
    let Some(clip) = At::<Clip>::find(graph, id) else { return false };
    let bound = |v: Option<ValueId>| {
        let tensor = v.and_then(|v| graph.constant(v))?;
        let reals = tensor.to_reals().filter(|_| FLOATS.contains(&tensor.dtype()))?;
        reals.values.first().copied()
    };
    bound(clip.min) == Some(0.0) && (clip.max.is_none() || bound(clip.max) > Some(0.0))
}

/// The input of a `Relu` or `Clip`.
pub(crate) fn clamped(graph: &Graph, id: NodeId) -> Option<ValueId> {
    let relu = At::<Relu>::find(graph, id).map(|r| r.x);
    relu.or_else(|| At::<Clip>::find(graph, id).map(|c| c.input))
}
