//! Elementwise arithmetic.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Add.html>
    Add(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Sub.html>
    Sub(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Mul.html>
    Mul(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Div.html>
    Div(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__Pow.html>
    Pow(x, y) {}
    /// <https://onnx.ai/onnx/operators/onnx__Abs.html>
    Abs(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Neg.html>
    Neg(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Sqrt.html>
    Sqrt(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Log.html>
    Log(input) {}
    /// <https://onnx.ai/onnx/operators/onnx__Floor.html>
    Floor(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__Sum.html>
    Sum(; ..inputs) {}
    /// <https://onnx.ai/onnx/operators/onnx__Max.html>
    Max(; ..inputs) {}
    /// <https://onnx.ai/onnx/operators/onnx__Min.html>
    Min(; ..inputs) {}
}
