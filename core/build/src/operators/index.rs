//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call compress = Compress(input, condition) { axis } -> "output"
    call gather = Gather(data, indices) { axis } -> "output"
    call gather_elements = GatherElements(data, indices) { axis } -> "output"
    call gather_nd = GatherND(data, indices) { batch_dims } -> "output"
    direct non_zero = NonZero(x "X") -> "Y"
    call one_hot = OneHot(indices, depth, values) { axis } -> "output"
    call range = Range(start, limit, delta) { stash_type } -> "output"
    call reverse_sequence = ReverseSequence(input, sequence_lens) { batch_axis, time_axis } -> "Y"
    call scatter_elements = ScatterElements(data, indices, updates) { axis, reduction } -> "output"
    call scatter_nd = ScatterND(data, indices, updates) { reduction } -> "output"
    call slice = Slice(data, starts, ends; axes, steps) -> "output"
    call top_k = TopK(x "X", k "K") { axis, largest, sorted } -> "Values, Indices"
    call unique = Unique(x "X") { axis, sorted } -> "Y, indices?, inverse_indices?, counts?"
}
