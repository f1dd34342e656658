//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `AveragePool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__AveragePool.html>
    call average_pool = AveragePool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        count_include_pad: "count_include_pad",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `GlobalAveragePool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html>
    direct global_average_pool = GlobalAveragePool(x: "X")
    /// `GlobalLpPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html>
    call global_lp_pool = GlobalLpPool(x: "X") {
        p: "p",
    }
    /// `GlobalMaxPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html>
    direct global_max_pool = GlobalMaxPool(x: "X")
    /// `LpPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LpPool.html>
    call lp_pool = LpPool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        p: "p",
        pads: "pads",
        strides: "strides",
    }
    /// `MaxPool(X) -> Y, Indices?`, <https://onnx.ai/onnx/operators/onnx__MaxPool.html>
    call max_pool = MaxPool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        pads: "pads",
        storage_order: "storage_order",
        strides: "strides",
    }
    /// `MaxRoiPool(X, rois) -> Y`, <https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html>
    call max_roi_pool = MaxRoiPool(x: "X", rois: "rois") {
        pooled_shape: "pooled_shape",
        spatial_scale: "spatial_scale",
    }
    /// `MaxUnpool(X, I, output_shape?) -> output`, <https://onnx.ai/onnx/operators/onnx__MaxUnpool.html>
    call max_unpool = MaxUnpool(x: "X", i: "I") {
        output_shape: "output_shape",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `RoiAlign(X, rois, batch_indices) -> Y`, <https://onnx.ai/onnx/operators/onnx__RoiAlign.html>
    call roi_align = RoiAlign(x: "X", rois: "rois", batch_indices: "batch_indices") {
        coordinate_transformation_mode: "coordinate_transformation_mode",
        mode: "mode",
        output_height: "output_height",
        output_width: "output_width",
        sampling_ratio: "sampling_ratio",
        spatial_scale: "spatial_scale",
    }
}
