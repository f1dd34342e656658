//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `Celu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Celu.html>
    call celu = Celu(x: "X") {
        alpha: "alpha",
    }
    /// `Clip(input, min?, max?) -> output`, <https://onnx.ai/onnx/operators/onnx__Clip.html>
    call clip = Clip(input: "input") {
        min: "min",
        max: "max",
    }
    /// `Elu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Elu.html>
    call elu = Elu(x: "X") {
        alpha: "alpha",
    }
    /// `Gelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Gelu.html>
    call gelu = Gelu(x: "X") {
        approximate: "approximate",
    }
    /// `HardSigmoid(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__HardSigmoid.html>
    call hard_sigmoid = HardSigmoid(x: "X") {
        alpha: "alpha",
        beta: "beta",
    }
    /// `HardSwish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__HardSwish.html>
    direct hard_swish = HardSwish(x: "X")
    /// `Hardmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Hardmax.html>
    call hardmax = Hardmax(input: "input") {
        axis: "axis",
    }
    /// `LeakyRelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LeakyRelu.html>
    call leaky_relu = LeakyRelu(x: "X") {
        alpha: "alpha",
    }
    /// `LogSoftmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__LogSoftmax.html>
    call log_softmax = LogSoftmax(input: "input") {
        axis: "axis",
    }
    /// `Mish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Mish.html>
    direct mish = Mish(x: "X")
    /// `PRelu(X, slope) -> Y`, <https://onnx.ai/onnx/operators/onnx__PRelu.html>
    direct p_relu = PRelu(x: "X", slope: "slope")
    /// `Relu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Relu.html>
    direct relu = Relu(x: "X")
    /// `Selu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Selu.html>
    call selu = Selu(x: "X") {
        alpha: "alpha",
        gamma: "gamma",
    }
    /// `Shrink(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Shrink.html>
    call shrink = Shrink(input: "input") {
        bias: "bias",
        lambd: "lambd",
    }
    /// `Sigmoid(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Sigmoid.html>
    direct sigmoid = Sigmoid(x: "X")
    /// `Softmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Softmax.html>
    call softmax = Softmax(input: "input") {
        axis: "axis",
    }
    /// `Softplus(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Softplus.html>
    direct softplus = Softplus(x: "X")
    /// `Softsign(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Softsign.html>
    direct softsign = Softsign(input: "input")
    /// `SwiGLU(A, B) -> Y`, <https://onnx.ai/onnx/operators/onnx__SwiGLU.html>
    call swi_glu = SwiGLU(a: "A", b: "B") {
        alpha: "alpha",
    }
    /// `Swish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Swish.html>
    call swish = Swish(x: "X") {
        alpha: "alpha",
    }
    /// `Tanh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Tanh.html>
    direct tanh = Tanh(input: "input")
    /// `ThresholdedRelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html>
    call thresholded_relu = ThresholdedRelu(x: "X") {
        alpha: "alpha",
    }
}
