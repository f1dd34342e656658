//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call affine_grid = AffineGrid(theta, size) { align_corners } -> "grid"
    call center_crop_pad = CenterCropPad(input_data, shape) { axes } -> "output_data"
    call grid_sample = GridSample(x "X", grid) { align_corners, mode, padding_mode } -> "Y"
    call image_decoder = ImageDecoder(encoded_stream) { pixel_format } -> "image"
    call non_max_suppression = NonMaxSuppression(boxes, scores; max_output_boxes_per_class, iou_threshold,
        score_threshold) { center_point_box } -> "selected_indices"
}
