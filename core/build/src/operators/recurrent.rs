//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `GRU(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?`, <https://onnx.ai/onnx/operators/onnx__GRU.html>
    call gru = GRU(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        layout: "layout",
        linear_before_reset: "linear_before_reset",
    }
    /// `LSTM(X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?) -> Y?, Y_h?, Y_c?`, <https://onnx.ai/onnx/operators/onnx__LSTM.html>
    call lstm = LSTM(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        initial_c: "initial_c",
        p: "P",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        input_forget: "input_forget",
        layout: "layout",
    }
    /// `RNN(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?`, <https://onnx.ai/onnx/operators/onnx__RNN.html>
    call rnn = RNN(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        layout: "layout",
    }
}
