//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call arg_max = ArgMax(data) { axis, keepdims, select_last_index } -> "reduced"
    call arg_min = ArgMin(data) { axis, keepdims, select_last_index } -> "reduced"
    call reduce_l1 = ReduceL1(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_l2 = ReduceL2(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_log_sum = ReduceLogSum(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_log_sum_exp = ReduceLogSumExp(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_max = ReduceMax(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_mean = ReduceMean(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_min = ReduceMin(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_prod = ReduceProd(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_sum = ReduceSum(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
    call reduce_sum_square = ReduceSumSquare(data; axes) { keepdims, noop_with_empty_axes } -> "reduced"
}
