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
