//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Einsum(Inputs...) -> Output`, <https://onnx.ai/onnx/operators/onnx__Einsum.html>
    call einsum = Einsum(; ..inputs) {
        equation: "equation",
    }
}
