//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Compress(input, condition) -> output`, <https://onnx.ai/onnx/operators/onnx__Compress.html>
    call compress = Compress(input: "input", condition: "condition") {
        axis: "axis",
    }
    /// `Gather(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__Gather.html>
    call gather = Gather(data: "data", indices: "indices") {
        axis: "axis",
    }
    /// `GatherElements(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__GatherElements.html>
    call gather_elements = GatherElements(data: "data", indices: "indices") {
        axis: "axis",
    }
    /// `GatherND(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__GatherND.html>
    call gather_nd = GatherND(data: "data", indices: "indices") {
        batch_dims: "batch_dims",
    }
    /// `NonZero(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__NonZero.html>
    direct non_zero = NonZero(x: "X")
    /// `OneHot(indices, depth, values) -> output`, <https://onnx.ai/onnx/operators/onnx__OneHot.html>
    call one_hot = OneHot(indices: "indices", depth: "depth", values: "values") {
        axis: "axis",
    }
    /// `Range(start, limit, delta) -> output`, <https://onnx.ai/onnx/operators/onnx__Range.html>
    call range = Range(start: "start", limit: "limit", delta: "delta") {
        stash_type: "stash_type",
    }
    /// `ReverseSequence(input, sequence_lens) -> Y`, <https://onnx.ai/onnx/operators/onnx__ReverseSequence.html>
    call reverse_sequence = ReverseSequence(input: "input", sequence_lens: "sequence_lens") {
        batch_axis: "batch_axis",
        time_axis: "time_axis",
    }
    /// `ScatterElements(data, indices, updates) -> output`, <https://onnx.ai/onnx/operators/onnx__ScatterElements.html>
    call scatter_elements = ScatterElements(data: "data", indices: "indices", updates: "updates") {
        axis: "axis",
        reduction: "reduction",
    }
    /// `ScatterND(data, indices, updates) -> output`, <https://onnx.ai/onnx/operators/onnx__ScatterND.html>
    call scatter_nd = ScatterND(data: "data", indices: "indices", updates: "updates") {
        reduction: "reduction",
    }
    /// `Slice(data, starts, ends, axes?, steps?) -> output`, <https://onnx.ai/onnx/operators/onnx__Slice.html>
    call slice = Slice(data: "data", starts: "starts", ends: "ends") {
        axes: "axes",
        steps: "steps",
    }
    /// `TopK(X, K) -> Values, Indices`, <https://onnx.ai/onnx/operators/onnx__TopK.html>
    call top_k = TopK(x: "X", k: "K") {
        axis: "axis",
        largest: "largest",
        sorted: "sorted",
    }
    /// `Unique(X) -> Y, indices?, inverse_indices?, counts?`, <https://onnx.ai/onnx/operators/onnx__Unique.html>
    call unique = Unique(x: "X") {
        axis: "axis",
        sorted: "sorted",
    }
}
