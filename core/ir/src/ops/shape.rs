//! Shape, layout and type of tensors.

use super::onnx_ops;

use crate::Tensor;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__Concat.html>
    Concat(; ..inputs) [axis: i64] {}
    /// <https://onnx.ai/onnx/operators/onnx__Flatten.html>
    Flatten(input) { axis: i64 = 1 }
    /// <https://onnx.ai/onnx/operators/onnx__Reshape.html>
    Reshape(data, shape) { allowzero: i64 = 0 }
    /// <https://onnx.ai/onnx/operators/onnx__Transpose.html>
    Transpose(data) { perm: Vec<i64> = vec![] }
    /// <https://onnx.ai/onnx/operators/onnx__Pad.html> (inputs since opset 11)
    Pad(data, pads; constant_value, axes) { mode: String = "constant".into() }
    /// <https://onnx.ai/onnx/operators/onnx__Slice.html> (inputs since opset 10)
    Slice(data, starts, ends; axes, steps) {}
    /// <https://onnx.ai/onnx/operators/onnx__Gather.html>
    Gather(data, indices) { axis: i64 = 0 }
    /// <https://onnx.ai/onnx/operators/onnx__Unsqueeze.html> (inputs since opset 13)
    Unsqueeze(data, axes) {}
    /// <https://onnx.ai/onnx/operators/onnx__Squeeze.html> (inputs since opset 13)
    Squeeze(data; axes) {}
    /// <https://onnx.ai/onnx/operators/onnx__Identity.html>
    Identity(input) {}
    /// <https://onnx.ai/onnx/operators/onnx__Cast.html>
    Cast(input) [to: i64] { saturate: i64 = 1 }
    /// <https://onnx.ai/onnx/operators/onnx__Shape.html>
    Shape(data) { start: i64 = 0, end: Option<i64> = None }
    /// <https://onnx.ai/onnx/operators/onnx__Expand.html>
    Expand(input, shape) {}
    /// <https://onnx.ai/onnx/operators/onnx__Resize.html> (since opset 11)
    Resize(x; roi, scales, sizes) {
        antialias: i64 = 0,
        axes: Vec<i64> = vec![],
        coordinate_transformation_mode: String = "half_pixel".into(),
        cubic_coeff_a: f32 = -0.75,
        exclude_outside: i64 = 0,
        extrapolation_value: f32 = 0.0,
        keep_aspect_ratio_policy: String = "stretch".into(),
        mode: String = "nearest".into(),
        nearest_mode: String = "round_prefer_floor".into(),
    }
    /// <https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html>
    ConstantOfShape(input) { value: Option<Tensor> = None }
}
