//! Normalization.

use super::onnx_ops;

onnx_ops! {
    /// <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html>
    BatchNormalization(x, scale, b, mean, var) {
        epsilon: f32 = 1e-5,
        momentum: f32 = 0.9,
        training_mode: i64 = 0,
        spatial: i64 = 1,
    }
    /// <https://onnx.ai/onnx/operators/onnx__LRN.html>
    LRN(x) [size: i64] { alpha: f32 = 1e-4, beta: f32 = 0.75, bias: f32 = 1.0 }
    /// <https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html>
    InstanceNormalization(x, scale, b) { epsilon: f32 = 1e-5 }
    /// <https://onnx.ai/onnx/operators/onnx__LpNormalization.html>
    LpNormalization(x) { axis: i64 = -1, p: i64 = 2 }
    /// <https://onnx.ai/onnx/operators/onnx__Dropout.html>
    Dropout(data; ratio, training_mode) { seed: Option<i64> = None, is_test: i64 = 0 }
    /// <https://onnx.ai/onnx/operators/onnx__LayerNormalization.html>
    LayerNormalization(x, scale; b) {
        axis: i64 = -1,
        epsilon: f32 = 1e-5,
        stash_type: i64 = 1,
    }
    /// <https://onnx.ai/onnx/operators/onnx__RMSNormalization.html>
    RMSNormalization(x, scale) { axis: i64 = -1, epsilon: f32 = 1e-5, stash_type: i64 = 1 }
    /// <https://onnx.ai/onnx/operators/onnx__GroupNormalization.html> (parameters per group before opset 21)
    GroupNormalization(x, scale, bias) [num_groups: i64] { epsilon: f32 = 1e-5, stash_type: i64 = 1 }
}
