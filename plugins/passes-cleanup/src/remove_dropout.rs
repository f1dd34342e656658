//! Removes Dropout, which is the identity at inference.
//!
//! ```onnx
//! before (float[2] x) => (float[2] y)
//! {
//!   d = Dropout(x)
//!   y = Relu(d)
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
use onnxd_plugin_sdk::ir::ops::Dropout;
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn remove_dropout(cx: &mut Rewriter, dropout: At<Dropout>) -> Rewrite {
    if let Some(mask) = cx.graph[dropout.node].output(1)
        && cx.graph.uses(mask) > 0
    {
        return Skip::because(format!("its mask {} is used", cx.name(mask)));
    }
    if cx.opset < 7 && dropout.is_test == 0 {
        return Skip::because(format!("in opset {} it is defined for training", cx.opset));
    }
    if let Some(mode) = dropout.training_mode
        && cx.integers(mode)?.iter().any(|on| *on != 0)
    {
        return Skip::because("it is in training mode");
    }
    cx.bypass(dropout.out, dropout.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("remove_dropout.rs"), remove_dropout);
    }

    #[test]
    fn an_output_keeps_its_name() {
        check_same(
            remove_dropout,
            "g (float[2] x) => (float[2] y)
             {
               r = Relu(x)
               y = Dropout(r)
             }",
        );
    }

    #[test]
    fn an_output_is_not_an_input() {
        check_skip(
            remove_dropout,
            "the graph output `y` would be `x` itself",
            "g (float[2] x) => (float[2] y)
             {
               y = Dropout(x)
             }",
        );
    }

    #[test]
    fn training_mode_is_left_alone() {
        check_skip(
            remove_dropout,
            "it is in training mode",
            "g (float[2] x) => (float[2] y)
             <float ratio = {0.5}, bool mode = {1}>
             {
               d = Dropout(x, ratio, mode)
               y = Relu(d)
             }",
        );
    }
}
