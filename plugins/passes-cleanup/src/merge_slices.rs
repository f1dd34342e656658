//! Makes one Slice of two along different axes.
//!
//! ```onnx
//! before (float[6,8] x) => (float[2,3] y)
//! <int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3}, int64[1] five = {5}>
//! {
//!   a = Slice(x, one, three, zero)
//!   y = Slice(a, two, five, one)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[6,8] x) => (float[2,3] y)
//! <int64[2] y_starts = {1, 2}, int64[2] y_ends = {3, 5}, int64[2] y_axes = {0, 1}>
//! {
//!   y = Slice(x, y_starts, y_ends, y_axes)
//! }
//! ```

use onnxd_plugin_sdk::ir::{Facts, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_slices(cx: &mut Rewriter, id: NodeId, _: &Facts) -> Rewrite {
    let Some(outer) = Slices::read(cx, id)? else { return Skip::unlike() };
    let inner = cx.graph.producer(outer.data).map(|inner| Slices::read(cx, inner)).transpose();
    let Some(Some(inner)) = inner? else { return Skip::unlike() };
    cx.read_once(outer.data)?;
    if outer.axes.iter().any(|axis| inner.axes.contains(axis)) {
        return Skip::because("both cut the same axis");
    }
    let both = |f: fn(&Slices) -> &Vec<i64>| [&f(&inner)[..], &f(&outer)[..]].concat();
    let (starts, ends) = (both(|s| &s.starts), both(|s| &s.ends));
    let (axes, steps) = (both(|s| &s.axes), both(|s| &s.steps));
    let out = cx.graph[id].output(0).map_or_else(Skip::unlike, Ok)?;
    cx.rebuild(out, |b| {
        let call = b.slice(b.var(inner.data), starts, ends).axes(axes);
        if steps.iter().all(|step| *step == 1) { call.one() } else { call.steps(steps).one() }
    })
}

/// A Slice whose bounds are known.
struct Slices {
    data: ValueId,
    starts: Vec<i64>,
    ends: Vec<i64>,
    axes: Vec<i64>,
    steps: Vec<i64>,
}

impl Slices {
    /// `None` if the node is no Slice.
    fn read(cx: &Rewriter, id: NodeId) -> Result<Option<Slices>, Skip> {
        let node = &cx.graph[id];
        let Some(data) = node.input(0).filter(|_| node.is("Slice")) else { return Ok(None) };
        let list = |name, input| cx.integers_of(id, name, input);
        let (Some(starts), Some(ends)) = (list("starts", 1)?, list("ends", 2)?) else {
            return Skip::unlike();
        };
        let rank = cx.rank(data)? as i64;
        let all = || (0..starts.len() as i64).collect();
        let axes: Vec<i64> = list("axes", 3)?.unwrap_or_else(all);
        let axes = axes.into_iter().map(|axis| if axis < 0 { axis + rank } else { axis }).collect();
        let steps = list("steps", 4)?.unwrap_or_else(|| vec![1; starts.len()]);
        Ok(Some(Slices { data, starts, ends, axes, steps }))
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
        rule_on_facts("merge-slices", merge_slices)
    }

    const BOUNDS: &str = "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] last = {-1},
        int64[1] three = {3}, int64[1] two = {2}>";

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("merge_slices.rs"), pass().as_ref());
    }

    #[test]
    fn axes_from_the_end_and_steps() {
        let graph = format!(
            "g (float[6,8] x) => (float[3,1] y) {BOUNDS}
             {{ a = Slice(x, zero, last, zero, two) y = Slice(a, two, three, last) }}"
        );
        assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 1);
    }

    #[test]
    fn left_alone() {
        let skips = |reason: &str, outputs: &str, nodes: &str| {
            let graph = format!("g (float[6,8] x) => ({outputs}) {BOUNDS} {{ {nodes} }}");
            check_pass_skip(pass().as_ref(), reason, &graph);
        };
        skips(
            "both cut the same axis", "float[2,8] y",
            "a = Slice(x, one, last, zero) y = Slice(a, one, three)",
        );
        skips(
            "`a` is read 2 times",
            "float[5,2] y, float[5,8] z",
            "a = Slice(x, zero, last, zero) z = Identity(a) y = Slice(a, one, three, one)",
        );
    }
}
