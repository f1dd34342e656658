//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call col2_im = Col2Im(input, image_shape, block_shape) { dilations, pads, strides } -> "output"
    call conv = Conv(x "X", w "W"; b "B") { auto_pad, dilations, group, kernel_shape, pads, strides } -> "Y"
    call conv_integer = ConvInteger(x, w; x_zero_point, w_zero_point) { auto_pad, dilations, group, kernel_shape, pads,
        strides } -> "y"
    call conv_transpose = ConvTranspose(x "X", w "W"; b "B") { auto_pad, dilations, group, kernel_shape, output_padding,
        output_shape, pads, strides } -> "Y"
    call deform_conv = DeformConv(x "X", w "W", offset; b "B", mask) { dilations, group, kernel_shape, offset_group,
        pads, strides } -> "Y"
    call q_linear_conv = QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point; b "B") {
        auto_pad, dilations, group, kernel_shape, pads, strides } -> "y"
}
