//! Convolutions.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Conv.html>
    Conv(x, w; b) {
        auto_pad: String = "NOTSET".into(),
        dilations: Vec<i64> = vec![],
        group: i64 = 1,
        kernel_shape: Vec<i64> = vec![],
        pads: Vec<i64> = vec![],
        strides: Vec<i64> = vec![],
    }
    /// <https://onnx.ai/onnx/operators/onnx__ConvInteger.html>
    ConvInteger(x, w; x_zero_point, w_zero_point) {
        auto_pad: String = "NOTSET".into(),
        dilations: Vec<i64> = vec![],
        group: i64 = 1,
        kernel_shape: Vec<i64> = vec![],
        pads: Vec<i64> = vec![],
        strides: Vec<i64> = vec![],
    }
    /// <https://onnx.ai/onnx/operators/onnx__ConvTranspose.html>
    ConvTranspose(x, w; b) {
        auto_pad: String = "NOTSET".into(),
        dilations: Vec<i64> = vec![],
        group: i64 = 1,
        kernel_shape: Vec<i64> = vec![],
        output_padding: Vec<i64> = vec![],
        output_shape: Vec<i64> = vec![],
        pads: Vec<i64> = vec![],
        strides: Vec<i64> = vec![],
    }
}
