//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call average_pool = AveragePool(x "X") { auto_pad, ceil_mode, count_include_pad, dilations, kernel_shape, pads,
        strides } -> "Y"
    direct global_average_pool = GlobalAveragePool(x "X") -> "Y"
    call global_lp_pool = GlobalLpPool(x "X") { p } -> "Y"
    direct global_max_pool = GlobalMaxPool(x "X") -> "Y"
    call lp_pool = LpPool(x "X") { auto_pad, ceil_mode, dilations, kernel_shape, p, pads, strides } -> "Y"
    call max_pool = MaxPool(x "X") { auto_pad, ceil_mode, dilations, kernel_shape, pads, storage_order, strides } -> "Y,
        Indices?"
    call max_roi_pool = MaxRoiPool(x "X", rois) { pooled_shape, spatial_scale } -> "Y"
    call max_unpool = MaxUnpool(x "X", i "I"; output_shape) { kernel_shape, pads, strides } -> "output"
    call roi_align = RoiAlign(x "X", rois, batch_indices) { coordinate_transformation_mode, mode, output_height,
        output_width, sampling_ratio, spatial_scale } -> "Y"
}
