//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call negative_log_likelihood_loss = NegativeLogLikelihoodLoss(input, target; weight) { ignore_index, reduction } ->
        "loss"
    call softmax_cross_entropy_loss = SoftmaxCrossEntropyLoss(scores, labels; weights) { ignore_index, reduction } ->
        "output, log_prob?"
}
