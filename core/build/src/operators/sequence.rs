//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call concat_from_sequence = ConcatFromSequence(input_sequence) { axis, new_axis } -> "concat_result"
    call optional = Optional(; input) { type_ "type" } -> "output"
    direct optional_get_element = OptionalGetElement(input) -> "output"
    call optional_has_element = OptionalHasElement(; input) -> "output"
    direct sequence_at = SequenceAt(input_sequence, position) -> "tensor"
    direct sequence_construct = SequenceConstruct(; ..inputs) -> "output_sequence"
    call sequence_empty = SequenceEmpty() { dtype } -> "output"
    call sequence_erase = SequenceErase(input_sequence; position) -> "output_sequence"
    call sequence_insert = SequenceInsert(input_sequence, tensor; position) -> "output_sequence"
    direct sequence_length = SequenceLength(input_sequence) -> "length"
    call split_to_sequence = SplitToSequence(input; split) { axis, keepdims } -> "output_sequence"
}
