//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call gemm = Gemm(a "A", b "B"; c "C") { alpha, beta, trans_a "transA", trans_b "transB" } -> "Y"
    direct mat_mul = MatMul(a "A", b "B") -> "Y"
    call mat_mul_integer = MatMulInteger(a "A", b "B"; a_zero_point, b_zero_point) -> "Y"
    direct q_linear_mat_mul = QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point)
        -> "y"
}
