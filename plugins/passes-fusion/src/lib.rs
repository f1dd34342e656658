//! Fusions: fewer operators that compute the same.

// A rule takes what it matched by value, used up or not: all rules have one form.
#![allow(clippy::needless_pass_by_value)]

mod fuse_batch_norm;
mod fuse_bias;
mod fuse_pad;

use onnxd_plugin_sdk::rewrite::{EqualizeWeights, rule};

onnxd_plugin_sdk::export_plugin! {
    id: "org.onnxd.passes-fusion",
    summary: "Fuses operators where the result is the same",
    components: [
        pass(
            "fuse-batch-norm",
            "Folds BatchNormalization into Conv, ConvTranspose and Gemm" =>
            || rule("fuse-batch-norm", fuse_batch_norm::fuse_batch_norm),
        ),
        pass(
            "fuse-pad",
            "Moves zero padding into Conv and pooling where that is exact" =>
            || rule("fuse-pad", fuse_pad::fuse_pad),
        ),
        pass(
            "fuse-bias",
            "Turns the addition of a constant per channel into a bias of Conv or Gemm" =>
            || rule("fuse-bias", fuse_bias::fuse_bias),
        ),
        pass(
            "equalize-weights",
            "Evens out weight ranges between consecutive layers (helps quantization)" =>
            || Box::new(EqualizeWeights::default()),
        ),
    ],
}
