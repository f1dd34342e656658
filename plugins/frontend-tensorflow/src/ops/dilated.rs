//! Convolutions with dilations, which TensorFlow writes as convolutions of blocks.
//!
//! `BatchToSpaceND(Conv(SpaceToBatchND(x)))` computes each phase of a dilated convolution as samples of its own. One
//! `Conv` with `dilations` reads the same cells. Cells that are cropped off the result are not padded to begin with:
//! an output at `t` reads the inputs from `t` on.

use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::ir::{Attr, Dim, Graph, Node, ValueId};
use onnxd_plugin_sdk::lower::Lowered;

/// Nodes between the two changes of layout: the convolution, and those that move its axes.
const NODES_MAX: usize = 8;

/// What lies between the blocks' way in and their way out.
enum Step {
    Transpose(Vec<i64>),
    Unsqueeze(Vec<i64>),
    Squeeze(Vec<i64>),
    Conv { w: Var, bias: Option<Var>, group: Option<i64>, dilations: Vec<i64> },
}

/// The result of `BatchToSpaceND(x, blocks, crops)`, if `x` is a convolution of what `SpaceToBatchND` gave by the same
/// blocks, of known sizes.
///
/// # Errors
/// What the builder says of the nodes it adds.
pub(super) fn dilated(
    b: &GraphBuilder,
    x: Var,
    blocks: &[i64],
    crops: &[[i64; 2]],
) -> Lowered<Option<Var>> {
    let found = phases(b, x, blocks).and_then(|(padded, steps)| {
        let (source, pads) = source(b, padded, crops)?;
        leaves_cells(b, x, blocks, crops).then_some((source, pads, steps))
    });
    let Some((source, pads, steps)) = found else { return Ok(None) };
    let mut y = b.var(source);
    if pads.iter().any(|n| *n != 0) {
        y = b.pad(y, pads).one()?;
    }
    for step in steps {
        y = match step {
            Step::Transpose(perm) => b.transpose(y).perm(perm).one()?,
            Step::Unsqueeze(axes) => b.unsqueeze(y, axes)?,
            Step::Squeeze(axes) => b.squeeze(y).axes(axes).one()?,
            Step::Conv { w, bias, group, dilations } => {
                b.conv(y, w).b(bias).group(group).dilations(dilations).one()?
            }
        };
    }
    Ok(Some(y))
}

/// What was cut into blocks, and the steps from there to `x`.
fn phases(b: &GraphBuilder, x: Var, blocks: &[i64]) -> Option<(ValueId, Vec<Step>)> {
    let mut value = b.id(x).ok().filter(|_| b.is_own(x))?;
    let mut nodes = Vec::new();
    let merged = loop {
        let node = before(&b.graph(), value)?;
        if node.is("Reshape") {
            break node;
        }
        value = node.input(0).filter(|_| nodes.len() < NODES_MAX)?;
        nodes.push(node);
    };
    let home: Vec<usize> = (1..=blocks.len()).collect();
    let (mut axes, mut steps) = (home.clone(), Vec::new());
    for node in nodes.iter().rev() {
        let step = step(b, node, &axes, blocks)?;
        axes = moved(&step, &axes)?;
        steps.push(step);
    }
    let convolutions = steps.iter().filter(|step| matches!(step, Step::Conv { .. })).count();
    let padded = cut(b, &merged, blocks)?;
    (convolutions == 1 && axes == home).then_some((padded, steps))
}

/// What a node becomes without blocks, which lie on `axes` of its input.
fn step(b: &GraphBuilder, node: &Node, axes: &[usize], blocks: &[i64]) -> Option<Step> {
    match node.op.as_str() {
        "Transpose" => Some(Step::Transpose(ints(node, "perm")?)),
        "Unsqueeze" => Some(Step::Unsqueeze(listed(b, node)?)),
        "Squeeze" => Some(Step::Squeeze(listed(b, node)?)),
        "Conv" => {
            let all =
                |name, wanted| ints(node, name).is_none_or(|all| all.iter().all(|n| *n == wanted));
            let is_plain = all("pads", 0) && all("strides", 1) && all("dilations", 1);
            let w = b.var(node.input(1).filter(|_| is_plain && node.attr("auto_pad").is_none())?);
            let mut dilations = vec![1; b.rank_of(w)?.checked_sub(2)?];
            for (axis, block) in axes.iter().zip(blocks) {
                *dilations.get_mut(axis.checked_sub(2)?)? = *block;
            }
            let group = node.attr("group").map(|_| node.int("group", 1));
            Some(Step::Conv { w, bias: node.input(2).map(|id| b.var(id)), group, dilations })
        }
        _ => None,
    }
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
        Step::Conv { .. } => Some(axis),
    };
    axes.iter().map(|axis| at(*axis)).collect()
}

/// What was cut into blocks, where `merged` makes samples of their cells.
fn cut(b: &GraphBuilder, merged: &Node, blocks: &[i64]) -> Option<ValueId> {
    let graph = b.graph();
    let turned = before(&graph, merged.input(0)?).filter(|node| node.is("Transpose"))?;
    let split = before(&graph, turned.input(0)?).filter(|node| node.is("Reshape"))?;
    let padded = split.input(0)?;
    let of = sizes(b, padded)?;
    let m = blocks.len();
    let mut cells = vec![*of.first()?];
    let mut places = cells.clone();
    for (size, block) in of.get(1..=m)?.iter().zip(blocks) {
        let outer = Some((*size)? / block);
        cells.extend([outer, Some(*block)]);
        places.push(outer);
    }
    let rest = &of[m + 1..];
    cells.extend(rest);
    places.extend(rest);
    let (found, given) = (sizes(b, split.output(0)?)?, sizes(b, merged.output(0)?)?);
    // The sizes of samples follow from those of all other axes.
    let fits =
        rest.iter().all(Option::is_some) && found == cells && given.get(1..) == places.get(1..);
    (fits && ints(&turned, "perm")? == super::space::batch_first(m, of.len())).then_some(padded)
}

/// What a `Pad` with zeros reads, or `padded` itself, and the pads for all axes that are left after crops.
fn source(b: &GraphBuilder, padded: ValueId, crops: &[[i64; 2]]) -> Option<(ValueId, Vec<i64>)> {
    let rank = b.rank_of(b.var(padded))?;
    let zeros = || {
        let pad = before(&b.graph(), padded)?;
        let is_plain = pad.is("Pad") && pad.inputs.len() == 2 && pad.attr("mode").is_none();
        let pads = b.ints_of(b.var(pad.input(1).filter(|_| is_plain)?))?;
        (pads.len() == 2 * rank).then_some((pad.input(0)?, pads))
    };
    let (source, mut pads) = zeros().unwrap_or_else(|| (padded, vec![0; 2 * rank]));
    for (axis, crop) in crops.iter().enumerate() {
        for (side, crop) in crop.iter().enumerate() {
            let pad = pads.get_mut(side * rank + axis + 1)?;
            *pad = pad.checked_sub(*crop)?;
        }
    }
    Some((source, pads))
}

/// Whether crops, one pair for each block, leave something of each axis of `x`.
fn leaves_cells(b: &GraphBuilder, x: Var, blocks: &[i64], crops: &[[i64; 2]]) -> bool {
    let left = |at: usize, [before, after]: [i64; 2]| -> Option<i64> {
        let size = b.shape_of(x)?.get(at + 1)?.known()?.checked_mul(*blocks.get(at)?)?;
        size.checked_sub(before)?.checked_sub(after)
    };
    let sound = |at: usize, crop: [i64; 2]| {
        crop.iter().all(|n| *n >= 0) && left(at, crop).is_some_and(|n| n > 0)
    };
    crops.len() == blocks.len() && crops.iter().enumerate().all(|(at, crop)| sound(at, *crop))
}

fn sizes(b: &GraphBuilder, id: ValueId) -> Option<Vec<Option<i64>>> {
    Some(b.shape_of(b.var(id))?.iter().map(Dim::known).collect())
}

/// The axes that `Squeeze` or `Unsqueeze` names, none of them counted from the end.
fn listed(b: &GraphBuilder, node: &Node) -> Option<Vec<i64>> {
    let axes = match ints(node, "axes") {
        Some(axes) => axes,
        None => b.ints_of(b.var(node.input(1)?))?,
    };
    axes.iter().all(|axis| *axis >= 0).then_some(axes)
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
    use crate::graph::fixture::{FLOAT, graph, import, node, placeholder, shape};
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
        let weights = TensorProto {
            dtype: FLOAT,
            tensor_shape: Some(shape(&[2, 3, 1, 1])),
            float_val: vec![1.0; 6],
            ..TensorProto::default()
        };
        let strides = Attr::List(ListValue { i: vec![1; 4], ..ListValue::default() });
        let filtered = node("c", "Conv2D", &["s", "w"]).attr("strides", strides);
        let nodes = vec![
            placeholder("x", &[-1, 7, 9, 1]),
            integers("cut", &[2], &[2, 3]),
            integers("pads", &[2, 2], &[2, 3, 3, 3]),
            node("s", "SpaceToBatchND", &["x", "cut", "pads"]),
            constant("w", weights),
            filtered.attr("padding", Attr::S(padding.as_bytes().to_vec().into())),
            integers("blocks", &[2], &blocks),
            integers("crops", &[2, 2], &crops),
            node("y", "BatchToSpaceND", &["c", "blocks", "crops"]),
        ];
        import(&graph(nodes, vec![])).ok().map(|imported| imported.model.graph)
    }

    /// The dilations and pads of the convolution that the only output depends on, if nothing is cut into blocks.
    fn fused(graph: &Graph) -> Option<(Vec<i64>, usize)> {
        let (mut value, mut dilations, mut pads) = (*graph.outputs().first()?, None, 0);
        while let Some(id) = graph.producer(value) {
            let node = &graph[id];
            match node.op.as_str() {
                "Reshape" => return None,
                "Conv" => dilations = super::ints(node, "dilations"),
                "Pad" => pads += 1,
                _ => {}
            }
            value = node.input(0)?;
        }
        dilations.map(|all| (all, pads))
    }

    #[test]
    fn blocks_become_dilations() {
        let found = |crops| fused(&network("VALID", [2, 3], crops).unwrap());
        assert_eq!(found([0, 1, 1, 2]), Some((vec![2, 3], 1)));
        // What was padded is cropped again.
        assert_eq!(found([2, 3, 3, 3]), Some((vec![2, 3], 0)));
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

    #[test]
    fn cells_are_not_cropped_backwards() {
        for crop in [-1, i64::MIN] {
            assert!(network("VALID", [2, 3], [crop, 0, 0, 0]).is_none());
        }
    }
}
