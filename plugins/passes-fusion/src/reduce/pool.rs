//! Turns the mean along all spatial axes into GlobalAveragePool.
//!
//! ONNX Runtime computes ReduceMean faster, so the pass runs on demand only.
//!
//! ```onnx
//! before (float[1,2,3,3] x) => (float[1,2,1,1] y)
//! {
//!   y = ReduceMean<axes = [2, 3]>(x)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,2,3,3] x) => (float[1,2,1,1] y)
//! {
//!   y = GlobalAveragePool(x)
//! }
//! ```

use crate::parts::{PatternNodes, dims, of_type};
use onnxd_plugin_sdk::ir::ops::{GlobalAveragePool, ReduceMean};
use onnxd_plugin_sdk::ir::{At, DataType, Dim};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_global_pool(cx: &mut Rewriter, mean: At<ReduceMean>) -> Rewrite {
    let mean = (mean.out, PatternNodes::from_root(cx, mean.out).reduction("ReduceMean", mean.out)?);
    let (out, mean) = mean;
    if mean.rank < 3 || !mean.axes.iter().copied().eq(2..mean.rank) || !mean.keepdims {
        return Skip::unlike();
    }
    // What runtimes have on processors.
    of_type(cx, mean.data, &[DataType::Float, DataType::Float16])?;
    // The mean of nothing is no number, and no pool.
    let size = |d: &Dim| d.known().is_some_and(|n| n > 0);
    if !dims(cx, mean.data)?[2..].iter().all(size) {
        return Skip::because(format!("the sizes of {} are not known", cx.name(mean.data)));
    }
    cx.replace(out, GlobalAveragePool::new(mean.data))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("pool.rs"), fuse_global_pool);
    }

    #[test]
    fn declined() {
        let graph =
            "g (float[1,2,3,3] x) => (float[?,?,?,?] y) { y = ReduceMean<axes = [-1, 2]>(x) }";
        let check = |text: &str, why| check_skip(fuse_global_pool, why, text);
        check(&graph.replace("[-1, 2]", "[1, 2, 3]"), "");
        check(&graph.replace("[-1, 2]", "[3]"), "");
        check(&graph.replace("float", "double"), "`x` is of type double");
        check(&graph.replace("[1,2,3,3]", "[1,2,H,3]"), "the sizes of `x` are not known");
    }
}
