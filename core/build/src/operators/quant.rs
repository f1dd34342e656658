//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call dequantize_linear = DequantizeLinear(x, x_scale; x_zero_point) { axis, block_size, output_dtype } -> "y"
    call dynamic_quantize_linear = DynamicQuantizeLinear(x) -> "y, y_scale, y_zero_point"
    call quantize_linear = QuantizeLinear(x, y_scale; y_zero_point) { axis, block_size, output_dtype, precision,
        saturate } -> "y"
}
