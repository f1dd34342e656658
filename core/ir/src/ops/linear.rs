//! Matrix products.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Gemm.html>
    #[allow(non_snake_case)]
    Gemm(a, b; c) { alpha: f32 = 1.0, beta: f32 = 1.0, transA: i64 = 0, transB: i64 = 0 }
    /// <https://onnx.ai/onnx/operators/onnx__MatMul.html>
    MatMul(a, b) {}
    /// <https://onnx.ai/onnx/operators/onnx__MatMulInteger.html>
    MatMulInteger(a, b; a_zero_point, b_zero_point) {}
    /// <https://onnx.ai/onnx/operators/onnx__Einsum.html>
    Einsum(; ..inputs) [equation: String] {}
}
