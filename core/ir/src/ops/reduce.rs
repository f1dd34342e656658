//! Reductions (axes as attribute, as before opset 18; ReduceSum as input since 13).

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__ReduceMean.html>
    ReduceMean(data; axes_input) { axes: Vec<i64> = vec![], keepdims: i64 = 1 }
    /// <https://onnx.ai/onnx/operators/onnx__ReduceSum.html>
    ReduceSum(data; axes) { keepdims: i64 = 1, noop_with_empty_axes: i64 = 0 }
}
