//! `Reshape` to a computed shape: sizes that its data has at the same place become 0, and one size that
//! follows from the others becomes -1.

use super::{OPSET_MIN, computed, set_sizes};
use onnxd_plugin_sdk::ir::ops::Reshape;
use onnxd_plugin_sdk::ir::{At, Dim, Facts, NodeId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(super) fn target(cx: &mut Rewriter, facts: &Facts, id: NodeId) -> Rewrite {
    let Some(at) = At::<Reshape>::find(cx.graph, id) else { return Skip::unlike() };
    if cx.opset < OPSET_MIN || cx.graph.constant(at.shape).is_some() {
        return Skip::unlike();
    }
    let Some(wanted) = computed(cx, facts, at.shape) else {
        return Skip::because("nothing is known of the shape");
    };
    let (data, result) = (facts.shape(at.data), facts.shape(at.out));
    let (data, result) = (data.unwrap_or_default(), result.unwrap_or_default());
    let sizes = sizes(wanted, data, result, at.allowzero != 0)?;
    cx.graph.node_mut(id).attrs.clear();
    set_sizes(cx, id, 1, at.shape, sizes);
    Ok(())
}

/// What says the same as `wanted` without being computed; `data` and `result` are the shapes as far as known.
fn sizes(wanted: &[Dim], data: &[Dim], result: &[Dim], allowzero: bool) -> Result<Vec<i64>, Skip> {
    if allowzero && wanted.contains(&Dim::Known(0)) {
        return Skip::because("a size is 0");
    }
    // A size that the elements leave open may follow from the result. 0 would stand for that of the data.
    let of_result = |i: usize| result.get(i).filter(|size| **size != Dim::Known(0));
    let kept = |i: usize| match &wanted[i] {
        Dim::Unknown => of_result(i).unwrap_or(&Dim::Unknown),
        size => size,
    };
    let stated = |i: usize, size: &Dim| match (size, data.get(i)) {
        (Dim::Known(n), _) => Some(*n),
        (size, Some(dim)) if size.same(dim) => Some(0),
        _ => None,
    };
    let mut sizes: Vec<Option<i64>> = (0..wanted.len()).map(|i| stated(i, kept(i))).collect();
    let open: Vec<usize> = (0..sizes.len()).filter(|i| sizes[*i].is_none()).collect();
    let [open] = open[..] else {
        let all = sizes.into_iter().collect::<Option<Vec<i64>>>();
        return all.map_or_else(|| Skip::because("several sizes are not known"), Ok);
    };
    // The size that was left to follow may be known, so that the open one can.
    if let Some(i) = sizes.iter().position(|size| *size == Some(-1)) {
        sizes[i] = of_result(i).and_then(|size| stated(i, size));
        if sizes[i].is_none_or(|n| n < 0) {
            return Skip::because("two sizes are not known");
        }
    }
    // What follows does so by a division.
    let positive = |(i, size): (usize, &Option<i64>)| match size {
        Some(0) => data.get(i).is_some_and(Dim::is_positive),
        Some(n) => *n > 0,
        None => true,
    };
    if !sizes.iter().enumerate().all(positive) {
        return Skip::because(format!(
            "size {open} does not follow from the others, if they may be 0"
        ));
    }
    sizes[open] = Some(-1);
    Ok(sizes.into_iter().map(|size| size.expect("only one was open")).collect())
}
