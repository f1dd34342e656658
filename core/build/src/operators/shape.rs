//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `CastLike(input, target_type) -> output`, <https://onnx.ai/onnx/operators/onnx__CastLike.html>
    call cast_like = CastLike(input: "input", target_type: "target_type") {
        round_mode: "round_mode",
        saturate: "saturate",
    }
    /// `Concat(inputs...) -> concat_result`, <https://onnx.ai/onnx/operators/onnx__Concat.html>
    call concat = Concat(; ..inputs) {
        axis: "axis",
    }
    /// `ConstantOfShape(input) -> output`, <https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html>
    call constant_of_shape = ConstantOfShape(input: "input") {
        value: "value",
    }
    /// `DepthToSpace(input) -> output`, <https://onnx.ai/onnx/operators/onnx__DepthToSpace.html>
    call depth_to_space = DepthToSpace(input: "input") {
        blocksize: "blocksize",
        mode: "mode",
    }
    /// `Expand(input, shape) -> output`, <https://onnx.ai/onnx/operators/onnx__Expand.html>
    direct expand = Expand(input: "input", shape: "shape")
    /// `EyeLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__EyeLike.html>
    call eye_like = EyeLike(input: "input") {
        dtype: "dtype",
        k: "k",
    }
    /// `Flatten(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Flatten.html>
    call flatten = Flatten(input: "input") {
        axis: "axis",
    }
    /// `Identity(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Identity.html>
    direct identity = Identity(input: "input")
    /// `Pad(data, pads, constant_value?, axes?) -> output`, <https://onnx.ai/onnx/operators/onnx__Pad.html>
    call pad = Pad(data: "data", pads: "pads") {
        constant_value: "constant_value",
        axes: "axes",
        mode: "mode",
    }
    /// `RandomNormal() -> output`, <https://onnx.ai/onnx/operators/onnx__RandomNormal.html>
    call random_normal = RandomNormal() {
        dtype: "dtype",
        mean: "mean",
        scale: "scale",
        seed: "seed",
        shape: "shape",
    }
    /// `RandomNormalLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html>
    call random_normal_like = RandomNormalLike(input: "input") {
        dtype: "dtype",
        mean: "mean",
        scale: "scale",
        seed: "seed",
    }
    /// `RandomUniform() -> output`, <https://onnx.ai/onnx/operators/onnx__RandomUniform.html>
    call random_uniform = RandomUniform() {
        dtype: "dtype",
        high: "high",
        low: "low",
        seed: "seed",
        shape: "shape",
    }
    /// `RandomUniformLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html>
    call random_uniform_like = RandomUniformLike(input: "input") {
        dtype: "dtype",
        high: "high",
        low: "low",
        seed: "seed",
    }
    /// `Reshape(data, shape) -> reshaped`, <https://onnx.ai/onnx/operators/onnx__Reshape.html>
    call reshape = Reshape(data: "data", shape: "shape") {
        allowzero: "allowzero",
    }
    /// `Shape(data) -> shape`, <https://onnx.ai/onnx/operators/onnx__Shape.html>
    call shape = Shape(data: "data") {
        end: "end",
        start: "start",
    }
    /// `Size(data) -> size`, <https://onnx.ai/onnx/operators/onnx__Size.html>
    direct size = Size(data: "data")
    /// `SpaceToDepth(input) -> output`, <https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html>
    call space_to_depth = SpaceToDepth(input: "input") {
        blocksize: "blocksize",
        mode: "mode",
    }
    /// `Split(input, split?) -> outputs...`, <https://onnx.ai/onnx/operators/onnx__Split.html>
    call split = Split(input: "input") {
        split: "split",
        axis: "axis",
        num_outputs: "num_outputs",
    }
    /// `Squeeze(data, axes?) -> squeezed`, <https://onnx.ai/onnx/operators/onnx__Squeeze.html>
    call squeeze = Squeeze(data: "data") {
        axes: "axes",
    }
    /// `Tile(input, repeats) -> output`, <https://onnx.ai/onnx/operators/onnx__Tile.html>
    direct tile = Tile(input: "input", repeats: "repeats")
    /// `Transpose(data) -> transposed`, <https://onnx.ai/onnx/operators/onnx__Transpose.html>
    call transpose = Transpose(data: "data") {
        perm: "perm",
    }
    /// `Trilu(input, k?) -> output`, <https://onnx.ai/onnx/operators/onnx__Trilu.html>
    call trilu = Trilu(input: "input") {
        k: "k",
        upper: "upper",
    }
    /// `Unsqueeze(data, axes) -> expanded`, <https://onnx.ai/onnx/operators/onnx__Unsqueeze.html>
    direct unsqueeze = Unsqueeze(data: "data", axes: "axes")
}
