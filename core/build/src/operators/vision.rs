//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `AffineGrid(theta, size) -> grid`, <https://onnx.ai/onnx/operators/onnx__AffineGrid.html>
    call affine_grid = AffineGrid(theta: "theta", size: "size") {
        align_corners: "align_corners",
    }
    /// `CenterCropPad(input_data, shape) -> output_data`, <https://onnx.ai/onnx/operators/onnx__CenterCropPad.html>
    call center_crop_pad = CenterCropPad(input_data: "input_data", shape: "shape") {
        axes: "axes",
    }
    /// `GridSample(X, grid) -> Y`, <https://onnx.ai/onnx/operators/onnx__GridSample.html>
    call grid_sample = GridSample(x: "X", grid: "grid") {
        align_corners: "align_corners",
        mode: "mode",
        padding_mode: "padding_mode",
    }
    /// `ImageDecoder(encoded_stream) -> image`, <https://onnx.ai/onnx/operators/onnx__ImageDecoder.html>
    call image_decoder = ImageDecoder(encoded_stream: "encoded_stream") {
        pixel_format: "pixel_format",
    }
    /// `NonMaxSuppression(boxes, scores, max_output_boxes_per_class?, iou_threshold?, score_threshold?) -> selected_indices`, <https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html>
    call non_max_suppression = NonMaxSuppression(boxes: "boxes", scores: "scores") {
        max_output_boxes_per_class: "max_output_boxes_per_class",
        iou_threshold: "iou_threshold",
        score_threshold: "score_threshold",
        center_point_box: "center_point_box",
    }
}
