//! Makes one Reshape of two operators that keep the order of elements in memory, or none: Reshape, Flatten, Squeeze,
//! Unsqueeze, and a Transpose that moves axes of size 1 only.
//!
//! ```onnx
//! before (float[N,4,6] x) => (float[N,1,24] y)
//! <int64[3] to = {0, 0, -1}, int64[1] front = {1}>
//! {
//!   a = Flatten(x)
//!   b = Unsqueeze(a, front)
//!   y = Relu(b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,4,6] x) => (float[N,1,24] y)
//! <int64[3] b_shape = {0, 1, 24}>
//! {
//!   b = Reshape(x, b_shape)
//!   y = Relu(b)
//! }
//! ```

use crate::reshape_sizes::{asked_sizes, only_reshapes};
use crate::split_before_transpose::split_before_transpose;
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, Dim, Facts, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_reshapes(cx: &mut Rewriter, id: NodeId, facts: &Facts) -> Rewrite {
    let Some(between) = reshaped(cx, id, facts) else { return Skip::unlike() };
    let Some(first) = cx.graph.producer(between) else { return Skip::unlike() };
    let Some(data) = reshaped(cx, first, facts) else {
        return split_before_transpose(cx, id, between, facts);
    };
    let Some(out) = cx.graph[id].output(0) else { return Skip::unlike() };
    if same_shape(facts, data, out) {
        return cx.bypass(out, data);
    }
    cx.read_once(between)?;
    if cx.graph[id].is("Transpose") && cx.graph[first].is("Transpose") {
        return Skip::unlike();
    }
    if let Some(reshape) = At::<Reshape>::find(cx.graph, id)
        && means_the_same(cx, facts, &reshape, data)
    {
        return cx.replace(out, Reshape { data, ..reshape.op });
    }
    if let Some(sizes) = sizes(cx, id, facts, data, out) {
        return cx.rebuild(out, |b| b.reshape(b.var(data), sizes).one());
    }
    let axes = merged_axes(cx, first, id, data, out)?;
    let squeezes = cx.graph[id].is("Squeeze");
    cx.rebuild(out, |b| match squeezes {
        true => b.squeeze(b.var(data)).axes(axes).one(),
        false => b.unsqueeze(b.var(data), axes),
    })
}

/// What the node gives another shape, if it does no more.
fn reshaped(cx: &Rewriter, id: NodeId, facts: &Facts) -> Option<ValueId> {
    let node = &cx.graph[id];
    let data = node.input(0)?;
    if node.is("Transpose") {
        let perm = cx.integers_of(id, "perm", usize::MAX).ok()??;
        let shape = facts.shape(data)?;
        let long = |axis: &&i64| shape.get(**axis as usize) != Some(&Dim::Known(1));
        return perm.iter().filter(long).is_sorted().then_some(data);
    }
    only_reshapes(node).then_some(data)
}

fn same_shape(facts: &Facts, a: ValueId, b: ValueId) -> bool {
    facts
        .shape(a)
        .zip(facts.shape(b))
        .is_some_and(|(a, b)| a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.same(b)))
}

/// Whether the shape that `reshape` asks for is the same for `data`: a 0 copies a size, and what a graph computes may
/// be 0.
fn means_the_same(cx: &Rewriter, facts: &Facts, reshape: &At<Reshape>, data: ValueId) -> bool {
    if reshape.allowzero != 0 {
        return true;
    }
    let known = cx.integers(reshape.shape).map(|all| all.into_iter().map(Dim::Known).collect());
    let computed = || facts.elements(reshape.shape).map(|(_, all)| all.to_vec());
    let Some(asked) = known.ok().or_else(computed) else { return false };
    let size = |v: ValueId, axis: usize| facts.shape(v).and_then(|shape| shape.get(axis));
    asked.iter().enumerate().all(|(axis, dim)| {
        let copied = size(reshape.data, axis).zip(size(data, axis)).is_some_and(|(a, b)| a.same(b));
        copied || !matches!(dim, Dim::Known(0) | Dim::Symbol(_) | Dim::Unknown)
    })
}

/// The shape of `out` for a Reshape of `data`. With -1, sizes of 0 stay if node `id` has the -1 at the same place.
fn sizes(
    cx: &Rewriter,
    id: NodeId,
    facts: &Facts,
    data: ValueId,
    out: ValueId,
) -> Option<Vec<i64>> {
    let asked = cx.integers_of(id, "shape", 1).ok().flatten().unwrap_or_default();
    let open = asked.iter().position(|size| *size == -1).filter(|_| cx.graph[id].is("Reshape"));
    asked_sizes(facts.shape(data)?, facts.shape(out)?, open)
}

/// The axes of one Squeeze or Unsqueeze for two.
fn merged_axes(
    cx: &Rewriter,
    first: NodeId,
    then: NodeId,
    data: ValueId,
    out: ValueId,
) -> Result<Vec<i64>, Skip> {
    let op = &cx.graph[then].op;
    if cx.graph[first].op != *op || !matches!(op.as_str(), "Squeeze" | "Unsqueeze") {
        return Skip::because(format!("more than one size of {} is open", cx.name(out)));
    }
    // Axes of the longer shape, and axes of what is left of it without them.
    let (outer, inner, rank) = match op.as_str() {
        "Squeeze" => (first, then, cx.rank(data)?),
        _ => (then, first, cx.rank(out)?),
    };
    let axes = |id, rank: usize| -> Result<Vec<usize>, Skip> {
        let axes = cx.integers_of(id, "axes", 1)?.map_or_else(Skip::unlike, Ok)?;
        Ok(axes.iter().map(|axis| axis.rem_euclid(rank.max(1) as i64) as usize).collect())
    };
    let outer = axes(outer, rank)?;
    let left: Vec<usize> = (0..rank).filter(|axis| !outer.contains(axis)).collect();
    let inner = axes(inner, left.len())?;
    let inner = inner.iter().filter_map(|i| left.get(*i));
    let mut all: Vec<i64> = outer.iter().chain(inner).map(|axis| *axis as i64).collect();
    all.sort_unstable();
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };
    use onnxd_plugin_sdk::rewrite::{Pass, rule_on_facts};

    fn pass() -> Box<dyn Pass> {
        rule_on_facts("merge-reshapes", merge_reshapes)
    }

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("merge_reshapes.rs"), pass().as_ref());
    }

    const SHAPES: &str =
        "<int64[1] zero = {0}, int64[1] one = {1}, int64[1] two = {2}, int64[1] three = {3},
        int64[2] flat = {-1, 4}, int64[3] back = {-1, 3, 4}, int64[4] four = {-1, 3, 2, 2}>";

    fn merged(input: &str, output: &str, nodes: &str, left: &str) {
        let graph = format!("g (float[{input}] x) => (float[{output}] y) {SHAPES} {{ {nodes} }}");
        let model = check_pass_same(pass().as_ref(), &graph);
        let mut ops: Vec<&str> = model.graph.nodes().map(|(_, n)| n.op.as_str()).collect();
        ops.sort_unstable();
        assert_eq!(ops.join(" "), left, "{nodes}");
    }

    #[test]
    fn two_become_one() {
        merged("N,3,4", "N,3,2,2", "a = Reshape(x, flat) y = Reshape(a, four)", "Reshape");
        merged("N,3,4", "M,4", "a = Flatten(x) y = Reshape(a, flat)", "Reshape");
        merged("N,M", "N,1,M,1", "a = Unsqueeze(x, one) y = Unsqueeze(a, three)", "Unsqueeze");
        merged("N,1,M,1", "N,M", "a = Squeeze(x, one) y = Squeeze(a, two)", "Squeeze");
        merged("1,N,3,4", "N,12", "a = Squeeze(x, zero) y = Flatten(a)", "Reshape");
    }

    #[test]
    fn two_that_cancel() {
        merged("N,M", "N,M", "a = Unsqueeze(x, one) b = Squeeze(a, one) y = Relu(b)", "Relu");
        merged("N,3,4", "N,3,4", "a = Reshape(x, flat) b = Reshape(a, back) y = Relu(b)", "Relu");
    }

    #[test]
    fn a_transpose_of_axes_of_size_1() {
        let nodes = "a = Unsqueeze(x, zero) b = Transpose<perm = [1, 0, 2]>(a) y = Relu(b)";
        merged("5,4", "5,1,4", nodes, "Relu Reshape");
        let nodes = "a = Unsqueeze(x, zero) b = Transpose<perm = [0, 2, 1]>(a) y = Relu(b)";
        let graph = format!("g (float[5,4] x) => (float[1,4,5] y) {SHAPES} {{ {nodes} }}");
        check_pass_skip(pass().as_ref(), "", &graph);
    }

    #[test]
    fn left_alone() {
        let skips = |reason: &str, inputs: &str, outputs: &str, nodes: &str| {
            let graph = format!("g ({inputs}) => ({outputs}) {SHAPES} {{ {nodes} }}");
            check_pass_skip(pass().as_ref(), reason, &graph);
        };
        skips(
            "`a` is read 2 times", "float[N,3,4] x", "float[A,3,2,2] y, float[A,B] z",
            "a = Flatten(x) y = Reshape(a, four) z = Relu(a)",
        );
        // With -1 for one size, a batch of 0 would be refused.
        skips(
            "more than one size of `y` is open", "float[N,1,M] x", "float[1,N,M] y",
            "a = Squeeze(x, one) y = Unsqueeze(a, zero)",
        );
        // What is 0 in the shape copies another size of `a` than of `x`.
        skips(
            "more than one size of `y` is open", "float[N,M,4] x, int64[2] s", "float[A,B] y",
            "a = Reshape(x, flat) y = Reshape(a, s)",
        );
    }
}
