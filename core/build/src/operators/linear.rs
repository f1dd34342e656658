//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Gemm(A, B, C?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Gemm.html>
    call gemm = Gemm(a: "A", b: "B") {
        c: "C",
        alpha: "alpha",
        beta: "beta",
        trans_a: "transA",
        trans_b: "transB",
    }
    /// `MatMul(A, B) -> Y`, <https://onnx.ai/onnx/operators/onnx__MatMul.html>
    direct mat_mul = MatMul(a: "A", b: "B")
    /// `MatMulInteger(A, B, a_zero_point?, b_zero_point?) -> Y`, <https://onnx.ai/onnx/operators/onnx__MatMulInteger.html>
    call mat_mul_integer = MatMulInteger(a: "A", b: "B") {
        a_zero_point: "a_zero_point",
        b_zero_point: "b_zero_point",
    }
    /// `QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point) -> y`, <https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html>
    direct q_linear_mat_mul = QLinearMatMul(
        a: "a",
        a_scale: "a_scale",
        a_zero_point: "a_zero_point",
        b: "b",
        b_scale: "b_scale",
        b_zero_point: "b_zero_point",
        y_scale: "y_scale",
        y_zero_point: "y_zero_point"
    )
}
