//! What lies between the way of blocks into the batch and their way back.

use super::blocks::{Blocks, cut, ints};
use onnxd_plugin_sdk::build::{GraphBuilder, Result as Built, Var};
use onnxd_plugin_sdk::ir::{Facts, Graph, Node, NodeId, ValueId, axis_at};
use onnxd_plugin_sdk::rewrite::Rewriter;

/// Nodes between the two changes of layout: the convolution, and those that move its axes.
const NODES_MAX: usize = 16;

/// Operators of one element at a time, whose further operands are numbers.
const UNARY: [&str; 13] = [
    "Cast", "Clip", "DequantizeLinear", "Elu", "Gelu", "HardSigmoid", "HardSwish", "LeakyRelu",
    "QuantizeLinear", "Relu", "Selu", "Sigmoid", "Tanh",
];

/// Operators whose operands broadcast.
const BROADCASTING: [&str; 7] = ["Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub"];

/// What a node becomes without blocks.
pub(crate) enum DilatedStep {
    /// A node, and which of its inputs is computed.
    ElementWise(Node, usize),
    Transpose(Vec<i64>),
    Unsqueeze(Vec<i64>),
    Squeeze(Vec<i64>),
    Conv(Convolution),
}

/// A convolution of blocks as one with dilations.
pub(crate) struct Convolution {
    w: ValueId,
    bias: Option<ValueId>,
    group: Option<i64>,
    dilations: Vec<i64>,
    /// Where the axes of blocks are in its input.
    axes: Vec<usize>,
}

impl DilatedStep {
    /// Whether it moves elements, and computes nothing.
    pub(crate) fn moves(&self) -> bool {
        !matches!(self, DilatedStep::Conv(_) | DilatedStep::ElementWise(..))
    }

    /// The step without blocks, of `y`; a convolution has the `pads` for all axes of what was cut.
    pub(crate) fn built(&self, b: &GraphBuilder, y: Var, pads: &[i64]) -> Built<Var> {
        match self {
            DilatedStep::ElementWise(node, at) => {
                let mut inputs: Vec<Option<Var>> =
                    node.inputs.iter().map(|id| id.map(|id| b.var(id))).collect();
                inputs[*at] = Some(y);
                b.again(node, inputs).one()
            }
            DilatedStep::Transpose(perm) => b.transpose(y).perm(perm.clone()).one(),
            DilatedStep::Unsqueeze(axes) => b.unsqueeze(y, axes.clone()),
            DilatedStep::Squeeze(axes) => b.squeeze(y).axes(axes.clone()).one(),
            DilatedStep::Conv(conv) => {
                let call = b.conv(y, b.var(conv.w)).b(conv.bias.map(|bias| b.var(bias)));
                let call = call.group(conv.group).pads(conv.pads(pads));
                call.dilations(conv.dilations.clone()).one()
            }
        }
    }

    /// Where axes are behind it.
    fn moved(&self, axes: &[usize]) -> Option<Vec<usize>> {
        let at = |axis: usize| match self {
            DilatedStep::Transpose(perm) => perm.iter().position(|from| *from == axis as i64),
            DilatedStep::Unsqueeze(new) => {
                (0..).filter(|place| !new.contains(&(*place as i64))).nth(axis)
            }
            DilatedStep::Squeeze(gone) => {
                let before = gone.iter().filter(|n| **n < axis as i64).count();
                (!gone.contains(&(axis as i64))).then(|| axis - before)
            }
            DilatedStep::Conv(_) | DilatedStep::ElementWise(..) => Some(axis),
        };
        axes.iter().map(|axis| at(*axis)).collect()
    }
}

impl Convolution {
    /// Pads of its spatial axes, of those for all axes of what was cut, unless there are none.
    fn pads(&self, all: &[i64]) -> Option<Vec<i64>> {
        let (rank, spatial) = (all.len() / 2, self.dilations.len());
        let mut pads = vec![0; 2 * spatial];
        for (block, axis) in self.axes.iter().enumerate() {
            for side in 0..2 {
                pads[side * spatial + axis - 2] = all[side * rank + block + 1];
            }
        }
        pads.iter().any(|n| *n != 0).then_some(pads)
    }
}

/// What was cut into `blocks`, and the steps from there to `x`, of which one is a convolution.
pub(crate) fn phases(
    cx: &Rewriter,
    facts: &Facts,
    x: ValueId,
    blocks: &[i64],
) -> Option<(Blocks, Vec<DilatedStep>)> {
    let (mut v, mut nodes) = (x, Vec::new());
    let found = loop {
        if let Some(found) = cut(cx.graph, facts, v) {
            break found;
        }
        let id = cx.graph.producer(v).filter(|id| cx.graph[*id].is_standard())?;
        let node = &cx.graph[id];
        let at = computed(cx, node)?;
        // What lies between would be computed twice.
        let alone = nodes.len() < NODES_MAX && sole_reader(cx.graph, v).is_some();
        v = node.input(at).filter(|_| alone)?;
        nodes.push((node.clone(), at));
    };
    // Cells are samples, so the first axis is followed, too.
    let home: Vec<usize> = (0..=blocks.len()).collect();
    let (mut axes, mut steps) = (home.clone(), Vec::new());
    for (node, at) in nodes.into_iter().rev() {
        let step = step(cx, facts, node, at, &axes, blocks)?;
        axes = step.moved(&axes)?;
        steps.push(step);
    }
    let convolutions = steps.iter().filter(|step| matches!(step, DilatedStep::Conv(_))).count();
    (convolutions == 1 && axes == home && found.sizes == blocks).then_some((found, steps))
}

/// The only node that reads more of `v` than its sizes.
pub(crate) fn sole_reader(graph: &Graph, v: ValueId) -> Option<NodeId> {
    let mut readers = graph.readers(v).iter().filter(|id| !graph[**id].is("Shape"));
    let reader = readers.next().filter(|_| !graph.is_output(v))?;
    readers.next().is_none().then_some(*reader)
}

/// The place of the input that leads back to the blocks: the first, but for a constant that comes first.
fn computed(cx: &Rewriter, node: &Node) -> Option<usize> {
    let is_constant = |at: usize| node.input(at).is_some_and(|id| cx.graph.constant(id).is_some());
    (0..node.inputs.len()).find(|at| !is_constant(*at))
}

/// What a node becomes without blocks. Of its computed input, `axes` are that of samples and those of blocks.
fn step(
    cx: &Rewriter,
    facts: &Facts,
    node: Node,
    computed: usize,
    axes: &[usize],
    blocks: &[i64],
) -> Option<DilatedStep> {
    match node.op.as_str() {
        op if UNARY.contains(&op) || BROADCASTING.contains(&op) => {
            is_free(cx, facts, &node, computed, axes)
                .then_some(DilatedStep::ElementWise(node, computed))
        }
        "Transpose" => Some(DilatedStep::Transpose(ints(&node, "perm")?)),
        "Unsqueeze" => Some(DilatedStep::Unsqueeze(listed(cx, facts, &node)?)),
        "Squeeze" => Some(DilatedStep::Squeeze(listed(cx, facts, &node)?)),
        "Conv" => {
            let all =
                |name, wanted| ints(&node, name).is_none_or(|all| all.iter().all(|n| *n == wanted));
            let is_plain = all("pads", 0) && all("strides", 1) && all("dilations", 1);
            let w = node.input(1).filter(|_| is_plain && node.attr("auto_pad").is_none())?;
            let mut dilations = vec![1; facts.shape(w)?.len().checked_sub(2)?];
            let [0, axes @ ..] = axes else { return None };
            for (axis, block) in axes.iter().zip(blocks) {
                *dilations.get_mut(axis.checked_sub(2)?)? = *block;
            }
            let group = node.attr("group").map(|_| node.int("group", 1));
            let axes = axes.to_vec();
            Some(DilatedStep::Conv(Convolution { w, bias: node.input(2), group, dilations, axes }))
        }
        _ => None,
    }
}

/// Whether an operator of one element at a time does the same to all cells of a block, and in all blocks and samples,
/// which lie on `axes`: what else it reads are constants without those axes.
fn is_free(cx: &Rewriter, facts: &Facts, node: &Node, computed: usize, axes: &[usize]) -> bool {
    let rank = node.input(computed).and_then(|v| Some(facts.shape(v)?.len()));
    let Some(rank) = rank else { return false };
    let broadcasts = BROADCASTING.contains(&node.op.as_str());
    let is_even = |v: ValueId| {
        let Some(constant) = cx.graph.constant(v) else { return false };
        let Some(missing) = rank.checked_sub(constant.rank()) else { return false };
        let size = |axis: usize| axis.checked_sub(missing).map_or(1, |at| constant.dims()[at]);
        constant.len() == 1 || broadcasts && axes.iter().all(|axis| size(*axis) == 1)
    };
    let others = node.inputs.iter().enumerate().filter(|(at, _)| *at != computed);
    others.filter_map(|(_, v)| *v).all(is_even)
}

/// The axes that `Squeeze` or `Unsqueeze` names, of the tensor that has them, counted from the front.
fn listed(cx: &Rewriter, facts: &Facts, node: &Node) -> Option<Vec<i64>> {
    let axes = match ints(node, "axes") {
        Some(axes) => axes,
        None => cx.integers(node.input(1)?).ok()?,
    };
    let given = facts.shape(node.input(0)?)?.len();
    let rank = if node.is("Unsqueeze") { given + axes.len() } else { given };
    axes.iter().map(|axis| Some(axis_at(*axis, rank)? as i64)).collect()
}
