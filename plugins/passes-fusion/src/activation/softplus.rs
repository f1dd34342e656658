//! Makes Softplus of the formula by which the standard defines it. Runtimes compute it so that nothing overflows.
//!
//! ONNX Runtime's kernel takes longer than its parts, so the pass runs on demand only.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,3] y)
//! <float one = {1.0}>
//! {
//!   e = Exp(x)
//!   s = Add(e, one)
//!   y = Log(s)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = Softplus(x)
//! }
//! ```

use crate::parts::of_type;
use crate::pattern::Pattern;
use onnxd_plugin_sdk::ir::ops::Log;
use onnxd_plugin_sdk::ir::{At, DataType};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter};

static SOFTPLUS: Pattern = Pattern::new("Log(1 + Exp(x))");

pub(crate) fn fuse_softplus(cx: &mut Rewriter, log: At<Log>) -> Rewrite {
    let x = SOFTPLUS.at(cx, log.out)?.value("x");
    of_type(cx, x, &[DataType::Float, DataType::Float16])?;
    cx.rebuild(log.out, |b| b.softplus(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("softplus.rs"), fuse_softplus);
    }

    #[test]
    fn declined() {
        let graph = "g (float[2] x) => (float[2] y)
             <float one = {1.0}> { e = Exp(x) s = Add(one, e) y = Log(s) }";
        let shared = graph.replace("(float[2] y)", "(float[2] y, float[2] e)");
        check_skip(fuse_softplus, "`e` is read elsewhere, too", &shared);
        check_skip(fuse_softplus, "", &graph.replace("{1.0}", "{1.5}"));
        check_skip(fuse_softplus, "`x` is of type double", &graph.replace("float", "double"));
    }
}
