//! Removes two negations in a row.
//!
//! ```onnx
//! before (float[2] x) => (float[2] y)
//! {
//!   a = Neg(x)
//!   b = Neg(a)
//!   y = Relu(b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2] x) => (float[2] y)
//! {
//!   y = Relu(x)
//! }
//! ```

use onnxd_plugin_sdk::ir::At;
use onnxd_plugin_sdk::ir::ops::Neg;
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter};

pub(crate) fn remove_double_neg(cx: &mut Rewriter, outer: At<Neg>) -> Rewrite {
    let inner = cx.producer::<Neg>(outer.x)?;
    cx.bypass(outer.out, inner.x)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("remove_double_neg.rs"), remove_double_neg);
    }

    #[test]
    fn one_negation_stays() {
        check_skip(
            remove_double_neg,
            "`x` is not produced by Neg",
            "g (float[2] x) => (float[2] y)
             {
               y = Neg(x)
             }",
        );
    }
}
