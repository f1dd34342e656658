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
struct Phases {
    /// What is padded and cut into blocks.
    padded: ValueId,
    /// The nodes that compute on blocks, in their order.
    nodes: Vec<Node>,
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
    if !b.is_own(x) || crops.len() != blocks.len() {
        return Ok(None);
    }
    let Some(Phases { padded, nodes }) = phases(b, x, blocks) else { return Ok(None) };
    let rank = b.rank_of(b.var(padded)).unwrap_or_default();
    let (source, mut pads) = unpadded(b, padded).unwrap_or_else(|| (padded, vec![0; 2 * rank]));
    for (axis, [before, after]) in crops.iter().enumerate() {
        pads[axis + 1] -= before;
        pads[rank + axis + 1] -= after;
    }
    let mut y = b.var(source);
    if pads.iter().any(|n| *n != 0) {
        y = b.pad(y, pads).one()?;
    }
    let mut axes: Vec<usize> = (1..=blocks.len()).collect();
    for node in nodes {
        let input = |at: usize| node.input(at).map(|id| b.var(id));
        y = match node.op.as_str() {
            "Transpose" => b.transpose(y).perm(ints(&node, "perm").unwrap_or_default()).one()?,
            "Unsqueeze" => b.unsqueeze(y, listed(b, &node).unwrap_or_default())?,
            "Squeeze" => b.squeeze(y).axes(listed(b, &node).unwrap_or_default()).one()?,
            _ => {
                let Some(w) = input(1) else { return Ok(None) };
                let spatial = b.rank_of(y).unwrap_or_default().saturating_sub(2);
                let mut dilations = vec![1; spatial];
                axes.iter().zip(blocks).for_each(|(axis, block)| dilations[axis - 2] = *block);
                let group = node.attr("group").map(|_| node.int("group", 1));
                b.conv(y, w).b(input(2)).group(group).dilations(dilations).one()?
            }
        };
        axes = moved(b, &node, &axes).unwrap_or_default();
    }
    Ok(Some(y))
}

/// The nodes before `x` back to where blocks became samples, if they do what `dilated` needs.
fn phases(b: &GraphBuilder, x: Var, blocks: &[i64]) -> Option<Phases> {
    let mut value = b.id(x).ok()?;
    let mut nodes = Vec::new();
    let merged = loop {
        let node = before(&b.graph(), value)?;
        match node.op.as_str() {
            "Reshape" => break node,
            "Transpose" | "Squeeze" | "Unsqueeze" | "Conv" if nodes.len() < NODES_MAX => {
                value = node.input(0)?;
                nodes.push(node);
            }
            _ => return None,
        }
    };
    nodes.reverse();
    let mut axes: Vec<usize> = (1..=blocks.len()).collect();
    let mut convolutions = 0;
    for node in &nodes {
        if node.is("Conv") {
            let plain =
                |name, wanted| ints(node, name).is_none_or(|all| all.iter().all(|n| *n == wanted));
            let is_plain = plain("pads", 0) && plain("strides", 1) && plain("dilations", 1);
            if !is_plain || node.attr("auto_pad").is_some() || axes.iter().any(|axis| *axis < 2) {
                return None;
            }
            convolutions += 1;
        }
        axes = moved(b, node, &axes)?;
    }
    let returns = axes.iter().copied().eq(1..=blocks.len());
    let padded = cut(b, &merged, blocks)?;
    (convolutions == 1 && returns).then_some(Phases { padded, nodes })
}

/// What was cut into blocks, where `merged` makes samples of their cells.
fn cut(b: &GraphBuilder, merged: &Node, blocks: &[i64]) -> Option<ValueId> {
    let graph = b.graph();
    let turned = before(&graph, merged.input(0)?).filter(|node| node.is("Transpose"))?;
    let split = before(&graph, turned.input(0)?).filter(|node| node.is("Reshape"))?;
    let padded = split.input(0)?;
    let sizes = |id: ValueId| -> Option<Vec<Option<i64>>> {
        Some(b.shape_of(b.var(id))?.iter().map(Dim::known).collect())
    };
    let of = sizes(padded)?;
    let (rank, m) = (of.len(), blocks.len());
    let mut cells = vec![of.first().copied()?];
    let mut places = cells.clone();
    for (size, block) in of.get(1..=m)?.iter().zip(blocks) {
        let outer = Some((*size)? / block);
        cells.extend([outer, Some(*block)]);
        places.push(outer);
    }
    let rest = &of[m + 1..];
    cells.extend(rest);
    places.extend(rest);
    let perm: Vec<i64> = super::space::batch_first(m, rank);
    let found = sizes(*split.outputs.first()?.as_ref()?)?;
    let given = sizes(*merged.outputs.first()?.as_ref()?)?;
    // The sizes of samples follow from those of all other axes.
    let fits =
        rest.iter().all(Option::is_some) && found == cells && given.get(1..) == places.get(1..);
    (fits && ints(&turned, "perm")? == perm).then_some(padded)
}

/// What a `Pad` with zeros reads, and its pads for all axes.
fn unpadded(b: &GraphBuilder, padded: ValueId) -> Option<(ValueId, Vec<i64>)> {
    let node =
        before(&b.graph(), padded).filter(|node| node.is("Pad") && node.inputs.len() == 2)?;
    let pads = b.ints_of(b.var(node.input(1)?))?;
    (node.attr("mode").is_none()).then_some((node.input(0)?, pads))
}

/// Where axes are behind a node.
fn moved(b: &GraphBuilder, node: &Node, axes: &[usize]) -> Option<Vec<usize>> {
    let at = |axis: usize| -> Option<usize> {
        match node.op.as_str() {
            "Transpose" => ints(node, "perm")?.iter().position(|from| *from == axis as i64),
            "Unsqueeze" => {
                let new = listed(b, node)?;
                (0..).filter(|place| !new.contains(&(*place as i64))).nth(axis)
            }
            "Squeeze" => {
                let gone = listed(b, node)?;
                let before = gone.iter().filter(|n| **n < axis as i64).count();
                (!gone.contains(&(axis as i64))).then(|| axis - before)
            }
            _ => Some(axis),
        }
    };
    axes.iter().map(|axis| at(*axis)).collect()
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
