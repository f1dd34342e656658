//! Makes Mish of its parts.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 18]>
//! before (float[2,3] x) => (float[2,3] y)
//! {
//!   s = Softplus(x)
//!   t = Tanh(s)
//!   y = Mul(x, t)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 18]>
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = Mish(x)
//! }
//! ```

use crate::parts::{needs, of_type};
use crate::pattern::Pattern;
use onnxd_plugin_sdk::ir::ops::Mul;
use onnxd_plugin_sdk::ir::{At, DataType};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter};

static MISH: Pattern = Pattern::new("x * Tanh(Softplus(x))");

pub(crate) fn fuse_mish(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let x = MISH.at(cx, mul.out)?.value("x");
    needs(cx, "Mish", 18)?;
    // Runtimes have kernels of Softplus for these types only.
    of_type(cx, x, &[DataType::Float, DataType::Float16])?;
    cx.rebuild(mul.out, |b| b.mish(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("mish.rs"), fuse_mish);
    }

    #[test]
    fn declined() {
        let graph = "g (float[2] x, float[2] z) => (float[2] y) { s = Softplus(x) t = Tanh(s) y = Mul(t, x) }";
        check_skip(fuse_mish, "opset 17 has no Mish, which came with 18", graph);
        let shared = graph.replace("(float[2] y)", "(float[2] y, float[2] t)");
        check_skip(fuse_mish, "`t` is read elsewhere, too", &shared);
        check_skip(fuse_mish, "", &graph.replace("(t, x)", "(t, z)"));
    }
}
