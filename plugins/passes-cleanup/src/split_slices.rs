//! Makes one Split of the slices that share out a value along an axis.
//!
//! ```onnx
//! before (float[N,6] x) => (float[N,2] y, float[N,4] z)
//! <int64[1] zero = {0}, int64[1] two = {2}, int64[1] end = {9223372036854775807}, int64[1] one = {1}>
//! {
//!   y = Slice(x, zero, two, one)
//!   z = Slice(x, two, end, one)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,6] x) => (float[N,2] y, float[N,4] z)
//! <int64[2] y_sizes = {2, 4}>
//! {
//!   y, z = Split<axis = 1>(x, y_sizes)
//! }
//! ```

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::{Attr, Facts, Graph, Model, Node, NodeId, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, for_each_graph_known};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// The first version in which the sizes of Split are an input.
const SIZES_ARE_AN_INPUT: i64 = 13;
/// The first version in which Split takes the number of equal parts.
const COUNTS: i64 = 18;
/// The first version in which Split takes all element types and needs no sizes.
const SPLIT: i64 = 2;

pub(crate) struct SplitSlices;

impl Pass for SplitSlices {
    fn name(&self) -> &'static str {
        "split-slices"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let facts = cx.facts(model);
        let done = for_each_graph_known(model, &facts, &mut |graph, opset, facts| {
            if opset >= SPLIT {
                split_slices(graph, opset, facts, cx);
            }
            Ok::<(), Infallible>(())
        });
        let Ok(()) = done;
        Ok(())
    }
}

/// Which part of an axis a node takes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SlicePart {
    start: i64,
    end: i64,
    node: NodeId,
    out: ValueId,
}

fn split_slices(graph: &mut Graph, opset: i64, facts: &Facts, cx: &mut PassContext) {
    let mut parts: BTreeMap<(ValueId, usize), (i64, Vec<SlicePart>)> = BTreeMap::new();
    for id in graph.node_ids() {
        if let Some((data, axis, size, part)) = part(graph, id, facts) {
            parts.entry((data, axis)).or_insert_with(|| (size, vec![])).1.push(part);
        }
    }
    for ((data, axis), (size, mut parts)) in parts {
        parts.sort_unstable();
        let starts = parts.iter().map(|p| p.start).chain([size]);
        let ends = [0].into_iter().chain(parts.iter().map(|p| p.end));
        if parts.len() > 1 && starts.eq(ends) && !cx.fuel.is_empty() {
            split(graph, opset, data, axis, &parts);
            cx.rewrote();
        }
    }
}

/// What the node takes a part of, along which axis of which size, and the part.
fn part(graph: &Graph, id: NodeId, facts: &Facts) -> Option<(ValueId, usize, i64, SlicePart)> {
    let node = &graph[id];
    let (data, out) = (node.input(0)?, node.output(0)?);
    let list = |name: &str, input: usize| match node.attr(name) {
        Some(Attr::Ints(list)) => Some(list.clone()),
        _ => node.input(input).and_then(|v| graph.constant(v)?.to_i64s()),
    };
    let (axis, start, end) = if node.is("Slice") {
        let (starts, ends) = (list("starts", 1)?, list("ends", 2)?);
        let axes = if has(node, "axes", 3) { list("axes", 3)? } else { vec![0] };
        let steps = if has(node, "steps", 4) { list("steps", 4)? } else { vec![1] };
        match (&starts[..], &ends[..], &axes[..], &steps[..]) {
            ([start], [end], [axis], [1]) => (*axis, *start, *end),
            _ => return None,
        }
    } else if node.is("Gather") && graph.constant(node.input(1)?)?.rank() == 1 {
        let indices = list("", 1)?;
        let (first, last) = (*indices.first()?, *indices.last()?);
        let in_order = (first..=last).eq(indices.iter().copied()) && first >= 0;
        in_order.then_some((node.int("axis", 0), first, last + 1))?
    } else {
        return None;
    };
    let shape = facts.shape(data)?;
    let axis = usize::try_from(if axis < 0 { axis + shape.len() as i64 } else { axis }).ok()?;
    let size = shape.get(axis)?.known()?;
    let at = |i: i64| (if i < 0 { i.saturating_add(size) } else { i }).clamp(0, size);
    let (start, end) = (at(start), at(end));
    (start < end).then_some((data, axis, size, SlicePart { start, end, node: id, out }))
}

fn has(node: &Node, attr: &str, input: usize) -> bool {
    node.attr(attr).is_some() || node.input(input).is_some()
}

/// Lets one Split compute what the nodes of `parts` do.
fn split(graph: &mut Graph, opset: i64, data: ValueId, axis: usize, parts: &[SlicePart]) {
    let sizes: Vec<i64> = parts.iter().map(|p| p.end - p.start).collect();
    let equal = sizes.windows(2).all(|pair| pair[0] == pair[1]);
    let mut split = Node::new("Split", [data], parts.iter().map(|p| p.out));
    if axis != 0 {
        split = split.with("axis", Attr::Int(axis as i64));
    }
    if equal && opset >= COUNTS {
        split = split.with("num_outputs", Attr::Int(sizes.len() as i64));
    } else if !equal && opset >= SIZES_ARE_AN_INPUT {
        let name = format!("{}_sizes", graph[parts[0].out].name);
        split.inputs.push(Some(graph.add_initializer(&name, Tensor::vector(sizes))));
    } else if !equal {
        split = split.with("split", Attr::Ints(sizes));
    }
    let gone: Vec<Node> = parts.iter().map(|p| graph.remove_node(p.node)).collect();
    split.name.clone_from(&gone[0].name);
    gone.iter().for_each(|node| split.layers.add(&node.layers));
    graph.add_node(split);
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("split_slices.rs"), &SplitSlices);
    }

    const BOUNDS: &str =
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3},
        int64[1] end = {100}, int64[1] last = {-1}, int64[2] i = {0, 1}, int64[2] j = {2, 3}>";

    #[test]
    fn equal_parts_need_no_sizes() {
        let graph = format!(
            "g (float[4,N] x) => (float[2,N] y) {BOUNDS}
             {{ a = Gather(x, i) b = Gather(x, j) y = Sub(a, b) }}"
        );
        let model = check_pass_same(&SplitSlices, &graph);
        assert_eq!(model.graph.node_count(), 2);
        let (_, split) = model.graph.nodes().find(|(_, n)| n.is("Split")).unwrap();
        assert_eq!(split.inputs.len(), 1);
    }

    #[test]
    fn parts_that_do_not_share_it_out() {
        let skips = |nodes: &str| {
            let graph = format!("g (float[4,N] x) => (float[A,B] y) {BOUNDS} {{ {nodes} }}");
            check_pass_skip(&SplitSlices, "", &graph);
        };
        // A gap, an overlap, another axis, a size that is not known, steps.
        skips("a = Slice(x, zero, one) b = Slice(x, three, end) y = Sub(a, b)");
        skips("a = Slice(x, zero, three) b = Slice(x, one, end) y = Concat<axis = 0>(a, b)");
        skips("a = Slice(x, zero, two) b = Slice(x, two, end, one) y = Concat<axis = 0>(a, b)");
        skips(
            "a = Slice(x, zero, two, one) b = Slice(x, two, end, one) y = Concat<axis = 1>(a, b)",
        );
        skips(
            "a = Slice(x, zero, two, zero, two) b = Slice(x, two, end) y = Concat<axis = 0>(a, b)",
        );
    }

    #[test]
    fn names_and_layers_stay() {
        let graph = format!(
            "g (float[4,N] x) => (float[3,N] y, float[1,N] z) {BOUNDS}
             {{ y = Slice(x, zero, last) z = Slice(x, last, end) }}"
        );
        let model = check_pass_same(&SplitSlices, &graph);
        let outputs = model.graph.outputs().iter().map(|v| model.graph[*v].name.as_str());
        assert_eq!((outputs.collect::<Vec<_>>(), model.graph.node_count()), (vec!["y", "z"], 1));
    }
}
