//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Col2Im(input, image_shape, block_shape) -> output`, <https://onnx.ai/onnx/operators/onnx__Col2Im.html>
    call col2_im = Col2Im(input: "input", image_shape: "image_shape", block_shape: "block_shape") {
        dilations: "dilations",
        pads: "pads",
        strides: "strides",
    }
    /// `Conv(X, W, B?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Conv.html>
    call conv = Conv(x: "X", w: "W") {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `ConvInteger(x, w, x_zero_point?, w_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__ConvInteger.html>
    call conv_integer = ConvInteger(x: "x", w: "w") {
        x_zero_point: "x_zero_point",
        w_zero_point: "w_zero_point",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `ConvTranspose(X, W, B?) -> Y`, <https://onnx.ai/onnx/operators/onnx__ConvTranspose.html>
    call conv_transpose = ConvTranspose(x: "X", w: "W") {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        output_padding: "output_padding",
        output_shape: "output_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `DeformConv(X, W, offset, B?, mask?) -> Y`, <https://onnx.ai/onnx/operators/onnx__DeformConv.html>
    call deform_conv = DeformConv(x: "X", w: "W", offset: "offset") {
        b: "B",
        mask: "mask",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        offset_group: "offset_group",
        pads: "pads",
        strides: "strides",
    }
    /// `QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B?) -> y`, <https://onnx.ai/onnx/operators/onnx__QLinearConv.html>
    call q_linear_conv = QLinearConv(
        x: "x",
        x_scale: "x_scale",
        x_zero_point: "x_zero_point",
        w: "w",
        w_scale: "w_scale",
        w_zero_point: "w_zero_point",
        y_scale: "y_scale",
        y_zero_point: "y_zero_point"
    ) {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
}
