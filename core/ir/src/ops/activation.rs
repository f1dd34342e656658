//! Activations.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Relu.html>
    Relu(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__LeakyRelu.html>
    LeakyRelu(x) { alpha: f32 = 0.01 }
    /// <https://onnx.ai/onnx/operators/onnx__Clip.html> (inputs since opset 11)
    Clip(input; min, max) {}
    /// <https://onnx.ai/onnx/operators/onnx__Sigmoid.html>
    Sigmoid(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Tanh.html>
    Tanh(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Softplus.html>
    Softplus(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Softmax.html> (axis defaults to 1 before opset 13)
    Softmax(input) { axis: Option<i64> = None }
}
