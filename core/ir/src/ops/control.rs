//! Control flow.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Constant.html> (a tensor; other forms stay generic)
    Constant() [value: crate::Tensor] {}
}
