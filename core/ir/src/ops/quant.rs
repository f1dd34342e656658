//! Quantization.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>
    QuantizeLinear(x, y_scale; y_zero_point) {
        axis: i64 = 1,
        block_size: i64 = 0,
        output_dtype: i64 = 0,
        precision: i64 = 0,
        saturate: i64 = 1,
    }
    /// <https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html>
    DequantizeLinear(x, x_scale; x_zero_point) { axis: i64 = 1, block_size: i64 = 0, output_dtype: i64 = 0 }
}
