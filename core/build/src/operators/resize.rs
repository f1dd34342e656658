//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Resize(X, roi?, scales?, sizes?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Resize.html>
    call resize = Resize(x: "X") {
        roi: "roi",
        scales: "scales",
        sizes: "sizes",
        antialias: "antialias",
        axes: "axes",
        coordinate_transformation_mode: "coordinate_transformation_mode",
        cubic_coeff_a: "cubic_coeff_a",
        exclude_outside: "exclude_outside",
        extrapolation_value: "extrapolation_value",
        keep_aspect_ratio_policy: "keep_aspect_ratio_policy",
        mode: "mode",
        nearest_mode: "nearest_mode",
    }
}
