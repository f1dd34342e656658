//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `ConcatFromSequence(input_sequence) -> concat_result`, <https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html>
    call concat_from_sequence = ConcatFromSequence(input_sequence: "input_sequence") {
        axis: "axis",
        new_axis: "new_axis",
    }
    /// `Optional(input?) -> output`, <https://onnx.ai/onnx/operators/onnx__Optional.html>
    call optional = Optional() {
        input: "input",
        type_: "type",
    }
    /// `OptionalGetElement(input) -> output`, <https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html>
    direct optional_get_element = OptionalGetElement(input: "input")
    /// `OptionalHasElement(input?) -> output`, <https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html>
    call optional_has_element = OptionalHasElement() {
        input: "input",
    }
    /// `SequenceAt(input_sequence, position) -> tensor`, <https://onnx.ai/onnx/operators/onnx__SequenceAt.html>
    direct sequence_at = SequenceAt(input_sequence: "input_sequence", position: "position")
    /// `SequenceConstruct(inputs...) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html>
    direct sequence_construct = SequenceConstruct(; ..inputs)
    /// `SequenceEmpty() -> output`, <https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html>
    call sequence_empty = SequenceEmpty() {
        dtype: "dtype",
    }
    /// `SequenceErase(input_sequence, position?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceErase.html>
    call sequence_erase = SequenceErase(input_sequence: "input_sequence") {
        position: "position",
    }
    /// `SequenceInsert(input_sequence, tensor, position?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceInsert.html>
    call sequence_insert = SequenceInsert(input_sequence: "input_sequence", tensor: "tensor") {
        position: "position",
    }
    /// `SequenceLength(input_sequence) -> length`, <https://onnx.ai/onnx/operators/onnx__SequenceLength.html>
    direct sequence_length = SequenceLength(input_sequence: "input_sequence")
    /// `SplitToSequence(input, split?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SplitToSequence.html>
    call split_to_sequence = SplitToSequence(input: "input") {
        split: "split",
        axis: "axis",
        keepdims: "keepdims",
    }
}
