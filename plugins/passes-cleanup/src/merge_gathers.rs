//! Lets Gather give the rank that is wanted: the axis of a constant index that is put in or taken out behind it.
//!
//! ```onnx
//! before (float[3,4] x) => (float[1,4] y)
//! <int64 i = {2}, int64[1] axes = {0}>
//! {
//!   a = Gather(x, i)
//!   y = Unsqueeze(a, axes)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[3,4] x) => (float[1,4] y)
//! <int64[1] i_axis = {2}>
//! {
//!   y = Gather(x, i_axis)
//! }
//! ```

use onnxd_plugin_sdk::ir::At;
use onnxd_plugin_sdk::ir::ops::Gather;
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_gathers(cx: &mut Rewriter, gather: At<Gather>) -> Rewrite {
    let Some(index) = cx.graph.constant(gather.indices).cloned() else { return Skip::unlike() };
    let [reader] = *cx.graph.readers(gather.out) else { return Skip::unlike() };
    let node = &cx.graph[reader];
    let (wanted, role) = match (node.op.as_str(), index.dims()) {
        ("Unsqueeze", []) => (vec![1], "axis"),
        ("Squeeze", [1]) => (vec![], "element"),
        _ => return Skip::unlike(),
    };
    let Some(out) = node.output(0).filter(|_| node.is_standard()) else { return Skip::unlike() };
    cx.read_once(gather.out)?;
    // The axis is there in what Gather reads, and in the longer of the two results.
    let rank = cx.rank(gather.data)? as i64;
    let axes = cx.integers_of(reader, "axes", 1)?.unwrap_or_default();
    let [axis] = axes[..] else { return Skip::because("not one axis goes or comes") };
    if axis.rem_euclid(rank.max(1)) != gather.axis.rem_euclid(rank.max(1)) {
        return Skip::because("another axis goes or comes than that of the index");
    }
    let index = index.reshaped(wanted).map_err(|_| Skip(String::new()))?;
    let indices = cx.derive(gather.indices, role, index);
    cx.replace(out, Gather { indices, ..gather.op })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_gathers.rs"), merge_gathers);
    }

    #[test]
    fn the_axis_goes() {
        let model = check_same(
            merge_gathers,
            "g (float[3,4] x) => (float[3] y) <int64[1] i = {2}, int64[1] axes = {-1}>
             { a = Gather<axis = 1>(x, i) y = Squeeze(a, axes) }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn left_alone() {
        check_skip(
            merge_gathers,
            "another axis goes or comes than that of the index",
            "g (float[3,4] x) => (float[4,1] y) <int64 i = {2}, int64[1] axes = {1}>
             { a = Gather(x, i) y = Unsqueeze(a, axes) }",
        );
        check_skip(
            merge_gathers,
            "not one axis goes or comes",
            "g (float[3,4] x) => (float[1,1,4] y) <int64 i = {2}, int64[2] axes = {0, 1}>
             { a = Gather(x, i) y = Unsqueeze(a, axes) }",
        );
        check_skip(
            merge_gathers,
            "`a` is read 2 times",
            "g (float[3,4] x) => (float[1,4] y, float[4] a) <int64 i = {2}, int64[1] axes = {0}>
             { a = Gather(x, i) y = Unsqueeze(a, axes) }",
        );
    }
}
