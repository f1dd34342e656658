//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call celu = Celu(x "X") { alpha } -> "Y"
    call clip = Clip(input; min, max) -> "output"
    call elu = Elu(x "X") { alpha } -> "Y"
    call gelu = Gelu(x "X") { approximate } -> "Y"
    call hard_sigmoid = HardSigmoid(x "X") { alpha, beta } -> "Y"
    direct hard_swish = HardSwish(x "X") -> "Y"
    call hardmax = Hardmax(input) { axis } -> "output"
    call leaky_relu = LeakyRelu(x "X") { alpha } -> "Y"
    call log_softmax = LogSoftmax(input) { axis } -> "output"
    direct mish = Mish(x "X") -> "Y"
    direct p_relu = PRelu(x "X", slope) -> "Y"
    direct relu = Relu(x "X") -> "Y"
    call selu = Selu(x "X") { alpha, gamma } -> "Y"
    call shrink = Shrink(input) { bias, lambd } -> "output"
    direct sigmoid = Sigmoid(x "X") -> "Y"
    call softmax = Softmax(input) { axis } -> "output"
    direct softplus = Softplus(x "X") -> "Y"
    direct softsign = Softsign(input) -> "output"
    call swi_glu = SwiGLU(a "A", b "B") { alpha } -> "Y"
    call swish = Swish(x "X") { alpha } -> "Y"
    direct tanh = Tanh(input) -> "output"
    call thresholded_relu = ThresholdedRelu(x "X") { alpha } -> "Y"
}
