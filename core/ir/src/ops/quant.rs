//! Quantization.

use super::onnx_ops;

/// Whether an operator of the standard or of ONNX Runtime computes with quantized integers, or makes
/// them: a model that uses one is quantized already.
#[must_use]
pub fn is_quantization(op: &str) -> bool {
    const OTHERS: [&str; 13] = [
        "ConvInteger", "DequantizeLinear", "DynamicQuantizeLSTM", "DynamicQuantizeLinear",
        "DynamicQuantizeMatMul", "GatherBlockQuantized", "MatMulInteger", "MatMulIntegerToFloat",
        "MatMulNBits", "QAttention", "QEmbedLayerNormalization", "QGemm", "QuantizeLinear",
    ];
    op.starts_with("QLinear") || OTHERS.contains(&op)
}

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
