//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `ArgMax(data) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ArgMax.html>
    call arg_max = ArgMax(data: "data") {
        axis: "axis",
        keepdims: "keepdims",
        select_last_index: "select_last_index",
    }
    /// `ArgMin(data) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ArgMin.html>
    call arg_min = ArgMin(data: "data") {
        axis: "axis",
        keepdims: "keepdims",
        select_last_index: "select_last_index",
    }
    /// `ReduceL1(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceL1.html>
    call reduce_l1 = ReduceL1(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceL2(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceL2.html>
    call reduce_l2 = ReduceL2(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceLogSum(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html>
    call reduce_log_sum = ReduceLogSum(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceLogSumExp(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html>
    call reduce_log_sum_exp = ReduceLogSumExp(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMax(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMax.html>
    call reduce_max = ReduceMax(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMean(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMean.html>
    call reduce_mean = ReduceMean(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMin(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMin.html>
    call reduce_min = ReduceMin(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceProd(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceProd.html>
    call reduce_prod = ReduceProd(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceSum(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceSum.html>
    call reduce_sum = ReduceSum(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceSumSquare(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html>
    call reduce_sum_square = ReduceSumSquare(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
}
