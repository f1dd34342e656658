//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call blackman_window = BlackmanWindow(size) { output_datatype, periodic } -> "output"
    call dft = DFT(input; dft_length, axis) { inverse, onesided } -> "output"
    call hamming_window = HammingWindow(size) { output_datatype, periodic } -> "output"
    call hann_window = HannWindow(size) { output_datatype, periodic } -> "output"
    call mel_weight_matrix = MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz)
        { output_datatype } -> "output"
    call stft = STFT(signal, frame_step; window, frame_length) { onesided } -> "output"
}
