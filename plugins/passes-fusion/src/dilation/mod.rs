//! Makes one convolution with dilations of one of blocks, as TensorFlow writes it.
//!
//! Blocks that become samples are each phase of a dilated convolution. One `Conv` with `dilations` reads the same
//! cells. Cells that are cropped off the result are not padded to begin with: an output at `t` reads the inputs from
//! `t` on. Operators between that compute each element from one element, such as activations, biases and quantization,
//! do not depend on the order of cells.
//!
//! ```onnx
//! before (float[N,6,1] x) => (float[N,7,1] y)
//! <float[1,1,2] w = {1.0, 2.0}, int64[6] pads = {0, 2, 0, 0, 2, 0}, int64[6] crops = {0, 0, 0, 0, -1, 0},
//!  int64[4] parted = {-1, 5, 2, 1}, int64[3] samples = {-1, 5, 1}, int64[4] cells = {2, -1, 4, 1},
//!  int64[3] whole = {-1, 8, 1}>
//! {
//!   p = Pad(x, pads)
//!   a = Reshape(p, parted)
//!   b = Transpose<perm = [2, 0, 1, 3]>(a)
//!   s = Reshape(b, samples)
//!   t = Transpose<perm = [0, 2, 1]>(s)
//!   c = Conv(t, w)
//!   u = Transpose<perm = [0, 2, 1]>(c)
//!   v = Reshape(u, cells)
//!   d = Transpose<perm = [1, 2, 0, 3]>(v)
//!   e = Reshape(d, whole)
//!   y = Pad(e, crops)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,6,1] x) => (float[N,7,1] y)
//! <float[1,1,2] w = {1.0, 2.0}>
//! {
//!   y_transpose = Transpose<perm = [0, 2, 1]>(x)
//!   y_conv = Conv<dilations = [2], pads = [2, 1]>(y_transpose, w)
//!   y = Transpose<perm = [0, 2, 1]>(y_conv)
//! }
//! ```

mod blocks;
mod offsets;
mod steps;

use crate::parts::unlike;
use blocks::joined;
use onnxd_plugin_sdk::ir::{Attr, Facts, Graph, Node, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use steps::{DilatedStep, phases, sole_reader};

pub(crate) fn fuse_dilation(cx: &mut Rewriter, id: NodeId, facts: &Facts) -> Rewrite {
    let node = &cx.graph[id];
    let Some(out) = node.output(0).filter(|_| node.is("Reshape") || node.is("Pad")) else {
        return Skip::unlike();
    };
    let (whole, crops) = match node.is("Pad") {
        true => cropped(cx.graph, node).ok_or_else(unlike)?,
        false => (out, None),
    };
    let samples = joined(cx.graph, facts, whole).ok_or_else(unlike)?;
    if whole == out
        && let Some(reader) = sole_reader(cx.graph, whole)
        && cropped(cx.graph, &cx.graph[reader]).is_some()
    {
        return Skip::unlike();
    }
    let (cut, mut steps) = phases(cx, facts, samples.data, &samples.sizes).ok_or_else(unlike)?;
    let (x, padded) = padded(cx.graph, cut.data).unwrap_or((cut.data, None));
    let rank = facts.shape(x).ok_or_else(unlike)?.len();
    let axes = (rank, samples.sizes.len());
    let pads = offsets::left(cx, facts, (padded, crops), axes)
        .ok_or_else(|| Skip("what is padded and cropped is not known".into()))?;
    let sizes = facts.shape(out).ok_or_else(unlike)?;
    if sizes.iter().any(|size| size.known().is_some_and(|n| n <= 0)) {
        return Skip::because("nothing is left of what is cropped");
    }
    drop_pair(cx.graph, x, &mut steps);
    // Only zeros around a convolution are its own.
    let first = steps.iter().find(|step| !step.moves());
    let inside = matches!(first, Some(DilatedStep::Conv(_))) && pads.iter().all(|n| *n >= 0);
    let around = if inside { pads.clone() } else { vec![0; 2 * rank] };
    cx.rebuild(out, |b| {
        let mut y = b.var(x);
        if !inside && pads.iter().any(|n| *n != 0) {
            y = b.pad(y, &pads).one()?;
        }
        for step in &steps {
            y = step.built(b, y, &around)?;
        }
        Ok(y)
    })
}

/// What `Pad` crops, and its pads, if these add nothing.
fn cropped(graph: &Graph, node: &Node) -> Option<(ValueId, Option<ValueId>)> {
    let (data, pads) = (node.input(0)?, node.input(1)?);
    let is_negative = match graph.constant(pads) {
        Some(pads) => pads.to_i64s()?.iter().all(|n| *n <= 0),
        None => graph.producer(pads).is_some_and(|id| graph[id].is("Neg")),
    };
    let plain = is_plain_pad(graph, node) && is_negative;
    plain.then_some((data, Some(pads)))
}

/// What is padded with zeros as `v`, and the pads.
fn padded(graph: &Graph, v: ValueId) -> Option<(ValueId, Option<ValueId>)> {
    let node = &graph[graph.producer(v)?];
    is_plain_pad(graph, node).then_some((node.input(0)?, Some(node.input(1)?)))
}

/// Whether a node pads all axes with zeros.
fn is_plain_pad(graph: &Graph, node: &Node) -> bool {
    let is_zero = |v| graph.constant(v).is_some_and(|t| t.bytes().iter().all(|byte| *byte == 0));
    let constant =
        node.attr("mode").is_none_or(|mode| matches!(mode, Attr::Str(s) if s == "constant"));
    node.is("Pad") && constant && node.input(2).is_none_or(is_zero) && node.input(3).is_none()
}

/// Leaves out a QuantizeLinear and a DequantizeLinear at the beginning that undo each other, because `x` consists of
/// numbers that the same DequantizeLinear gives.
fn drop_pair(graph: &Graph, x: ValueId, steps: &mut Vec<DilatedStep>) {
    let given = graph.producer(x).map(|id| &graph[id]);
    let (Some(given), [DilatedStep::ElementWise(to, _), DilatedStep::ElementWise(from, _), ..]) =
        (given, steps.as_slice())
    else {
        return;
    };
    let kinds = [given, to, from].map(|node| node.op.as_str());
    let is_same = |node: &Node| node.inputs.get(1..) == given.inputs.get(1..);
    if kinds == ["DequantizeLinear", "QuantizeLinear", "DequantizeLinear"]
        && given.inputs.len() == 3
        && is_same(to)
        && is_same(from)
    {
        steps.drain(..2);
    }
}

#[cfg(test)]
mod tests;
