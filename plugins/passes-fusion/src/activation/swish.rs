//! Makes Swish of its parts.
//!
//! ONNX Runtime has no kernel of Swish and a fast one for the parts, so the pass runs on demand only.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 24]>
//! before (float[2,3] x) => (float[2,3] y)
//! <float slope = {1.5}>
//! {
//!   z = Mul(x, slope)
//!   s = Sigmoid(z)
//!   y = Mul(x, s)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 24]>
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = Swish<alpha = 1.5>(x)
//! }
//! ```

use crate::parts::{FLOATS, needs, of_type};
use crate::pattern::Pattern;
use onnxd_plugin_sdk::ir::At;
use onnxd_plugin_sdk::ir::ops::Mul;
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter};

pub(crate) static SWISH: Pattern = Pattern::new("x * Sigmoid({alpha} * x)");

pub(crate) fn fuse_swish(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let found = SWISH.at(cx, mul.out)?;
    let (x, alpha) = (found.value("x"), found.number("alpha"));
    needs(cx, "Swish", 24)?;
    of_type(cx, x, FLOATS)?;
    cx.rebuild(mul.out, |b| b.swish(x).alpha(alpha).one())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("swish.rs"), fuse_swish);
    }

    #[test]
    fn declined() {
        let graph = "<ir_version: 8, opset_import: [\"\" : 24]>
             g (float[2] x, float[2] z) => (float[2] y) { s = Sigmoid(x) y = Mul(s, x) }";
        check_skip(
            fuse_swish,
            "opset 23 has no Swish, which came with 24",
            &graph.replace("24", "23"),
        );
        let shared = graph.replace("(float[2] y)", "(float[2] y, float[2] s)");
        check_skip(fuse_swish, "`s` is read elsewhere, too", &shared);
        check_skip(fuse_swish, "", &graph.replace("(s, x)", "(s, z)"));
    }
}
