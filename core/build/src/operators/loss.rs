//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
    /// `NegativeLogLikelihoodLoss(input, target, weight?) -> loss`, <https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html>
    call negative_log_likelihood_loss = NegativeLogLikelihoodLoss(input: "input", target: "target") {
        weight: "weight",
        ignore_index: "ignore_index",
        reduction: "reduction",
    }
    /// `SoftmaxCrossEntropyLoss(scores, labels, weights?) -> output, log_prob?`, <https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html>
    call softmax_cross_entropy_loss = SoftmaxCrossEntropyLoss(scores: "scores", labels: "labels") {
        weights: "weights",
        ignore_index: "ignore_index",
        reduction: "reduction",
    }
}
