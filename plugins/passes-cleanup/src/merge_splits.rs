//! Takes elements by Gather where Split or Slice takes parts of one element, and the axis goes.
//!
//! ```onnx
//! before (float[2,3] x) => (float[3] y, float[3] z)
//! <int64[1] axes = {0}>
//! {
//!   a, b = Split(x)
//!   y = Squeeze(a, axes)
//!   z = Squeeze(b, axes)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[3] y, float[3] z)
//! <int64 y_place = {0}, int64 z_place = {1}>
//! {
//!   y = Gather(x, y_place)
//!   z = Gather(x, z_place)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::Gather;
use onnxd_plugin_sdk::ir::{Dim, Facts, NodeId, Tensor, ValueId, axis_at};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_splits(cx: &mut Rewriter, id: NodeId, facts: &Facts) -> Rewrite {
    let node = &cx.graph[id];
    let (is_split, is_slice) = (node.is("Split"), node.is("Slice"));
    let Some(data) = node.input(0).filter(|_| is_split || is_slice) else { return Skip::unlike() };
    let Some(shape) = facts.shape(data) else { return Skip::unlike() };
    let (axis, first) = match is_split {
        true => (node.int("axis", 0), 0),
        false => sliced(cx, id, shape)?,
    };
    let axis = axis_at(axis, shape.len()).ok_or_else(|| Skip(String::new()))?;
    let parts = cx.graph[id].outputs.clone();
    let mut squeezed = Vec::with_capacity(parts.len());
    for (i, part) in parts.iter().enumerate() {
        let Some(part) = *part else { return Skip::unlike() };
        squeezed.push((first + i as i64, squeeze_of(cx, part, facts, axis)?));
    }
    let layers = cx.graph[id].layers.clone();
    for (place, out) in squeezed {
        let own = cx.graph.producer(out).map(|id| cx.graph[id].layers.clone()).unwrap_or_default();
        let place = cx.derive(out, "place", Tensor::scalar(place));
        cx.replace(out, Gather { data, indices: place, axis: axis as i64 })?;
        if let Some(id) = cx.graph.producer(out) {
            let node = cx.graph.node_mut(id);
            node.layers.add(&own);
            node.layers.add(&layers);
        }
    }
    cx.layers_are_set();
    Ok(())
}

/// Along which axis a Slice takes one element, and which.
fn sliced(cx: &Rewriter, id: NodeId, shape: &[Dim]) -> Result<(i64, i64), Skip> {
    let starts = cx.integers_of(id, "starts", 1)?.unwrap_or_default();
    let axes = cx.integers_of(id, "axes", 3)?.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = cx.integers_of(id, "steps", 4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let (&[start], &[axis], [1]) = (&starts[..], &axes[..], &steps[..]) else {
        return Skip::unlike();
    };
    let size = axis_at(axis, shape.len()).and_then(|axis| shape[axis].known());
    match size {
        Some(size) if (-size..size).contains(&start) => Ok((axis, start.rem_euclid(size))),
        _ => Skip::unlike(),
    }
}

/// The result of the only reader of `part`, which has one element along `axis`: a Squeeze of that axis.
fn squeeze_of(cx: &Rewriter, part: ValueId, facts: &Facts, axis: usize) -> Result<ValueId, Skip> {
    let graph = &*cx.graph;
    let (shape, &[reader]) = (facts.shape(part), graph.readers(part)) else {
        return Skip::unlike();
    };
    let Some(shape) = shape.filter(|shape| shape.get(axis) == Some(&Dim::Known(1))) else {
        return Skip::unlike();
    };
    let node = &graph[reader];
    if !node.is("Squeeze") || graph.is_output(part) {
        return Skip::unlike();
    }
    let axes = cx.integers_of(reader, "axes", 1)?.unwrap_or_default();
    let [own] = axes[..] else { return Skip::because("not one axis goes") };
    match node.output(0).filter(|_| axis_at(own, shape.len()) == Some(axis)) {
        Some(out) => Ok(out),
        None => Skip::because("another axis goes than that of the parts"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };
    use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};

    fn pass() -> Box<dyn Pass> {
        rule_on_facts("merge-splits", merge_splits)
    }

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("merge_splits.rs"), pass().as_ref());
    }

    const CONSTANTS: &str =
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] last = {-1},
        int64[1] end = {9}, int64[2] sizes = {1, 2}, int64[2] both = {0, 1}>";

    #[test]
    fn a_slice_of_one_element() {
        for (slice, squeeze) in
            [("x, one, two, one", "one"), ("x, last, end, one", "last"), ("x, zero, one", "zero")]
        {
            let graph = format!(
                "g (float[3,N,2] v) => (float[A,B] y) {CONSTANTS}
                 {{ x = Transpose<perm = [0, 2, 1]>(v) s = Slice({slice}) y = Squeeze(s, {squeeze}) }}"
            );
            let graph = graph.replace("(s, last)", "(s, one)");
            assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 2);
        }
    }

    #[test]
    fn before_opset_13() {
        let graph = "<ir_version: 7, opset_import: [\"\" : 11]>
            g (float[N,2] x) => (float[N] y)
            { a, b = Split<axis = -1>(x) c = Squeeze<axes = [-1]>(a) d = Squeeze<axes = [1]>(b) y = Sub(c, d) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 3);
    }

    #[test]
    fn declined() {
        let skips = |why: &str, inputs: &str, nodes: &str| {
            let graph = format!("g ({inputs}) => (float[A] y) {CONSTANTS} {{ {nodes} }}");
            check_pass_skip(pass().as_ref(), why, &graph);
        };
        // A part is longer, is read twice, keeps its axis, or may be empty.
        skips("", "float[3,1] x", "a, b = Split(x, sizes) c = Squeeze(a, zero) y = Add(b, c)");
        skips(
            "",
            "float[2,1] x",
            "a, b = Split(x) c = Squeeze(a, zero) d = Add(a, b) y = Add(c, d)",
        );
        skips("", "float[2,1] x", "a, b = Split(x) c = Squeeze(a, zero) y = Add(b, c)");
        skips("", "float[N,1] x", "a = Slice(x, zero, one) y = Squeeze(a, zero)");
        let why = "another axis goes than that of the parts";
        skips(why, "float[2,1] x", "a = Slice(x, zero, one) y = Squeeze(a, one)");
        skips("not one axis goes", "float[2,1] x", "a = Slice(x, zero, one) y = Squeeze(a, both)");
    }
}
