//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call gru = GRU(x "X", w "W", r "R"; b "B", sequence_lens, initial_h) { activation_alpha, activation_beta,
        activations, clip, direction, hidden_size, layout, linear_before_reset } -> "Y?, Y_h?"
    call lstm = LSTM(x "X", w "W", r "R"; b "B", sequence_lens, initial_h, initial_c, p "P") { activation_alpha,
        activation_beta, activations, clip, direction, hidden_size, input_forget, layout } -> "Y?, Y_h?, Y_c?"
    call rnn = RNN(x "X", w "W", r "R"; b "B", sequence_lens, initial_h) { activation_alpha, activation_beta,
        activations, clip, direction, hidden_size, layout } -> "Y?, Y_h?"
}
