//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `DequantizeLinear(x, x_scale, x_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html>
    call dequantize_linear = DequantizeLinear(x: "x", x_scale: "x_scale") {
        x_zero_point: "x_zero_point",
        axis: "axis",
        block_size: "block_size",
        output_dtype: "output_dtype",
    }
    /// `DynamicQuantizeLinear(x) -> y, y_scale, y_zero_point`, <https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html>
    call dynamic_quantize_linear = DynamicQuantizeLinear(x: "x")
    /// `QuantizeLinear(x, y_scale, y_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>
    call quantize_linear = QuantizeLinear(x: "x", y_scale: "y_scale") {
        y_zero_point: "y_zero_point",
        axis: "axis",
        block_size: "block_size",
        output_dtype: "output_dtype",
        precision: "precision",
        saturate: "saturate",
    }
}
