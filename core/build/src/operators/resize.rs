//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call resize = Resize(x "X"; roi, scales, sizes) { antialias, axes, coordinate_transformation_mode, cubic_coeff_a,
        exclude_outside, extrapolation_value, keep_aspect_ratio_policy, mode, nearest_mode } -> "Y"
}
