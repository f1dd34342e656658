//! Fusions: fewer operators that compute the same.

// A rule takes what it matched by value, used up or not: all rules have one form.
#![allow(clippy::needless_pass_by_value)]

mod activation;
mod arithmetic;
mod attention;
mod dilation;
mod fuse_affine;
mod fuse_batch_norm;
mod fuse_bias;
mod fuse_gemm;
mod fuse_pad;
mod fuse_scale;
mod fuse_transpose;
mod microsoft;
mod norm;
mod parts;
mod pattern;
mod recurrent;
mod reduce;
mod region;
mod scaled;
mod shape;
mod unsigned_weights;

use onnxd_plugin_sdk::rewrite::{EqualizeWeights, rule, rule_on_facts};

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
            "fuse-dilation",
            "Makes one Conv with dilations of a convolution of blocks that became samples" =>
            || rule_on_facts("fuse-dilation", dilation::fuse_dilation),
        ),
        pass(
            "fuse-scale",
            "Moves constant factors into weights, biases and other constants";
            // N2D2 scales in layers of its own.
            declares ["unless = { \"quantization.format\" = \"N2D2\" }"] =>
            |_| rule("fuse-scale", fuse_scale::fuse_scale),
        ),
        pass(
            "fuse-bias",
            "Turns the addition of constants into a bias of Conv, ConvTranspose or Gemm" =>
            || rule("fuse-bias", fuse_bias::fuse_bias),
        ),
        pass(
            "fuse-affine",
            "Makes one BatchNormalization of what constants do to each channel";
            // Quantizers know the parts.
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| rule("fuse-affine", fuse_affine::fuse_affine),
        ),
        pass(
            "fuse-rms-division",
            "Divides by the root mean square instead of multiplying with its reciprocal";
            // Quantizers know the parts.
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| rule("fuse-rms-division", norm::rms_division::fuse_rms_division),
        ),
        pass(
            "fuse-transpose",
            "Lets Gemm transpose the matrices that it multiplies";
            // Quantizers know the parts.
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| fuse_transpose::pass(),
        ),
        pass(
            "fuse-gemm",
            "Makes Gemm of products with a bias, by Reshape around regions of them";
            // Quantizers and the fusions of ONNX Runtime know MatMul with more axes.
            declares [
                "when = { \"quantization.format\" = \"none\" }",
                "unless = { \"passes.profile\" = \"onnxruntime\", \"export.runtime\" = \"onnxruntime-genai\" }",
            ] =>
            |_| Box::new(fuse_gemm::FuseGemm),
        ),
        pass(
            "fuse-recurrent",
            "Makes LSTM and GRU of their steps, where a batch is never empty";
            // Quantizers know the products of single steps.
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| recurrent::pass(),
        ),
        pass(
            "fuse-recurrent-all",
            "Makes LSTM, GRU and RNN of their steps (RNN is slower in ONNX Runtime, and LSTM ends for empty batches)" =>
            recurrent::pass_of_all,
        ),
        pass(
            "fuse-recurrent-loops",
            "Makes LSTM, GRU and RNN of a Loop or Scan whose iterations are their steps" =>
            recurrent::pass_of_loops,
        ),
        pass(
            "fuse-layer-norm",
            "Makes LayerNormalization (opset 17) of its parts" =>
            norm::layer_norm::pass,
        ),
        pass(
            "fuse-instance-norm",
            "Makes InstanceNormalization of its parts; of three axes only before a factor per channel" =>
            norm::instance_norm::pass,
        ),
        pass(
            "fuse-rms-norm",
            "Makes RMSNormalization (opset 23) of its parts";
            // Models of older opsets do not have it, and those of newer ones are lowered without.
            declares ["when = { \"export.opset\" = \"23..\" }"] =>
            |_| norm::rms_norm::pass(),
        ),
        pass(
            "fuse-group-norm",
            "Makes GroupNormalization (opset 21) of its parts (slower in ONNX Runtime)" =>
            norm::group_norm::pass,
        ),
        pass(
            "fuse-gelu",
            "Makes Gelu (opset 20) of its parts, exact or by Tanh" =>
            activation::gelu::pass,
        ),
        pass(
            "fuse-clip",
            "Makes one Clip of Min, Max, Relu and Clip";
            // N2D2's learned activations are Relu and Clip, of which each counts.
            declares ["unless = { \"quantization.format\" = \"N2D2\" }"] =>
            |_| activation::clip::pass(),
        ),
        pass(
            "fuse-hard-swish",
            "Makes HardSwish (opset 14) and HardSigmoid of their parts" =>
            activation::hard::pass,
        ),
        pass(
            "fuse-mish",
            "Makes Mish (opset 18) of its parts" =>
            || rule("fuse-mish", activation::mish::fuse_mish),
        ),
        pass(
            "fuse-softmax",
            "Makes Softmax along the last axis and LogSoftmax of their parts" =>
            activation::softmax::pass,
        ),
        pass(
            "fuse-depth-to-space",
            "Makes DepthToSpace and SpaceToDepth of their parts" =>
            || rule("fuse-depth-to-space", shape::depth_to_space::fuse_depth_to_space),
        ),
        pass(
            "fuse-resize",
            "Makes Resize of what repeats elements" =>
            || rule("fuse-resize", shape::resize::fuse_resize),
        ),
        pass(
            "fuse-einsum",
            "Turns Einsum into MatMul where it is one" =>
            || rule("fuse-einsum", shape::einsum::fuse_einsum),
        ),
        pass(
            "fuse-reductions",
            "Makes ReduceL1, ReduceL2, ReduceSumSquare, ReduceLogSum and ReduceLogSumExp (slower in ONNX Runtime)" =>
            reduce::norms::pass,
        ),
        pass(
            "fuse-global-pool",
            "Turns means along all spatial axes into GlobalAveragePool (slower in ONNX Runtime)" =>
            || rule("fuse-global-pool", reduce::pool::fuse_global_pool),
        ),
        pass(
            "fuse-rotary-embedding",
            "Makes RotaryEmbedding (opset 23) of its parts, of halves or neighbours";
            // Models of older opsets do not have it, and those of newer ones are lowered without.
            declares ["when = { \"export.opset\" = \"23..\" }"] =>
            |_| attention::rotary::pass(),
        ),
        pass(
            "fuse-attention",
            "Makes Attention (opset 23) of its parts, also with repeated heads";
            // Models of older opsets do not have it, and those of newer ones are lowered without.
            declares ["when = { \"export.opset\" = \"23..\" }"] =>
            |_| attention::pass(),
        ),
        pass(
            "fuse-microsoft-rotary-embedding",
            "Makes ONNX Runtime's RotaryEmbedding of its parts" =>
            microsoft::rotary_embedding,
        ),
        pass(
            "fuse-microsoft-attention",
            "Makes ONNX Runtime's MultiHeadAttention of its parts" =>
            microsoft::attention::pass,
        ),
        pass(
            "fuse-microsoft-skip-norm",
            "Makes ONNX Runtime's SkipLayerNormalization, SkipSimplifiedLayerNormalization (slower on processors)" =>
            microsoft::skip_norm::pass,
        ),
        pass(
            "fuse-genai-skip-norm",
            "Makes the same for ONNX Runtime GenAI, whose other processors gain by it";
            declares ["when = { \"export.runtime\" = \"onnxruntime-genai\" }"] =>
            |_| microsoft::skip_norm::genai(),
        ),
        pass(
            "fuse-microsoft-gelu",
            "Makes ONNX Runtime's Gelu, FastGelu (before opset 20), QuickGelu and BiasGelu of their parts" =>
            microsoft::gelu::pass,
        ),
        pass(
            "fuse-microsoft-matmul",
            "Makes ONNX Runtime's FusedMatMul of transposed and scaled products" =>
            microsoft::matmul::pass,
        ),
        pass(
            "fuse-softplus",
            "Makes Softplus of its parts (slower in ONNX Runtime)" =>
            || rule("fuse-softplus", activation::softplus::fuse_softplus),
        ),
        pass(
            "fuse-swish",
            "Makes Swish (opset 24) of its parts (slower in ONNX Runtime)" =>
            || rule("fuse-swish", activation::swish::fuse_swish),
        ),
        pass(
            "unsigned-weights",
            "Holds weights of int8 as uint8 where their products saturate without VNNI";
            // Quantizers choose the type of weights.
            declares ["when = { \"quantization.format\" = \"none\" }"] =>
            |_| unsigned_weights::pass(),
        ),
        pass(
            "equalize-weights",
            "Evens out weight ranges between consecutive layers (helps quantization)" =>
            || Box::new(EqualizeWeights::default()),
        ),
    ],
}
