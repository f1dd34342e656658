//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `BatchNormalization(X, scale, B, input_mean, input_var) -> Y, running_mean?, running_var?`, <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html>
    call batch_normalization = BatchNormalization(
        x: "X",
        scale: "scale",
        b: "B",
        input_mean: "input_mean",
        input_var: "input_var"
    ) {
        epsilon: "epsilon",
        momentum: "momentum",
        training_mode: "training_mode",
    }
    /// `Dropout(data, ratio?, training_mode?) -> output, mask?`, <https://onnx.ai/onnx/operators/onnx__Dropout.html>
    call dropout = Dropout(data: "data") {
        ratio: "ratio",
        training_mode: "training_mode",
        seed: "seed",
    }
    /// `GroupNormalization(X, scale, bias) -> Y`, <https://onnx.ai/onnx/operators/onnx__GroupNormalization.html>
    call group_normalization = GroupNormalization(x: "X", scale: "scale", bias: "bias") {
        epsilon: "epsilon",
        num_groups: "num_groups",
        stash_type: "stash_type",
    }
    /// `InstanceNormalization(input, scale, B) -> output`, <https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html>
    call instance_normalization = InstanceNormalization(input: "input", scale: "scale", b: "B") {
        epsilon: "epsilon",
    }
    /// `LRN(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LRN.html>
    call lrn = LRN(x: "X") {
        alpha: "alpha",
        beta: "beta",
        bias: "bias",
        size: "size",
    }
    /// `LayerNormalization(X, Scale, B?) -> Y, Mean?, InvStdDev?`, <https://onnx.ai/onnx/operators/onnx__LayerNormalization.html>
    call layer_normalization = LayerNormalization(x: "X", scale: "Scale") {
        b: "B",
        axis: "axis",
        epsilon: "epsilon",
        stash_type: "stash_type",
    }
    /// `LpNormalization(input) -> output`, <https://onnx.ai/onnx/operators/onnx__LpNormalization.html>
    call lp_normalization = LpNormalization(input: "input") {
        axis: "axis",
        p: "p",
    }
    /// `MeanVarianceNormalization(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html>
    call mean_variance_normalization = MeanVarianceNormalization(x: "X") {
        axes: "axes",
    }
    /// `RMSNormalization(X, scale) -> Y`, <https://onnx.ai/onnx/operators/onnx__RMSNormalization.html>
    call rms_normalization = RMSNormalization(x: "X", scale: "scale") {
        axis: "axis",
        epsilon: "epsilon",
        stash_type: "stash_type",
    }
}
