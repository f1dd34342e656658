//! Convolutions with dilations, which TensorFlow writes as convolutions of blocks.
//!
//! `BatchToSpaceND(Conv(SpaceToBatchND(x)))` computes each phase of a dilated convolution as samples of its own. One
//! `Conv` with `dilations` reads the same cells. Cells that are cropped off the result are not padded to begin with:
//! an output at `t` reads the inputs from `t` on. Operators between that compute each element from one element, such
//! as activations, biases and quantization, do not depend on the order of cells.

use super::{Lower, offsets};
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{Attr, Graph, Node, ValueId, axis_at};
use onnxd_plugin_sdk::lower::Lowered;

/// What `SpaceToBatchND` cut into blocks.
#[derive(Clone, Debug)]
pub(crate) struct Cut {
    /// The tensor, before it is padded.
    pub(super) x: Var,
    /// Sizes of blocks along the axes behind the first.
    pub(super) blocks: Vec<i64>,
    /// Numbers of cells before and behind each of these axes.
    pub(super) paddings: Var,
}

/// Nodes between the two changes of layout: the convolution, and those that move its axes.
const NODES_MAX: usize = 16;

/// Operators of one element at a time, whose further operands are numbers.
const UNARY: [&str; 13] = [
    "Cast",
    "Clip",
    "DequantizeLinear",
    "Elu",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "LeakyRelu",
    "QuantizeLinear",
    "Relu",
    "Selu",
    "Sigmoid",
    "Tanh",
];

/// Operators whose operands broadcast.
const BROADCASTING: [&str; 7] = ["Add", "Div", "Max", "Min", "Mul", "PRelu", "Sub"];

/// What lies between the blocks' way in and their way out.
enum Step {
    /// A node, and which of its inputs is computed.
    ElementWise(Node, usize),
    Transpose(Vec<i64>),
    Unsqueeze(Vec<i64>),
    Squeeze(Vec<i64>),
    Conv(Convolution),
}

/// A convolution of blocks as one with dilations.
struct Convolution {
    w: Var,
    bias: Option<Var>,
    group: Option<i64>,
    dilations: Vec<i64>,
    /// Where the axes of blocks are in its input.
    axes: Vec<usize>,
}

/// The result of `BatchToSpaceND(x, blocks, crops)`, if `x` is a convolution of what `SpaceToBatchND` gave by the same
/// blocks, and the pads that crops leave are known.
///
/// # Errors
/// What the builder says of the nodes it adds.
pub(super) fn dilated(b: &Lower, x: Var, blocks: &[i64], crops: Var) -> Lowered<Option<Var>> {
    let found = phases(b, x, blocks)
        .and_then(|(cut, steps)| Some((cut.x, pads(b, x, &cut, crops)?, steps)));
    let Some((mut y, pads, mut steps)) = found else { return Ok(None) };
    drop_pair(b, y, &mut steps);
    let moves = |step: &Step| !matches!(step, Step::Conv(_) | Step::ElementWise(..));
    // Only zeros around a convolution are its own.
    let only_moves = steps.iter().find(|step| !moves(step));
    let inside = matches!(only_moves, Some(Step::Conv(_))) && pads.iter().all(|n| *n >= 0);
    if !inside && pads.iter().any(|n| *n != 0) {
        y = b.pad(y, &pads).one()?;
    }
    for step in steps {
        y = match step {
            Step::ElementWise(node, at) => {
                let mut inputs: Vec<Option<Var>> =
                    node.inputs.iter().map(|id| id.map(|id| b.var(id))).collect();
                inputs[at] = Some(y);
                b.again(&node, inputs).one()?
            }
            Step::Transpose(perm) => b.transpose(y).perm(perm).one()?,
            Step::Unsqueeze(axes) => b.unsqueeze(y, axes)?,
            Step::Squeeze(axes) => b.squeeze(y).axes(axes).one()?,
            Step::Conv(conv) => {
                let around = if inside { conv.pads(&pads) } else { None };
                let call = b.conv(y, conv.w).b(conv.bias).group(conv.group).pads(around);
                call.dilations(conv.dilations).one()?
            }
        };
    }
    Ok(Some(y))
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

/// Leaves out a QuantizeLinear and a DequantizeLinear at the beginning that undo each other, because `x` consists of
/// numbers that the same DequantizeLinear gives.
fn drop_pair(b: &GraphBuilder, x: Var, steps: &mut Vec<Step>) {
    let given = b.id(x).ok().and_then(|id| before(&b.graph(), id));
    let (Some(given), [Step::ElementWise(to, _), Step::ElementWise(from, _), ..]) =
        (given, steps.as_slice())
    else {
        return;
    };
    let kinds = [&given, to, from].map(|node| node.op.as_str());
    let is_same = |node: &Node| node.inputs.get(1..) == given.inputs.get(1..);
    if kinds == ["DequantizeLinear", "QuantizeLinear", "DequantizeLinear"]
        && given.inputs.len() == 3
        && is_same(to)
        && is_same(from)
    {
        steps.drain(..2);
    }
}

/// What was cut into blocks, and the steps from there to `x`.
fn phases(b: &Lower, x: Var, blocks: &[i64]) -> Option<(Cut, Vec<Step>)> {
    let (mut v, mut nodes) = (Some(x).filter(|x| b.is_own(*x))?, Vec::new());
    let cut = loop {
        if let Some(cut) = b.source.blocks.borrow().get(&v) {
            break cut.clone();
        }
        let id = b.id(v).ok()?;
        let node = before(&b.graph(), id)?;
        let at = computed(b, &node)?;
        v = b.var(node.input(at).filter(|_| nodes.len() < NODES_MAX)?);
        nodes.push((node, at));
    };
    let home: Vec<usize> = (1..=blocks.len()).collect();
    let (mut axes, mut steps) = (home.clone(), Vec::new());
    for (node, at) in nodes.into_iter().rev() {
        let step = step(b, node, at, &axes, blocks)?;
        axes = moved(&step, &axes)?;
        steps.push(step);
    }
    let convolutions = steps.iter().filter(|step| matches!(step, Step::Conv(_))).count();
    (convolutions == 1 && axes == home && cut.blocks == blocks).then_some((cut, steps))
}

/// The place of the input that leads back to the blocks: the first, but for a constant that comes first.
fn computed(b: &GraphBuilder, node: &Node) -> Option<usize> {
    let is_constant = |at: usize| node.input(at).is_some_and(|id| b.graph().constant(id).is_some());
    (0..node.inputs.len()).find(|at| !is_constant(*at))
}

/// What a node becomes without blocks, which lie on `axes` of its computed input.
fn step(
    b: &GraphBuilder,
    node: Node,
    computed: usize,
    axes: &[usize],
    blocks: &[i64],
) -> Option<Step> {
    match node.op.as_str() {
        op if UNARY.contains(&op) || BROADCASTING.contains(&op) => {
            is_free(b, &node, computed, axes).then_some(Step::ElementWise(node, computed))
        }
        "Transpose" => Some(Step::Transpose(ints(&node, "perm")?)),
        "Unsqueeze" => Some(Step::Unsqueeze(listed(b, &node)?)),
        "Squeeze" => Some(Step::Squeeze(listed(b, &node)?)),
        "Conv" => {
            let all =
                |name, wanted| ints(&node, name).is_none_or(|all| all.iter().all(|n| *n == wanted));
            let is_plain = all("pads", 0) && all("strides", 1) && all("dilations", 1);
            let w = b.var(node.input(1).filter(|_| is_plain && node.attr("auto_pad").is_none())?);
            let mut dilations = vec![1; b.rank_of(w)?.checked_sub(2)?];
            for (axis, block) in axes.iter().zip(blocks) {
                *dilations.get_mut(axis.checked_sub(2)?)? = *block;
            }
            let group = node.attr("group").map(|_| node.int("group", 1));
            let bias = node.input(2).map(|id| b.var(id));
            Some(Step::Conv(Convolution { w, bias, group, dilations, axes: axes.to_vec() }))
        }
        _ => None,
    }
}

/// Whether an operator of one element at a time does the same to all cells of a block, which lie on `axes`: what else
/// it reads are constants without those axes.
fn is_free(b: &GraphBuilder, node: &Node, computed: usize, axes: &[usize]) -> bool {
    let Some(rank) = node.input(computed).and_then(|id| b.rank_of(b.var(id))) else { return false };
    let broadcasts = BROADCASTING.contains(&node.op.as_str());
    let is_even = |id: ValueId| {
        let graph = b.graph();
        let Some(constant) = graph.constant(id) else { return false };
        let Some(missing) = rank.checked_sub(constant.rank()) else { return false };
        let size = |axis: usize| axis.checked_sub(missing).map_or(1, |at| constant.dims()[at]);
        constant.len() == 1 || broadcasts && axes.iter().all(|axis| size(*axis) == 1)
    };
    let others = node.inputs.iter().enumerate().filter(|(at, _)| *at != computed);
    others.filter_map(|(_, id)| *id).all(is_even)
}

/// Where axes are behind a step.
fn moved(step: &Step, axes: &[usize]) -> Option<Vec<usize>> {
    let at = |axis: usize| match step {
        Step::Transpose(perm) => perm.iter().position(|from| *from == axis as i64),
        Step::Unsqueeze(new) => (0..).filter(|place| !new.contains(&(*place as i64))).nth(axis),
        Step::Squeeze(gone) => {
            let before = gone.iter().filter(|n| **n < axis as i64).count();
            (!gone.contains(&(axis as i64))).then(|| axis - before)
        }
        Step::Conv(_) | Step::ElementWise(..) => Some(axis),
    };
    axes.iter().map(|axis| at(*axis)).collect()
}

/// Pads for all axes of what was cut that are left after crops of the result `x`, if they are the same for all inputs.
fn pads(b: &GraphBuilder, x: Var, cut: &Cut, crops: Var) -> Option<Vec<i64>> {
    let rank = b.rank_of(cut.x)?;
    let left = offsets::differences(b, cut.paddings, crops)?;
    let fits = left.len() == 2 * cut.blocks.len() && leaves_cells(b, x, &cut.blocks, crops);
    let mut pads = vec![0; 2 * rank];
    for (axis, pair) in left.chunks_exact(2).enumerate().filter(|_| fits) {
        *pads.get_mut(axis + 1)? = pair[0];
        *pads.get_mut(rank + axis + 1)? = pair[1];
    }
    fits.then_some(pads)
}

/// Whether crops that are known, a pair for each block, leave something of each axis of `x` that is known.
fn leaves_cells(b: &GraphBuilder, x: Var, blocks: &[i64], crops: Var) -> bool {
    let Some(crops) = super::pad::pairs(b, crops) else { return true };
    let left = |(at, [before, behind]): (usize, [i64; 2])| -> Option<i64> {
        let Some(size) = b.shape_of(x)?.get(at + 1)?.known() else { return Some(1) };
        size.checked_mul(*blocks.get(at)?)?.checked_sub(before)?.checked_sub(behind)
    };
    let negative = crops.iter().flatten().any(|n| *n < 0);
    !negative && crops.into_iter().enumerate().all(|pair| left(pair).is_some_and(|n| n > 0))
}

/// The axes that `Squeeze` or `Unsqueeze` names, of the tensor that has them, counted from the front.
fn listed(b: &GraphBuilder, node: &Node) -> Option<Vec<i64>> {
    let axes = match ints(node, "axes") {
        Some(axes) => axes,
        None => b.ints_of(b.var(node.input(1)?))?,
    };
    let given = b.rank_of(b.var(node.input(0)?))?;
    let rank = if node.is("Unsqueeze") { given + axes.len() } else { given };
    axes.iter().map(|axis| Some(axis_at(*axis, rank)? as i64)).collect()
}

fn before(graph: &Graph, value: ValueId) -> Option<Node> {
    let node = &graph[graph.producer(value)?];
    node.is_standard().then(|| node.clone())
}

fn ints(node: &Node, name: &str) -> Option<Vec<i64>> {
    match node.attr(name)? {
        Attr::Ints(all) => Some(all.to_vec()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{FLOAT, floats, graph, import, node, placeholder, shape};
    use crate::wire::proto::{Attr, ListValue, NodeDef, TensorProto};
    use onnxd_plugin_sdk::ir::Graph;

    const INT64: i32 = 9;

    fn constant(name: &str, value: TensorProto) -> NodeDef {
        let dtype = Attr::Type(value.dtype);
        node(name, "Const", &[]).attr("dtype", dtype).attr("value", Attr::Tensor(value))
    }

    fn integers(name: &str, sizes: &[i64], values: &[i64]) -> NodeDef {
        let (tensor_shape, int64_val) = (Some(shape(sizes)), values.to_vec());
        constant(
            name,
            TensorProto { dtype: INT64, tensor_shape, int64_val, ..TensorProto::default() },
        )
    }

    /// Nine columns and seven rows, padded and cut into blocks of 2 by 3, filtered, and put together by `blocks` and
    /// `crops`.
    fn network(padding: &str, blocks: [i64; 2], crops: [i64; 4]) -> Option<Graph> {
        network_with(padding, blocks, crops, |filtered| vec![node("a", "Identity", &[filtered])])
    }

    /// The same with the nodes `between`, which read the filter's result and end in `a`.
    fn network_with(
        padding: &str,
        blocks: [i64; 2],
        crops: [i64; 4],
        between: impl Fn(&str) -> Vec<NodeDef>,
    ) -> Option<Graph> {
        let weights = TensorProto {
            dtype: FLOAT,
            tensor_shape: Some(shape(&[2, 3, 1, 1])),
            float_val: vec![1.0; 6],
            ..TensorProto::default()
        };
        let strides = Attr::List(ListValue { i: vec![1; 4], ..ListValue::default() });
        let filtered = node("c", "Conv2D", &["s", "w"]).attr("strides", strides);
        let mut nodes = vec![
            placeholder("x", &[-1, 7, 9, 1]),
            integers("cut", &[2], &[2, 3]),
            integers("pads", &[2, 2], &[2, 3, 3, 3]),
            node("s", "SpaceToBatchND", &["x", "cut", "pads"]),
            constant("w", weights),
            filtered.attr("padding", Attr::S(padding.as_bytes().to_vec().into())),
            integers("blocks", &[2], &blocks),
            integers("crops", &[2, 2], &crops),
        ];
        nodes.extend(between("c"));
        nodes.push(node("y", "BatchToSpaceND", &["a", "blocks", "crops"]));
        import(&graph(nodes, vec![])).ok().map(|imported| imported.model.graph)
    }

    /// The dilations of the convolution that the only output depends on, and how many axes are padded, if nothing is
    /// cut into blocks.
    fn fused(graph: &Graph) -> Option<(Vec<i64>, usize)> {
        let (mut value, mut dilations, mut pads) = (*graph.outputs().first()?, None, 0);
        while let Some(id) = graph.producer(value) {
            let node = &graph[id];
            match node.op.as_str() {
                "Reshape" => return None,
                "Conv" => {
                    dilations = super::ints(node, "dilations");
                    let around = super::ints(node, "pads").unwrap_or_default();
                    pads += around.iter().filter(|n| **n != 0).count();
                }
                "Pad" => return None,
                _ => {}
            }
            value = node.input(0)?;
        }
        dilations.map(|all| (all, pads))
    }

    #[test]
    fn blocks_become_dilations() {
        let found = |crops| fused(&network("VALID", [2, 3], crops).unwrap());
        assert_eq!(found([0, 1, 1, 2]), Some((vec![2, 3], 4)));
        // What was padded is cropped again.
        assert_eq!(found([2, 3, 3, 3]), Some((vec![2, 3], 0)));
    }

    #[test]
    fn what_computes_each_element_lies_between() {
        let found = |between: fn(&str) -> Vec<NodeDef>| {
            fused(&network_with("VALID", [2, 3], [0; 4], between).unwrap())
        };
        let activation = |filtered: &str| {
            let bias = floats("bias", &[0.5]);
            vec![bias, node("b", "BiasAdd", &[filtered, "bias"]), node("a", "Relu6", &["b"])]
        };
        assert_eq!(found(activation), Some((vec![2, 3], 4)));
        // One number for each column of blocks would be another one for each cell.
        let columns = |filtered: &str| {
            let mut ramp = floats("ramp", &[1.0, 2.0, 3.0]);
            if let Some(Attr::Tensor(value)) = ramp.attr.get_mut("value").unwrap().value.as_mut() {
                value.tensor_shape = Some(shape(&[3, 1]));
            }
            vec![ramp, node("a", "Mul", &["ramp", filtered])]
        };
        assert_eq!(found(columns), None);
        let sums = |filtered: &str| vec![node("a", "AddV2", &[filtered, filtered])];
        assert_eq!(found(sums), None);
    }

    #[test]
    fn other_convolutions_of_blocks_stay() {
        assert_eq!(fused(&network("VALID", [3, 2], [0; 4]).unwrap()), None);
        assert_eq!(fused(&network("SAME", [2, 3], [0; 4]).unwrap()), None);
        // Crops that leave nothing, and those that no size holds.
        let rows = network("VALID", [2, 3], [10, 0, 0, 0]);
        assert_eq!(rows.as_ref().and_then(fused), None);
        let far = network("VALID", [2, 3], [i64::MAX, i64::MAX, 0, 0]);
        assert_eq!(far.as_ref().and_then(fused), None);
    }

    /// Pads and crops that are computed differ by the convolution's own pads. `more` is added to what is cropped.
    fn computed_network(more: i64) -> Graph {
        const INT32: i32 = 3;
        let integer = |name: &str, value: i64| {
            let (dtype, tensor_shape) = (INT32, Some(shape(&[])));
            let int_val = vec![value as i32];
            constant(name, TensorProto { dtype, tensor_shape, int_val, ..TensorProto::default() })
        };
        let pack = |name: &str, of: &[&str]| {
            let count = Attr::I(of.len() as i64);
            node(name, "Pack", of).attr("N", count).attr("T", Attr::Type(INT32))
        };
        let strides = Attr::List(ListValue { i: vec![1; 4], ..ListValue::default() });
        let weights = TensorProto {
            dtype: FLOAT,
            tensor_shape: Some(shape(&[2, 3, 1, 1])),
            float_val: vec![1.0; 6],
            ..TensorProto::default()
        };
        let nodes = vec![
            placeholder("x", &[-1, -1, -1, 1]),
            placeholder("e", &[]).attr("dtype", Attr::Type(INT32)),
            integer("none", 0),
            integer("two", 2),
            integer("three", 3),
            integer("more", more),
            node("end", "AddV2", &["three", "e"]),
            node("cropped", "AddV2", &["e", "more"]),
            pack("rows", &["two", "end"]),
            pack("columns", &["three", "three"]),
            pack("pads", &["rows", "columns"]),
            pack("few", &["none", "cropped"]),
            pack("no", &["none", "none"]),
            pack("crops", &["few", "no"]),
            integers("blocks", &[2], &[2, 3]),
            node("s", "SpaceToBatchND", &["x", "blocks", "pads"]),
            constant("w", weights),
            node("c", "Conv2D", &["s", "w"])
                .attr("strides", strides)
                .attr("padding", Attr::S(b"VALID".to_vec().into())),
            node("y", "BatchToSpaceND", &["c", "blocks", "crops"]),
        ];
        import(&graph(nodes, vec![])).unwrap().model.graph
    }

    /// Each node reads the one before twice: to follow all ways would take for ever.
    #[test]
    fn pads_that_are_computed_in_many_ways() {
        let strides = Attr::List(ListValue { i: vec![1; 4], ..ListValue::default() });
        let weights = TensorProto {
            dtype: FLOAT,
            tensor_shape: Some(shape(&[2, 3, 1, 1])),
            float_val: vec![1.0; 6],
            ..TensorProto::default()
        };
        let mut nodes = vec![
            placeholder("x", &[-1, -1, -1, 1]),
            placeholder("n0", &[2, 2]).attr("dtype", Attr::Type(3)),
            integers("blocks", &[2], &[2, 3]),
            constant("w", weights),
        ];
        for i in 0..64 {
            let before = format!("n{i}");
            nodes.push(node(&format!("n{}", i + 1), "AddV2", &[&before, &before]));
        }
        nodes.push(node("s", "SpaceToBatchND", &["x", "blocks", "n64"]));
        let filtered = node("c", "Conv2D", &["s", "w"]).attr("strides", strides);
        nodes.push(filtered.attr("padding", Attr::S(b"VALID".to_vec().into())));
        nodes.push(node("y", "BatchToSpaceND", &["c", "blocks", "n64"]));
        // All that is padded is cropped again.
        let graph = import(&graph(nodes, vec![])).unwrap().model.graph;
        assert_eq!(fused(&graph), Some((vec![2, 3], 0)));
    }

    #[test]
    fn pads_may_depend_on_sizes() {
        assert_eq!(fused(&computed_network(0)), Some((vec![2, 3], 4)));
        // What is cropped beyond the pads of the end is padded less.
        assert_eq!(fused(&computed_network(3)), Some((vec![2, 3], 3)));
    }

    #[test]
    fn cells_are_not_cropped_backwards() {
        for crop in [-1, i64::MIN] {
            assert!(network("VALID", [2, 3], [crop, 0, 0, 0]).is_none());
        }
    }
}
