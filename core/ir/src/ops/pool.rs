//! Pooling.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__MaxPool.html>
    MaxPool(x) [kernel_shape: Vec<i64>] {
        auto_pad: String = "NOTSET".into(),
        ceil_mode: i64 = 0,
        dilations: Vec<i64> = vec![],
        pads: Vec<i64> = vec![],
        storage_order: i64 = 0,
        strides: Vec<i64> = vec![],
    }
    /// <https://onnx.ai/onnx/operators/onnx__AveragePool.html>
    AveragePool(x) [kernel_shape: Vec<i64>] {
        auto_pad: String = "NOTSET".into(),
        ceil_mode: i64 = 0,
        count_include_pad: i64 = 0,
        dilations: Vec<i64> = vec![],
        pads: Vec<i64> = vec![],
        strides: Vec<i64> = vec![],
    }
    /// <https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html>
    GlobalAveragePool(x) {}
    /// <https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html>
    GlobalMaxPool(x) {}
}
