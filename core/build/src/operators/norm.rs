//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call batch_normalization = BatchNormalization(x "X", scale, b "B", input_mean, input_var) { epsilon, momentum,
        training_mode } -> "Y, running_mean?, running_var?"
    call dropout = Dropout(data; ratio, training_mode) { seed } -> "output, mask?"
    call group_normalization = GroupNormalization(x "X", scale, bias) { epsilon, num_groups, stash_type } -> "Y"
    call instance_normalization = InstanceNormalization(input, scale, b "B") { epsilon } -> "output"
    call lrn = LRN(x "X") { alpha, beta, bias, size } -> "Y"
    call layer_normalization = LayerNormalization(x "X", scale "Scale"; b "B") { axis, epsilon, stash_type } -> "Y,
        Mean?, InvStdDev?"
    call lp_normalization = LpNormalization(input) { axis, p } -> "output"
    call mean_variance_normalization = MeanVarianceNormalization(x "X") { axes } -> "Y"
    call rms_normalization = RMSNormalization(x "X", scale) { axis, epsilon, stash_type } -> "Y"
}
