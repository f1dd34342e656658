//! Makes one Pad of two that pad with the same value.
//!
//! ```onnx
//! before (float[1,1,4,4] x) => (float[1,1,6,7] y)
//! <int64[8] high = {0, 0, 1, 0, 0, 0, 1, 0}, int64[8] wide = {0, 0, 0, 1, 0, 0, 0, 2}>
//! {
//!   a = Pad(x, high)
//!   y = Pad(a, wide)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,1,4,4] x) => (float[1,1,6,7] y)
//! <int64[8] wide_merged = {0, 0, 1, 1, 0, 0, 1, 2}>
//! {
//!   y = Pad(x, wide_merged)
//! }
//! ```

use onnxd_plugin_sdk::ir::ops::Pad;
use onnxd_plugin_sdk::ir::{At, Tensor, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn merge_pads(cx: &mut Rewriter, outer: At<Pad>) -> Rewrite {
    let Ok(inner) = cx.producer::<Pad>(outer.data) else { return Skip::unlike() };
    cx.read_once(inner.out)?;
    if inner.mode != "constant" || outer.mode != "constant" {
        return Skip::because("they pad by a mode");
    }
    if value(cx, inner.constant_value)? != value(cx, outer.constant_value)? {
        return Skip::because("they pad with different values");
    }
    let axes = |axes: Option<ValueId>| axes.map(|axes| cx.integers(axes)).transpose();
    if axes(inner.axes)? != axes(outer.axes)? {
        return Skip::because("they pad different axes");
    }
    let (first, then) = (cx.integers(inner.pads)?, cx.integers(outer.pads)?);
    if first.iter().chain(&then).any(|p| *p < 0) {
        return Skip::because("one of them crops");
    }
    let sums = first.iter().zip(&then).map(|(a, b)| a.checked_add(*b));
    let Some(pads) = sums.collect::<Option<Vec<i64>>>().filter(|_| first.len() == then.len())
    else {
        return Skip::unlike();
    };
    let pads = cx.derive(outer.pads, "merged", Tensor::vector(pads));
    cx.replace(outer.out, Pad { data: inner.data, pads, ..outer.op })
}

/// The bytes of what it pads with; `None` for zeros.
fn value(cx: &Rewriter, v: Option<ValueId>) -> Result<Option<Vec<u8>>, Skip> {
    let Some(v) = v else { return Ok(None) };
    let bytes = cx.constant(v)?.bytes().to_vec();
    Ok(Some(bytes).filter(|bytes| bytes.iter().any(|byte| *byte != 0)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("merge_pads.rs"), merge_pads);
    }

    #[test]
    fn zero_may_be_given_or_not() {
        check_same(
            merge_pads,
            "g (float[4] x) => (float[8] y) <int64[2] p = {1, 1}, float zero = {0.0}>
             { a = Pad(x, p, zero) y = Pad(a, p) }",
        );
    }

    #[test]
    fn left_alone() {
        let skips = |reason: &str, nodes: &str| {
            let graph = format!(
                "g (float[4] x) => (float[N] y)
                 <int64[2] p = {{1, 1}}, int64[2] m = {{-1, 0}}, float one = {{1.0}}> {{ {nodes} }}"
            );
            check_skip(merge_pads, reason, &graph);
        };
        skips("they pad with different values", "a = Pad(x, p, one) y = Pad(a, p)");
        skips("they pad by a mode", "a = Pad<mode = \"edge\">(x, p) y = Pad(a, p)");
        skips("one of them crops", "a = Pad(x, m) y = Pad(a, p)");
        skips("`a` is read 2 times", "a = Pad(x, p) b = Pad(a, p) c = ReduceMax(a) y = Add(b, c)");
    }
}
