//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call cast_like = CastLike(input, target_type) { round_mode, saturate } -> "output"
    call concat = Concat(; ..inputs) { axis } -> "concat_result"
    call constant_of_shape = ConstantOfShape(input) { value } -> "output"
    call depth_to_space = DepthToSpace(input) { blocksize, mode } -> "output"
    direct expand = Expand(input, shape) -> "output"
    call eye_like = EyeLike(input) { dtype, k } -> "output"
    call flatten = Flatten(input) { axis } -> "output"
    direct identity = Identity(input) -> "output"
    call pad = Pad(data, pads; constant_value, axes) { mode } -> "output"
    call random_normal = RandomNormal() { dtype, mean, scale, seed, shape } -> "output"
    call random_normal_like = RandomNormalLike(input) { dtype, mean, scale, seed } -> "output"
    call random_uniform = RandomUniform() { dtype, high, low, seed, shape } -> "output"
    call random_uniform_like = RandomUniformLike(input) { dtype, high, low, seed } -> "output"
    call reshape = Reshape(data, shape) { allowzero } -> "reshaped"
    call shape = Shape(data) { end, start } -> "shape"
    direct size = Size(data) -> "size"
    call space_to_depth = SpaceToDepth(input) { blocksize, mode } -> "output"
    call split = Split(input; split) { axis, num_outputs } -> "outputs..."
    call squeeze = Squeeze(data; axes) -> "squeezed"
    direct tile = Tile(input, repeats) -> "output"
    call transpose = Transpose(data) { perm } -> "transposed"
    call trilu = Trilu(input; k) { upper } -> "output"
    direct unsqueeze = Unsqueeze(data, axes) -> "expanded"
}
