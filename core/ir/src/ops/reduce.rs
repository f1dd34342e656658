//! Reductions (axes are an attribute before opset 18, that of ReduceSum before 13, and an input since).

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__ReduceMean.html>
    ReduceMean(data; axes_input) { axes: Vec<i64> = vec![], keepdims: i64 = 1 }
    /// <https://onnx.ai/onnx/operators/onnx__ReduceSum.html>
    ReduceSum(data; axes_input) {
        axes: Vec<i64> = vec![],
        keepdims: i64 = 1,
        noop_with_empty_axes: i64 = 0,
    }
}
