//! Comparison and selection.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Greater.html>
    Greater(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Less.html>
    Less(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Where.html>
    Where(condition, x, y) {}
}
