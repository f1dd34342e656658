//! `Expand`: one to the shape that its input has goes, and sizes that the input has become 1.

use super::{computed, set_sizes};
use onnxd_plugin_sdk::ir::ops::Expand;
use onnxd_plugin_sdk::ir::{At, Dim, Facts, NodeId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// The input already has the shape of the result.
pub(super) fn identity(cx: &mut Rewriter, facts: &Facts, id: NodeId) -> Rewrite {
    let Some(at) = At::<Expand>::find(cx.graph, id) else { return Skip::unlike() };
    let (Some(from), Some(to)) = (facts.shape(at.input), facts.shape(at.out)) else {
        return Skip::unlike();
    };
    if from.len() != to.len() || !from.iter().zip(to).all(|(a, b)| a.same(b)) {
        return Skip::unlike();
    }
    cx.bypass(at.out, at.input)
}

/// A shape that says what the input does not.
pub(super) fn target(cx: &mut Rewriter, facts: &Facts, id: NodeId) -> Rewrite {
    let Some(at) = At::<Expand>::find(cx.graph, id) else { return Skip::unlike() };
    if cx.graph.constant(at.shape).is_some() {
        return Skip::unlike();
    }
    let (Some(from), Some(to)) = (facts.shape(at.input), computed(cx, facts, at.shape)) else {
        return Skip::because("nothing is known of the shape");
    };
    let size = |(i, size): (usize, &Dim)| match size {
        Dim::Known(n) => Some(*n),
        size => {
            let own = (i + from.len()).checked_sub(to.len())?;
            from[own].same(size).then_some(1)
        }
    };
    match to.iter().enumerate().map(size).collect::<Option<Vec<i64>>>() {
        Some(sizes) => {
            set_sizes(cx, id, 1, at.shape, sizes);
            Ok(())
        }
        None => Skip::because("a size is not known and not that of the input"),
    }
}

/// Operators whose inputs broadcast to the shape of the result.
const BROADCASTS: &str = "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater \
    GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor";

/// All readers give the shape that `Expand` does, without it.
pub(super) fn before_broadcast(cx: &mut Rewriter, facts: &Facts, id: NodeId) -> Rewrite {
    let Some(at) = At::<Expand>::find(cx.graph, id) else { return Skip::unlike() };
    if cx.graph.is_output(at.out) {
        return Skip::because("it computes a graph output");
    }
    let (Some(from), Some(to)) = (facts.shape(at.input), facts.shape(at.out)) else {
        return Skip::because("nothing is known of the shape");
    };
    for reader in cx.graph.readers(at.out) {
        let node = &cx.graph[*reader];
        if !node.is_standard() || !BROADCASTS.split(' ').any(|op| op == node.op) {
            return Skip::because(format!("it is read by {}", node.op));
        }
        let others = node.inputs.iter().flatten().filter(|v| **v != at.out);
        let others: Vec<&[Dim]> = others.filter_map(|v| facts.shape(*v)).collect();
        if let Some(axis) = (1..=to.len()).find(|i| !is_given(*i, from, to, &others)) {
            let axis = to.len() - axis;
            return Skip::because(format!("size {axis} of the result of {} is its own", node.op));
        }
    }
    cx.bypass(at.out, at.input)
}

/// Whether size `i` of `to`, from the back, is that of `from` or of another operand.
fn is_given(i: usize, from: &[Dim], to: &[Dim], others: &[&[Dim]]) -> bool {
    let size = |shape: &[Dim]| shape.len().checked_sub(i).map(|at| shape[at].clone());
    let own = &to[to.len() - i];
    size(from).into_iter().chain(others.iter().filter_map(|s| size(s))).any(|d| d.same(own))
}
