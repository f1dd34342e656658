//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `BlackmanWindow(size) -> output`, <https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html>
    call blackman_window = BlackmanWindow(size: "size") {
        output_datatype: "output_datatype",
        periodic: "periodic",
    }
    /// `DFT(input, dft_length?, axis?) -> output`, <https://onnx.ai/onnx/operators/onnx__DFT.html>
    call dft = DFT(input: "input") {
        dft_length: "dft_length",
        axis: "axis",
        inverse: "inverse",
        onesided: "onesided",
    }
    /// `HammingWindow(size) -> output`, <https://onnx.ai/onnx/operators/onnx__HammingWindow.html>
    call hamming_window = HammingWindow(size: "size") {
        output_datatype: "output_datatype",
        periodic: "periodic",
    }
    /// `HannWindow(size) -> output`, <https://onnx.ai/onnx/operators/onnx__HannWindow.html>
    call hann_window = HannWindow(size: "size") {
        output_datatype: "output_datatype",
        periodic: "periodic",
    }
    /// `MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) -> output`, <https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html>
    call mel_weight_matrix = MelWeightMatrix(
        num_mel_bins: "num_mel_bins",
        dft_length: "dft_length",
        sample_rate: "sample_rate",
        lower_edge_hertz: "lower_edge_hertz",
        upper_edge_hertz: "upper_edge_hertz"
    ) {
        output_datatype: "output_datatype",
    }
    /// `STFT(signal, frame_step, window?, frame_length?) -> output`, <https://onnx.ai/onnx/operators/onnx__STFT.html>
    call stft = STFT(signal: "signal", frame_step: "frame_step") {
        window: "window",
        frame_length: "frame_length",
        onesided: "onesided",
    }
}
