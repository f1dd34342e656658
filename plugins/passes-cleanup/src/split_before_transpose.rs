//! Splits an axis before a Transpose instead of behind it, in the Reshape that is there.
//!
//! ```onnx
//! before (float[7,N,6] x) => (float[N,2,7,3] y)
//! <int64[3] merged = {7, -1, 3}, int64[4] split = {-1, 2, 7, 3}>
//! {
//!   a = Reshape(x, merged)
//!   b = Transpose<perm = [1, 0, 2]>(a)
//!   y = Reshape(b, split)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[7,N,6] x) => (float[N,2,7,3] y)
//! <int64[4] y_shape = {7, 0, 2, 3}>
//! {
//!   y_reshape = Reshape(x, y_shape)
//!   y = Transpose<perm = [1, 2, 0, 3]>(y_reshape)
//! }
//! ```
//!
//! So do `Squeeze` and `Unsqueeze`, which split an axis of size 1 into none, or one into itself and such an axis.

use crate::reshape_sizes::{asked_sizes, only_reshapes};
use onnxd_plugin_sdk::ir::ops::Transpose;
use onnxd_plugin_sdk::ir::{Dim, Facts, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};
use std::ops::Range;

/// For node `id`, which gives `between` another shape.
pub(crate) fn split_before_transpose(
    cx: &mut Rewriter,
    id: NodeId,
    between: ValueId,
    facts: &Facts,
) -> Rewrite {
    let (Ok(transpose), Some(out)) = (cx.producer::<Transpose>(between), cx.graph[id].output(0))
    else {
        return Skip::unlike();
    };
    let Some(data) = given_a_shape(cx, transpose.data) else { return Skip::unlike() };
    let shapes = (facts.shape(data), facts.shape(between), facts.shape(out));
    let (Some(from), Some(before), Some(after)) = shapes else { return Skip::unlike() };
    let Some(groups) = split(before, after) else { return Skip::unlike() };
    cx.read_once(between)?;
    cx.read_once(transpose.data)?;
    let perm = match transpose.perm.is_empty() {
        true => (0..groups.len()).rev().collect(),
        false => transpose.perm.iter().map(|axis| *axis as usize).collect::<Vec<_>>(),
    };
    // The axes of `out` in the order that they have in front of the Transpose.
    let mut places: Vec<usize> = (0..perm.len()).collect();
    places.sort_by_key(|place| perm[*place]);
    let order: Vec<usize> = places.iter().flat_map(|place| groups[*place].clone()).collect();
    let dims: Vec<Dim> = order.iter().map(|axis| after[*axis].clone()).collect();
    let Some(sizes) = asked_sizes(from, &dims, None) else {
        return Skip::because(format!("more than one size in front of {} is open", cx.name(out)));
    };
    let mut perm: Vec<i64> = (0..order.len() as i64).collect();
    perm.sort_by_key(|place| order[*place as usize]);
    cx.rebuild(out, |b| {
        let reshaped = b.reshape(b.var(data), sizes).one()?;
        match perm.is_sorted() {
            true => Ok(reshaped),
            false => b.transpose(reshaped).perm(perm).one(),
        }
    })
}

/// What the producer of a value gives another shape, if it does no more.
fn given_a_shape(cx: &Rewriter, v: ValueId) -> Option<ValueId> {
    let node = &cx.graph[cx.graph.producer(v)?];
    node.input(0).filter(|_| only_reshapes(node))
}

/// Which axes of `after` each axis of `before` becomes, if one of them is split and the others stay.
fn split(before: &[Dim], after: &[Dim]) -> Option<Vec<Range<usize>>> {
    // Without elements, sizes may be any.
    if [before, after].into_iter().flatten().any(|dim| *dim == Dim::Known(0)) {
        return None;
    }
    let same = |(a, b): &(&Dim, &Dim)| a.same(b);
    let mut first = before.iter().zip(after).take_while(same).count();
    let (rest, rest_after) = (&before[first..], &after[first..]);
    let mut last = rest.iter().rev().zip(rest_after.iter().rev()).take_while(same).count();
    let units = |range: Range<usize>| after[range].iter().all(|dim| *dim == Dim::Known(1));
    let behind = |last: usize| after.len() - last;
    match before.len() - first - last {
        0 if first == behind(last) || !units(first..behind(last)) => return None,
        // Axes of size 1 that come in between go with one of their neighbours.
        0 if last > 0 => last -= 1,
        0 => first = first.checked_sub(1)?,
        1 if first == behind(last) && before[first] != Dim::Known(1) => return None,
        1 => {}
        _ => return None,
    }
    let one = |axis: usize| axis..axis + 1;
    let front = (0..first).map(one);
    Some(
        front
            .chain(std::iter::once(first..behind(last)))
            .chain((behind(last)..after.len()).map(one))
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use crate::merge_reshapes::merge_reshapes;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };
    use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};

    fn pass() -> Box<dyn Pass> {
        rule_on_facts("merge-reshapes", merge_reshapes)
    }

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("split_before_transpose.rs"), pass().as_ref());
    }

    const SHAPES: &str =
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] three = {3}, int64[3] heads = {5, 2, 3},
        int64[4] front = {1, 2, 5, 3}, int64[4] back = {2, 5, 3, 1}, int64[3] open = {-1, 2, 3},
        int64[4] split = {2, -1, 5, 3}, int64[5] thirds = {5, 4, 1, 3, 2},
        int64[3] other = {10, 3, 1}>";

    /// How many nodes are left of a graph from `input` to `output`.
    fn left(input: &str, output: &str, nodes: &str) -> usize {
        let graph = format!("g (float[{input}] x) => (float[{output}] y) {SHAPES} {{ {nodes} }}");
        check_pass_same(pass().as_ref(), &graph).graph.node_count()
    }

    #[test]
    fn axes_of_size_1_come_in() {
        let to = |shape: &str| {
            format!(
                "a = Reshape(x, heads) b = Transpose<perm = [1, 0, 2]>(a) y = Reshape(b, {shape})"
            )
        };
        assert_eq!(left("5,1,6", "1,2,5,3", &to("front")), 2);
        assert_eq!(left("5,1,6", "2,5,3,1", &to("back")), 2);
        let nodes =
            "a = Unsqueeze(x, zero) b = Transpose<perm = [1, 2, 0]>(a) y = Unsqueeze(b, one)";
        assert_eq!(left("5,4", "5,1,4,1", nodes), 1);
    }

    #[test]
    fn an_axis_of_size_1_goes() {
        let nodes = "a = Reshape(x, thirds) b = Transpose<perm = [3, 1, 0, 2, 4]>(a)
                     y = Squeeze(b, three)";
        assert_eq!(left("5,4,6", "3,4,5,2", nodes), 2);
    }

    #[test]
    fn a_transpose_without_an_order() {
        let nodes = "a = Reshape(x, heads) b = Transpose(a) y = Unsqueeze(b, one)";
        assert_eq!(left("5,6", "3,1,2,5", nodes), 2);
    }

    #[test]
    fn left_alone() {
        let skips = |reason: &str, input: &str, output: &str, nodes: &str| {
            let graph =
                format!("g (float[{input}] x) => (float[{output}] y) {SHAPES} {{ {nodes} }}");
            check_pass_skip(pass().as_ref(), reason, &graph);
        };
        let before = "a = Reshape(x, heads) b = Transpose<perm = [1, 0, 2]>(a)";
        // Two axes become one.
        skips("", "5,1,6", "10,3,1", &format!("{before} y = Reshape(b, other)"));
        skips(
            "`b` is read 2 times",
            "5,1,6",
            "1,2,5,3",
            &format!("{before} c = Reshape(b, front) d = Neg(b) y = Add(c, d)"),
        );
        skips(
            "`a` is read 2 times",
            "5,1,6",
            "1,2,5,3",
            &format!("{before} c = Reshape(b, front) d = ReduceMax<keepdims = 0>(a) y = Add(c, d)"),
        );
    }

    #[test]
    fn a_size_stays_open() {
        let nodes = "a = Reshape(x, open) b = Transpose<perm = [1, 0, 2]>(a) y = Reshape(b, split)";
        assert_eq!(left("N,30", "2,N,5,3", nodes), 2);
    }
}
