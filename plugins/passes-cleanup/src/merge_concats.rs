//! Makes one Concat of two along the same axis. A Concat that several read goes if all of them join it further.
//! A Concat of all parts of a Split is what was split.
//!
//! ```onnx
//! before (float[2,3] x, float[2,1] z) => (float[2,7] y)
//! <int64[2] sizes = {1, 2}>
//! {
//!   a, b = Split<axis = 1>(x, sizes)
//!   c = Concat<axis = 1>(a, b)
//!   d = Concat<axis = 1>(x, z)
//!   y = Concat<axis = 1>(c, d)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x, float[2,1] z) => (float[2,7] y)
//! {
//!   y = Concat<axis = 1>(x, x, z)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::Concat;
use onnxd_plugin_sdk::ir::{At, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Operands of one Concat. Runtimes look at all of them, and a chain of thousands is merged step by step.
const OPERANDS_MAX: usize = 256;
/// The same where several read what was joined.
const SHARED_OPERANDS_MAX: usize = 16;
/// How many may read what was joined.
const READERS_MAX: usize = 8;

pub(crate) fn merge_concats(cx: &mut Rewriter, outer: At<Concat>) -> Rewrite {
    if let Some(whole) = split(cx, &outer) {
        return cx.bypass(outer.out, whole);
    }
    let mut merged = false;
    let mut operands: Vec<ValueId> = Vec::with_capacity(outer.inputs.len());
    for v in &outer.inputs {
        match cx.producer::<Concat>(*v) {
            Ok(inner) if same_axis(cx, inner.axis, outer.axis, *v) && only_joined(cx, &inner) => {
                merged = true;
                operands.extend(&inner.inputs);
            }
            _ => operands.push(*v),
        }
    }
    if !merged {
        return Skip::unlike();
    }
    if operands.len() > OPERANDS_MAX {
        return Skip::because(format!("it would have {} operands", operands.len()));
    }
    cx.replace(outer.out, Concat { inputs: operands, ..outer.op })
}

/// Whether all that read it are Concat along its axis, so that none will.
fn only_joined(cx: &Rewriter, inner: &At<Concat>) -> bool {
    let readers = cx.graph.readers(inner.out);
    let joins = |id: &NodeId| {
        let outer = At::<Concat>::find(cx.graph, *id);
        outer.is_some_and(|outer| {
            let few = outer.inputs.len() + inner.inputs.len() <= SHARED_OPERANDS_MAX;
            same_axis(cx, inner.axis, outer.axis, inner.out)
                && (few || cx.graph.uses(inner.out) == 1)
        })
    };
    !cx.graph.is_output(inner.out) && readers.len() <= READERS_MAX && readers.iter().all(joins)
}

fn same_axis(cx: &Rewriter, a: i64, b: i64, of: ValueId) -> bool {
    let rank = cx.rank(of).map(|rank| rank as i64);
    let front =
        |axis: i64| if axis < 0 { rank.as_ref().ok().map(|r| axis + r) } else { Some(axis) };
    a == b || front(a).zip(front(b)).is_some_and(|(a, b)| a == b)
}

/// What was split into the operands, all of them in their order.
fn split(cx: &Rewriter, concat: &At<Concat>) -> Option<ValueId> {
    let first = *concat.inputs.first()?;
    let node = &cx.graph[cx.graph.producer(first)?];
    let parts = node.outputs.iter().copied();
    let all = node.is("Split") && parts.eq(concat.inputs.iter().map(|v| Some(*v)));
    let whole = node.input(0).filter(|_| all)?;
    same_axis(cx, node.int("axis", 0), concat.axis, first).then_some(whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_concats.rs"), merge_concats);
    }

    #[test]
    fn axes_from_both_ends() {
        let model = check_same(
            merge_concats,
            "g (float[2,3] x) => (float[2,9] y)
             { a = Concat<axis = -1>(x, x) y = Concat<axis = 1>(x, a) }",
        );
        assert_eq!(model.graph.node_count(), 1);
    }

    #[test]
    fn several_readers_that_join() {
        let graph = "g (float[2,2] x) => (float[2,6] y, float[2,6] z)
            { a = Concat<axis = 1>(x, x) y = Concat<axis = -1>(x, a) b = Neg(x) z = Concat<axis = 1>(a, b) }";
        assert_eq!(check_same(merge_concats, graph).graph.node_count(), 3);
    }

    #[test]
    fn other_axes_and_other_readers() {
        check_skip(
            merge_concats,
            "",
            "g (float[2,2] x) => (float[4,4] y, float[4,2] z)
             {
               a = Concat<axis = 0>(x, x)
               y = Concat<axis = 1>(a, a)
               z = Relu(a)
             }",
        );
    }

    #[test]
    fn parts_in_another_order_or_missing() {
        let skips = |operands: &str| {
            let graph = format!(
                "g (float[4] x) => (float[N] y) {{ a, b = Split<axis = 0>(x) y = Concat<axis = 0>({operands}) }}"
            );
            check_skip(merge_concats, "", &graph);
        };
        skips("b, a");
        skips("a");
        skips("a, b, b");
    }
}
