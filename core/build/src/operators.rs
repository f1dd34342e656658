//! A method for each operator of the standard; `UPDATE_EXPECT=1 cargo test -p onnxd-build` writes it.

use crate::macros::operators;

operators! { ""
    /// `Abs(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Abs.html>
    direct abs = Abs(x: "X")
    /// `Acos(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Acos.html>
    direct acos = Acos(input: "input")
    /// `Acosh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Acosh.html>
    direct acosh = Acosh(input: "input")
    /// `Add(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Add.html>
    direct add = Add(a: "A", b: "B")
    /// `AffineGrid(theta, size) -> grid`, <https://onnx.ai/onnx/operators/onnx__AffineGrid.html>
    call affine_grid = AffineGrid(theta: "theta", size: "size") {
        align_corners: "align_corners",
    }
    /// `And(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__And.html>
    direct and = And(a: "A", b: "B")
    /// `ArgMax(data) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ArgMax.html>
    call arg_max = ArgMax(data: "data") {
        axis: "axis",
        keepdims: "keepdims",
        select_last_index: "select_last_index",
    }
    /// `ArgMin(data) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ArgMin.html>
    call arg_min = ArgMin(data: "data") {
        axis: "axis",
        keepdims: "keepdims",
        select_last_index: "select_last_index",
    }
    /// `Asin(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Asin.html>
    direct asin = Asin(input: "input")
    /// `Asinh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Asinh.html>
    direct asinh = Asinh(input: "input")
    /// `Atan(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Atan.html>
    direct atan = Atan(input: "input")
    /// `Atanh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Atanh.html>
    direct atanh = Atanh(input: "input")
    /// `Attention(Q, K, V, attn_mask?, past_key?, past_value?, nonpad_kv_seqlen?) -> Y, present_key?, present_value?, qk_matmul_output?`, <https://onnx.ai/onnx/operators/onnx__Attention.html>
    call attention = Attention(q: "Q", k: "K", v: "V") {
        attn_mask: "attn_mask",
        past_key: "past_key",
        past_value: "past_value",
        nonpad_kv_seqlen: "nonpad_kv_seqlen",
        is_causal: "is_causal",
        kv_num_heads: "kv_num_heads",
        left_window_size: "left_window_size",
        q_num_heads: "q_num_heads",
        qk_matmul_output_mode: "qk_matmul_output_mode",
        right_window_size: "right_window_size",
        scale: "scale",
        softcap: "softcap",
        softmax_precision: "softmax_precision",
    }
    /// `AveragePool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__AveragePool.html>
    call average_pool = AveragePool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        count_include_pad: "count_include_pad",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `BatchNormalization(X, scale, B, input_mean, input_var) -> Y, running_mean?, running_var?`, <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html>
    call batch_normalization = BatchNormalization(x: "X", scale: "scale", b: "B", input_mean: "input_mean", input_var: "input_var") {
        epsilon: "epsilon",
        momentum: "momentum",
        training_mode: "training_mode",
    }
    /// `Bernoulli(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Bernoulli.html>
    call bernoulli = Bernoulli(input: "input") {
        dtype: "dtype",
        seed: "seed",
    }
    /// `BitCast(input) -> output`, <https://onnx.ai/onnx/operators/onnx__BitCast.html>
    call bit_cast = BitCast(input: "input") {
        to: "to",
    }
    /// `BitShift(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__BitShift.html>
    call bit_shift = BitShift(x: "X", y: "Y") {
        direction: "direction",
    }
    /// `BitwiseAnd(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseAnd.html>
    direct bitwise_and = BitwiseAnd(a: "A", b: "B")
    /// `BitwiseNot(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__BitwiseNot.html>
    direct bitwise_not = BitwiseNot(x: "X")
    /// `BitwiseOr(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseOr.html>
    direct bitwise_or = BitwiseOr(a: "A", b: "B")
    /// `BitwiseXor(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__BitwiseXor.html>
    direct bitwise_xor = BitwiseXor(a: "A", b: "B")
    /// `BlackmanWindow(size) -> output`, <https://onnx.ai/onnx/operators/onnx__BlackmanWindow.html>
    call blackman_window = BlackmanWindow(size: "size") {
        output_datatype: "output_datatype",
        periodic: "periodic",
    }
    /// `CastLike(input, target_type) -> output`, <https://onnx.ai/onnx/operators/onnx__CastLike.html>
    call cast_like = CastLike(input: "input", target_type: "target_type") {
        round_mode: "round_mode",
        saturate: "saturate",
    }
    /// `CausalConvWithState(input, weight, bias?, past_state?) -> output, present_state`, <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>
    call causal_conv_with_state = CausalConvWithState(input: "input", weight: "weight") {
        bias: "bias",
        past_state: "past_state",
        activation: "activation",
    }
    /// `Ceil(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Ceil.html>
    direct ceil = Ceil(x: "X")
    /// `Celu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Celu.html>
    call celu = Celu(x: "X") {
        alpha: "alpha",
    }
    /// `CenterCropPad(input_data, shape) -> output_data`, <https://onnx.ai/onnx/operators/onnx__CenterCropPad.html>
    call center_crop_pad = CenterCropPad(input_data: "input_data", shape: "shape") {
        axes: "axes",
    }
    /// `Clip(input, min?, max?) -> output`, <https://onnx.ai/onnx/operators/onnx__Clip.html>
    call clip = Clip(input: "input") {
        min: "min",
        max: "max",
    }
    /// `Col2Im(input, image_shape, block_shape) -> output`, <https://onnx.ai/onnx/operators/onnx__Col2Im.html>
    call col2_im = Col2Im(input: "input", image_shape: "image_shape", block_shape: "block_shape") {
        dilations: "dilations",
        pads: "pads",
        strides: "strides",
    }
    /// `Compress(input, condition) -> output`, <https://onnx.ai/onnx/operators/onnx__Compress.html>
    call compress = Compress(input: "input", condition: "condition") {
        axis: "axis",
    }
    /// `Concat(inputs...) -> concat_result`, <https://onnx.ai/onnx/operators/onnx__Concat.html>
    call concat = Concat(; ..inputs) {
        axis: "axis",
    }
    /// `ConcatFromSequence(input_sequence) -> concat_result`, <https://onnx.ai/onnx/operators/onnx__ConcatFromSequence.html>
    call concat_from_sequence = ConcatFromSequence(input_sequence: "input_sequence") {
        axis: "axis",
        new_axis: "new_axis",
    }
    /// `ConstantOfShape(input) -> output`, <https://onnx.ai/onnx/operators/onnx__ConstantOfShape.html>
    call constant_of_shape = ConstantOfShape(input: "input") {
        value: "value",
    }
    /// `Conv(X, W, B?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Conv.html>
    call conv = Conv(x: "X", w: "W") {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `ConvInteger(x, w, x_zero_point?, w_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__ConvInteger.html>
    call conv_integer = ConvInteger(x: "x", w: "w") {
        x_zero_point: "x_zero_point",
        w_zero_point: "w_zero_point",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `ConvTranspose(X, W, B?) -> Y`, <https://onnx.ai/onnx/operators/onnx__ConvTranspose.html>
    call conv_transpose = ConvTranspose(x: "X", w: "W") {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        output_padding: "output_padding",
        output_shape: "output_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `Cos(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Cos.html>
    direct cos = Cos(input: "input")
    /// `Cosh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Cosh.html>
    direct cosh = Cosh(input: "input")
    /// `CumProd(x, axis) -> y`, <https://onnx.ai/onnx/operators/onnx__CumProd.html>
    call cum_prod = CumProd(x: "x", axis: "axis") {
        exclusive: "exclusive",
        reverse: "reverse",
    }
    /// `CumSum(x, axis) -> y`, <https://onnx.ai/onnx/operators/onnx__CumSum.html>
    call cum_sum = CumSum(x: "x", axis: "axis") {
        exclusive: "exclusive",
        reverse: "reverse",
    }
    /// `DFT(input, dft_length?, axis?) -> output`, <https://onnx.ai/onnx/operators/onnx__DFT.html>
    call dft = DFT(input: "input") {
        dft_length: "dft_length",
        axis: "axis",
        inverse: "inverse",
        onesided: "onesided",
    }
    /// `DeformConv(X, W, offset, B?, mask?) -> Y`, <https://onnx.ai/onnx/operators/onnx__DeformConv.html>
    call deform_conv = DeformConv(x: "X", w: "W", offset: "offset") {
        b: "B",
        mask: "mask",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        offset_group: "offset_group",
        pads: "pads",
        strides: "strides",
    }
    /// `DepthToSpace(input) -> output`, <https://onnx.ai/onnx/operators/onnx__DepthToSpace.html>
    call depth_to_space = DepthToSpace(input: "input") {
        blocksize: "blocksize",
        mode: "mode",
    }
    /// `DequantizeLinear(x, x_scale, x_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__DequantizeLinear.html>
    call dequantize_linear = DequantizeLinear(x: "x", x_scale: "x_scale") {
        x_zero_point: "x_zero_point",
        axis: "axis",
        block_size: "block_size",
        output_dtype: "output_dtype",
    }
    /// `Det(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Det.html>
    direct det = Det(x: "X")
    /// `Div(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Div.html>
    direct div = Div(a: "A", b: "B")
    /// `Dropout(data, ratio?, training_mode?) -> output, mask?`, <https://onnx.ai/onnx/operators/onnx__Dropout.html>
    call dropout = Dropout(data: "data") {
        ratio: "ratio",
        training_mode: "training_mode",
        seed: "seed",
    }
    /// `DynamicQuantizeLinear(x) -> y, y_scale, y_zero_point`, <https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html>
    call dynamic_quantize_linear = DynamicQuantizeLinear(x: "x")
    /// `Einsum(Inputs...) -> Output`, <https://onnx.ai/onnx/operators/onnx__Einsum.html>
    call einsum = Einsum(; ..inputs) {
        equation: "equation",
    }
    /// `Elu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Elu.html>
    call elu = Elu(x: "X") {
        alpha: "alpha",
    }
    /// `Equal(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Equal.html>
    direct equal = Equal(a: "A", b: "B")
    /// `Erf(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Erf.html>
    direct erf = Erf(input: "input")
    /// `Exp(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Exp.html>
    direct exp = Exp(input: "input")
    /// `Expand(input, shape) -> output`, <https://onnx.ai/onnx/operators/onnx__Expand.html>
    direct expand = Expand(input: "input", shape: "shape")
    /// `EyeLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__EyeLike.html>
    call eye_like = EyeLike(input: "input") {
        dtype: "dtype",
        k: "k",
    }
    /// `Flatten(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Flatten.html>
    call flatten = Flatten(input: "input") {
        axis: "axis",
    }
    /// `Floor(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Floor.html>
    direct floor = Floor(x: "X")
    /// `GRU(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?`, <https://onnx.ai/onnx/operators/onnx__GRU.html>
    call gru = GRU(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        layout: "layout",
        linear_before_reset: "linear_before_reset",
    }
    /// `Gather(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__Gather.html>
    call gather = Gather(data: "data", indices: "indices") {
        axis: "axis",
    }
    /// `GatherElements(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__GatherElements.html>
    call gather_elements = GatherElements(data: "data", indices: "indices") {
        axis: "axis",
    }
    /// `GatherND(data, indices) -> output`, <https://onnx.ai/onnx/operators/onnx__GatherND.html>
    call gather_nd = GatherND(data: "data", indices: "indices") {
        batch_dims: "batch_dims",
    }
    /// `Gelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Gelu.html>
    call gelu = Gelu(x: "X") {
        approximate: "approximate",
    }
    /// `Gemm(A, B, C?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Gemm.html>
    call gemm = Gemm(a: "A", b: "B") {
        c: "C",
        alpha: "alpha",
        beta: "beta",
        trans_a: "transA",
        trans_b: "transB",
    }
    /// `GlobalAveragePool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalAveragePool.html>
    direct global_average_pool = GlobalAveragePool(x: "X")
    /// `GlobalLpPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalLpPool.html>
    call global_lp_pool = GlobalLpPool(x: "X") {
        p: "p",
    }
    /// `GlobalMaxPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__GlobalMaxPool.html>
    direct global_max_pool = GlobalMaxPool(x: "X")
    /// `Greater(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Greater.html>
    direct greater = Greater(a: "A", b: "B")
    /// `GreaterOrEqual(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__GreaterOrEqual.html>
    direct greater_or_equal = GreaterOrEqual(a: "A", b: "B")
    /// `GridSample(X, grid) -> Y`, <https://onnx.ai/onnx/operators/onnx__GridSample.html>
    call grid_sample = GridSample(x: "X", grid: "grid") {
        align_corners: "align_corners",
        mode: "mode",
        padding_mode: "padding_mode",
    }
    /// `GroupNormalization(X, scale, bias) -> Y`, <https://onnx.ai/onnx/operators/onnx__GroupNormalization.html>
    call group_normalization = GroupNormalization(x: "X", scale: "scale", bias: "bias") {
        epsilon: "epsilon",
        num_groups: "num_groups",
        stash_type: "stash_type",
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
    /// `HardSigmoid(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__HardSigmoid.html>
    call hard_sigmoid = HardSigmoid(x: "X") {
        alpha: "alpha",
        beta: "beta",
    }
    /// `HardSwish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__HardSwish.html>
    direct hard_swish = HardSwish(x: "X")
    /// `Hardmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Hardmax.html>
    call hardmax = Hardmax(input: "input") {
        axis: "axis",
    }
    /// `Identity(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Identity.html>
    direct identity = Identity(input: "input")
    /// `ImageDecoder(encoded_stream) -> image`, <https://onnx.ai/onnx/operators/onnx__ImageDecoder.html>
    call image_decoder = ImageDecoder(encoded_stream: "encoded_stream") {
        pixel_format: "pixel_format",
    }
    /// `InstanceNormalization(input, scale, B) -> output`, <https://onnx.ai/onnx/operators/onnx__InstanceNormalization.html>
    call instance_normalization = InstanceNormalization(input: "input", scale: "scale", b: "B") {
        epsilon: "epsilon",
    }
    /// `IsInf(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__IsInf.html>
    call is_inf = IsInf(x: "X") {
        detect_negative: "detect_negative",
        detect_positive: "detect_positive",
    }
    /// `IsNaN(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__IsNaN.html>
    direct is_nan = IsNaN(x: "X")
    /// `LRN(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LRN.html>
    call lrn = LRN(x: "X") {
        alpha: "alpha",
        beta: "beta",
        bias: "bias",
        size: "size",
    }
    /// `LSTM(X, W, R, B?, sequence_lens?, initial_h?, initial_c?, P?) -> Y?, Y_h?, Y_c?`, <https://onnx.ai/onnx/operators/onnx__LSTM.html>
    call lstm = LSTM(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        initial_c: "initial_c",
        p: "P",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        input_forget: "input_forget",
        layout: "layout",
    }
    /// `LayerNormalization(X, Scale, B?) -> Y, Mean?, InvStdDev?`, <https://onnx.ai/onnx/operators/onnx__LayerNormalization.html>
    call layer_normalization = LayerNormalization(x: "X", scale: "Scale") {
        b: "B",
        axis: "axis",
        epsilon: "epsilon",
        stash_type: "stash_type",
    }
    /// `LeakyRelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LeakyRelu.html>
    call leaky_relu = LeakyRelu(x: "X") {
        alpha: "alpha",
    }
    /// `Less(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Less.html>
    direct less = Less(a: "A", b: "B")
    /// `LessOrEqual(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__LessOrEqual.html>
    direct less_or_equal = LessOrEqual(a: "A", b: "B")
    /// `LinearAttention(query, key, value, past_state?, decay?, beta?) -> output, present_state`, <https://onnx.ai/onnx/operators/onnx__LinearAttention.html>
    call linear_attention = LinearAttention(query: "query", key: "key", value: "value") {
        past_state: "past_state",
        decay: "decay",
        beta: "beta",
        chunk_size: "chunk_size",
        kv_num_heads: "kv_num_heads",
        q_num_heads: "q_num_heads",
        scale: "scale",
        update_rule: "update_rule",
    }
    /// `Log(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Log.html>
    direct log = Log(input: "input")
    /// `LogSoftmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__LogSoftmax.html>
    call log_softmax = LogSoftmax(input: "input") {
        axis: "axis",
    }
    /// `LpNormalization(input) -> output`, <https://onnx.ai/onnx/operators/onnx__LpNormalization.html>
    call lp_normalization = LpNormalization(input: "input") {
        axis: "axis",
        p: "p",
    }
    /// `LpPool(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__LpPool.html>
    call lp_pool = LpPool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        p: "p",
        pads: "pads",
        strides: "strides",
    }
    /// `MatMul(A, B) -> Y`, <https://onnx.ai/onnx/operators/onnx__MatMul.html>
    direct mat_mul = MatMul(a: "A", b: "B")
    /// `MatMulInteger(A, B, a_zero_point?, b_zero_point?) -> Y`, <https://onnx.ai/onnx/operators/onnx__MatMulInteger.html>
    call mat_mul_integer = MatMulInteger(a: "A", b: "B") {
        a_zero_point: "a_zero_point",
        b_zero_point: "b_zero_point",
    }
    /// `Max(data_0...) -> max`, <https://onnx.ai/onnx/operators/onnx__Max.html>
    direct max = Max(; ..inputs)
    /// `MaxPool(X) -> Y, Indices?`, <https://onnx.ai/onnx/operators/onnx__MaxPool.html>
    call max_pool = MaxPool(x: "X") {
        auto_pad: "auto_pad",
        ceil_mode: "ceil_mode",
        dilations: "dilations",
        kernel_shape: "kernel_shape",
        pads: "pads",
        storage_order: "storage_order",
        strides: "strides",
    }
    /// `MaxRoiPool(X, rois) -> Y`, <https://onnx.ai/onnx/operators/onnx__MaxRoiPool.html>
    call max_roi_pool = MaxRoiPool(x: "X", rois: "rois") {
        pooled_shape: "pooled_shape",
        spatial_scale: "spatial_scale",
    }
    /// `MaxUnpool(X, I, output_shape?) -> output`, <https://onnx.ai/onnx/operators/onnx__MaxUnpool.html>
    call max_unpool = MaxUnpool(x: "X", i: "I") {
        output_shape: "output_shape",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `Mean(data_0...) -> mean`, <https://onnx.ai/onnx/operators/onnx__Mean.html>
    direct mean = Mean(; ..inputs)
    /// `MeanVarianceNormalization(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__MeanVarianceNormalization.html>
    call mean_variance_normalization = MeanVarianceNormalization(x: "X") {
        axes: "axes",
    }
    /// `MelWeightMatrix(num_mel_bins, dft_length, sample_rate, lower_edge_hertz, upper_edge_hertz) -> output`, <https://onnx.ai/onnx/operators/onnx__MelWeightMatrix.html>
    call mel_weight_matrix = MelWeightMatrix(num_mel_bins: "num_mel_bins", dft_length: "dft_length", sample_rate: "sample_rate", lower_edge_hertz: "lower_edge_hertz", upper_edge_hertz: "upper_edge_hertz") {
        output_datatype: "output_datatype",
    }
    /// `Min(data_0...) -> min`, <https://onnx.ai/onnx/operators/onnx__Min.html>
    direct min = Min(; ..inputs)
    /// `Mish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Mish.html>
    direct mish = Mish(x: "X")
    /// `Mod(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Mod.html>
    call mod_ = Mod(a: "A", b: "B") {
        fmod: "fmod",
    }
    /// `Mul(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Mul.html>
    direct mul = Mul(a: "A", b: "B")
    /// `Multinomial(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Multinomial.html>
    call multinomial = Multinomial(input: "input") {
        dtype: "dtype",
        sample_size: "sample_size",
        seed: "seed",
    }
    /// `Neg(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Neg.html>
    direct neg = Neg(x: "X")
    /// `NegativeLogLikelihoodLoss(input, target, weight?) -> loss`, <https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html>
    call negative_log_likelihood_loss = NegativeLogLikelihoodLoss(input: "input", target: "target") {
        weight: "weight",
        ignore_index: "ignore_index",
        reduction: "reduction",
    }
    /// `NonMaxSuppression(boxes, scores, max_output_boxes_per_class?, iou_threshold?, score_threshold?) -> selected_indices`, <https://onnx.ai/onnx/operators/onnx__NonMaxSuppression.html>
    call non_max_suppression = NonMaxSuppression(boxes: "boxes", scores: "scores") {
        max_output_boxes_per_class: "max_output_boxes_per_class",
        iou_threshold: "iou_threshold",
        score_threshold: "score_threshold",
        center_point_box: "center_point_box",
    }
    /// `NonZero(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__NonZero.html>
    direct non_zero = NonZero(x: "X")
    /// `Not(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Not.html>
    direct not = Not(x: "X")
    /// `OneHot(indices, depth, values) -> output`, <https://onnx.ai/onnx/operators/onnx__OneHot.html>
    call one_hot = OneHot(indices: "indices", depth: "depth", values: "values") {
        axis: "axis",
    }
    /// `Optional(input?) -> output`, <https://onnx.ai/onnx/operators/onnx__Optional.html>
    call optional = Optional() {
        input: "input",
        type_: "type",
    }
    /// `OptionalGetElement(input) -> output`, <https://onnx.ai/onnx/operators/onnx__OptionalGetElement.html>
    direct optional_get_element = OptionalGetElement(input: "input")
    /// `OptionalHasElement(input?) -> output`, <https://onnx.ai/onnx/operators/onnx__OptionalHasElement.html>
    call optional_has_element = OptionalHasElement() {
        input: "input",
    }
    /// `Or(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Or.html>
    direct or = Or(a: "A", b: "B")
    /// `PRelu(X, slope) -> Y`, <https://onnx.ai/onnx/operators/onnx__PRelu.html>
    direct p_relu = PRelu(x: "X", slope: "slope")
    /// `Pad(data, pads, constant_value?, axes?) -> output`, <https://onnx.ai/onnx/operators/onnx__Pad.html>
    call pad = Pad(data: "data", pads: "pads") {
        constant_value: "constant_value",
        axes: "axes",
        mode: "mode",
    }
    /// `Pow(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__Pow.html>
    direct pow = Pow(x: "X", y: "Y")
    /// `QLinearConv(x, x_scale, x_zero_point, w, w_scale, w_zero_point, y_scale, y_zero_point, B?) -> y`, <https://onnx.ai/onnx/operators/onnx__QLinearConv.html>
    call q_linear_conv = QLinearConv(x: "x", x_scale: "x_scale", x_zero_point: "x_zero_point", w: "w", w_scale: "w_scale", w_zero_point: "w_zero_point", y_scale: "y_scale", y_zero_point: "y_zero_point") {
        b: "B",
        auto_pad: "auto_pad",
        dilations: "dilations",
        group: "group",
        kernel_shape: "kernel_shape",
        pads: "pads",
        strides: "strides",
    }
    /// `QLinearMatMul(a, a_scale, a_zero_point, b, b_scale, b_zero_point, y_scale, y_zero_point) -> y`, <https://onnx.ai/onnx/operators/onnx__QLinearMatMul.html>
    direct q_linear_mat_mul = QLinearMatMul(a: "a", a_scale: "a_scale", a_zero_point: "a_zero_point", b: "b", b_scale: "b_scale", b_zero_point: "b_zero_point", y_scale: "y_scale", y_zero_point: "y_zero_point")
    /// `QuantizeLinear(x, y_scale, y_zero_point?) -> y`, <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>
    call quantize_linear = QuantizeLinear(x: "x", y_scale: "y_scale") {
        y_zero_point: "y_zero_point",
        axis: "axis",
        block_size: "block_size",
        output_dtype: "output_dtype",
        precision: "precision",
        saturate: "saturate",
    }
    /// `RMSNormalization(X, scale) -> Y`, <https://onnx.ai/onnx/operators/onnx__RMSNormalization.html>
    call rms_normalization = RMSNormalization(x: "X", scale: "scale") {
        axis: "axis",
        epsilon: "epsilon",
        stash_type: "stash_type",
    }
    /// `RNN(X, W, R, B?, sequence_lens?, initial_h?) -> Y?, Y_h?`, <https://onnx.ai/onnx/operators/onnx__RNN.html>
    call rnn = RNN(x: "X", w: "W", r: "R") {
        b: "B",
        sequence_lens: "sequence_lens",
        initial_h: "initial_h",
        activation_alpha: "activation_alpha",
        activation_beta: "activation_beta",
        activations: "activations",
        clip: "clip",
        direction: "direction",
        hidden_size: "hidden_size",
        layout: "layout",
    }
    /// `RandomNormal() -> output`, <https://onnx.ai/onnx/operators/onnx__RandomNormal.html>
    call random_normal = RandomNormal() {
        dtype: "dtype",
        mean: "mean",
        scale: "scale",
        seed: "seed",
        shape: "shape",
    }
    /// `RandomNormalLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__RandomNormalLike.html>
    call random_normal_like = RandomNormalLike(input: "input") {
        dtype: "dtype",
        mean: "mean",
        scale: "scale",
        seed: "seed",
    }
    /// `RandomUniform() -> output`, <https://onnx.ai/onnx/operators/onnx__RandomUniform.html>
    call random_uniform = RandomUniform() {
        dtype: "dtype",
        high: "high",
        low: "low",
        seed: "seed",
        shape: "shape",
    }
    /// `RandomUniformLike(input) -> output`, <https://onnx.ai/onnx/operators/onnx__RandomUniformLike.html>
    call random_uniform_like = RandomUniformLike(input: "input") {
        dtype: "dtype",
        high: "high",
        low: "low",
        seed: "seed",
    }
    /// `Range(start, limit, delta) -> output`, <https://onnx.ai/onnx/operators/onnx__Range.html>
    call range = Range(start: "start", limit: "limit", delta: "delta") {
        stash_type: "stash_type",
    }
    /// `Reciprocal(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Reciprocal.html>
    direct reciprocal = Reciprocal(x: "X")
    /// `ReduceL1(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceL1.html>
    call reduce_l1 = ReduceL1(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceL2(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceL2.html>
    call reduce_l2 = ReduceL2(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceLogSum(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceLogSum.html>
    call reduce_log_sum = ReduceLogSum(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceLogSumExp(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html>
    call reduce_log_sum_exp = ReduceLogSumExp(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMax(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMax.html>
    call reduce_max = ReduceMax(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMean(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMean.html>
    call reduce_mean = ReduceMean(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceMin(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceMin.html>
    call reduce_min = ReduceMin(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceProd(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceProd.html>
    call reduce_prod = ReduceProd(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceSum(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceSum.html>
    call reduce_sum = ReduceSum(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `ReduceSumSquare(data, axes?) -> reduced`, <https://onnx.ai/onnx/operators/onnx__ReduceSumSquare.html>
    call reduce_sum_square = ReduceSumSquare(data: "data") {
        axes: "axes",
        keepdims: "keepdims",
        noop_with_empty_axes: "noop_with_empty_axes",
    }
    /// `RegexFullMatch(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__RegexFullMatch.html>
    call regex_full_match = RegexFullMatch(x: "X") {
        pattern: "pattern",
    }
    /// `Relu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Relu.html>
    direct relu = Relu(x: "X")
    /// `Reshape(data, shape) -> reshaped`, <https://onnx.ai/onnx/operators/onnx__Reshape.html>
    call reshape = Reshape(data: "data", shape: "shape") {
        allowzero: "allowzero",
    }
    /// `Resize(X, roi?, scales?, sizes?) -> Y`, <https://onnx.ai/onnx/operators/onnx__Resize.html>
    call resize = Resize(x: "X") {
        roi: "roi",
        scales: "scales",
        sizes: "sizes",
        antialias: "antialias",
        axes: "axes",
        coordinate_transformation_mode: "coordinate_transformation_mode",
        cubic_coeff_a: "cubic_coeff_a",
        exclude_outside: "exclude_outside",
        extrapolation_value: "extrapolation_value",
        keep_aspect_ratio_policy: "keep_aspect_ratio_policy",
        mode: "mode",
        nearest_mode: "nearest_mode",
    }
    /// `ReverseSequence(input, sequence_lens) -> Y`, <https://onnx.ai/onnx/operators/onnx__ReverseSequence.html>
    call reverse_sequence = ReverseSequence(input: "input", sequence_lens: "sequence_lens") {
        batch_axis: "batch_axis",
        time_axis: "time_axis",
    }
    /// `RoiAlign(X, rois, batch_indices) -> Y`, <https://onnx.ai/onnx/operators/onnx__RoiAlign.html>
    call roi_align = RoiAlign(x: "X", rois: "rois", batch_indices: "batch_indices") {
        coordinate_transformation_mode: "coordinate_transformation_mode",
        mode: "mode",
        output_height: "output_height",
        output_width: "output_width",
        sampling_ratio: "sampling_ratio",
        spatial_scale: "spatial_scale",
    }
    /// `RotaryEmbedding(X, cos_cache, sin_cache, position_ids?) -> Y`, <https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html>
    call rotary_embedding = RotaryEmbedding(x: "X", cos_cache: "cos_cache", sin_cache: "sin_cache") {
        position_ids: "position_ids",
        interleaved: "interleaved",
        num_heads: "num_heads",
        rotary_embedding_dim: "rotary_embedding_dim",
    }
    /// `Round(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Round.html>
    direct round = Round(x: "X")
    /// `STFT(signal, frame_step, window?, frame_length?) -> output`, <https://onnx.ai/onnx/operators/onnx__STFT.html>
    call stft = STFT(signal: "signal", frame_step: "frame_step") {
        window: "window",
        frame_length: "frame_length",
        onesided: "onesided",
    }
    /// `ScatterElements(data, indices, updates) -> output`, <https://onnx.ai/onnx/operators/onnx__ScatterElements.html>
    call scatter_elements = ScatterElements(data: "data", indices: "indices", updates: "updates") {
        axis: "axis",
        reduction: "reduction",
    }
    /// `ScatterND(data, indices, updates) -> output`, <https://onnx.ai/onnx/operators/onnx__ScatterND.html>
    call scatter_nd = ScatterND(data: "data", indices: "indices", updates: "updates") {
        reduction: "reduction",
    }
    /// `Selu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Selu.html>
    call selu = Selu(x: "X") {
        alpha: "alpha",
        gamma: "gamma",
    }
    /// `SequenceAt(input_sequence, position) -> tensor`, <https://onnx.ai/onnx/operators/onnx__SequenceAt.html>
    direct sequence_at = SequenceAt(input_sequence: "input_sequence", position: "position")
    /// `SequenceConstruct(inputs...) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceConstruct.html>
    direct sequence_construct = SequenceConstruct(; ..inputs)
    /// `SequenceEmpty() -> output`, <https://onnx.ai/onnx/operators/onnx__SequenceEmpty.html>
    call sequence_empty = SequenceEmpty() {
        dtype: "dtype",
    }
    /// `SequenceErase(input_sequence, position?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceErase.html>
    call sequence_erase = SequenceErase(input_sequence: "input_sequence") {
        position: "position",
    }
    /// `SequenceInsert(input_sequence, tensor, position?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SequenceInsert.html>
    call sequence_insert = SequenceInsert(input_sequence: "input_sequence", tensor: "tensor") {
        position: "position",
    }
    /// `SequenceLength(input_sequence) -> length`, <https://onnx.ai/onnx/operators/onnx__SequenceLength.html>
    direct sequence_length = SequenceLength(input_sequence: "input_sequence")
    /// `Shape(data) -> shape`, <https://onnx.ai/onnx/operators/onnx__Shape.html>
    call shape = Shape(data: "data") {
        end: "end",
        start: "start",
    }
    /// `Shrink(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Shrink.html>
    call shrink = Shrink(input: "input") {
        bias: "bias",
        lambd: "lambd",
    }
    /// `Sigmoid(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Sigmoid.html>
    direct sigmoid = Sigmoid(x: "X")
    /// `Sign(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sign.html>
    direct sign = Sign(input: "input")
    /// `Sin(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sin.html>
    direct sin = Sin(input: "input")
    /// `Sinh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Sinh.html>
    direct sinh = Sinh(input: "input")
    /// `Size(data) -> size`, <https://onnx.ai/onnx/operators/onnx__Size.html>
    direct size = Size(data: "data")
    /// `Slice(data, starts, ends, axes?, steps?) -> output`, <https://onnx.ai/onnx/operators/onnx__Slice.html>
    call slice = Slice(data: "data", starts: "starts", ends: "ends") {
        axes: "axes",
        steps: "steps",
    }
    /// `Softmax(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Softmax.html>
    call softmax = Softmax(input: "input") {
        axis: "axis",
    }
    /// `SoftmaxCrossEntropyLoss(scores, labels, weights?) -> output, log_prob?`, <https://onnx.ai/onnx/operators/onnx__SoftmaxCrossEntropyLoss.html>
    call softmax_cross_entropy_loss = SoftmaxCrossEntropyLoss(scores: "scores", labels: "labels") {
        weights: "weights",
        ignore_index: "ignore_index",
        reduction: "reduction",
    }
    /// `Softplus(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Softplus.html>
    direct softplus = Softplus(x: "X")
    /// `Softsign(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Softsign.html>
    direct softsign = Softsign(input: "input")
    /// `SpaceToDepth(input) -> output`, <https://onnx.ai/onnx/operators/onnx__SpaceToDepth.html>
    call space_to_depth = SpaceToDepth(input: "input") {
        blocksize: "blocksize",
        mode: "mode",
    }
    /// `Split(input, split?) -> outputs...`, <https://onnx.ai/onnx/operators/onnx__Split.html>
    call split = Split(input: "input") {
        split: "split",
        axis: "axis",
        num_outputs: "num_outputs",
    }
    /// `SplitToSequence(input, split?) -> output_sequence`, <https://onnx.ai/onnx/operators/onnx__SplitToSequence.html>
    call split_to_sequence = SplitToSequence(input: "input") {
        split: "split",
        axis: "axis",
        keepdims: "keepdims",
    }
    /// `Sqrt(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Sqrt.html>
    direct sqrt = Sqrt(x: "X")
    /// `Squeeze(data, axes?) -> squeezed`, <https://onnx.ai/onnx/operators/onnx__Squeeze.html>
    call squeeze = Squeeze(data: "data") {
        axes: "axes",
    }
    /// `StringConcat(X, Y) -> Z`, <https://onnx.ai/onnx/operators/onnx__StringConcat.html>
    direct string_concat = StringConcat(x: "X", y: "Y")
    /// `StringNormalizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__StringNormalizer.html>
    call string_normalizer = StringNormalizer(x: "X") {
        case_change_action: "case_change_action",
        is_case_sensitive: "is_case_sensitive",
        locale: "locale",
        stopwords: "stopwords",
    }
    /// `StringSplit(X) -> Y, Z`, <https://onnx.ai/onnx/operators/onnx__StringSplit.html>
    call string_split = StringSplit(x: "X") {
        delimiter: "delimiter",
        maxsplit: "maxsplit",
    }
    /// `Sub(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Sub.html>
    direct sub = Sub(a: "A", b: "B")
    /// `Sum(data_0...) -> sum`, <https://onnx.ai/onnx/operators/onnx__Sum.html>
    direct sum = Sum(; ..inputs)
    /// `SwiGLU(A, B) -> Y`, <https://onnx.ai/onnx/operators/onnx__SwiGLU.html>
    call swi_glu = SwiGLU(a: "A", b: "B") {
        alpha: "alpha",
    }
    /// `Swish(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__Swish.html>
    call swish = Swish(x: "X") {
        alpha: "alpha",
    }
    /// `Tan(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Tan.html>
    direct tan = Tan(input: "input")
    /// `Tanh(input) -> output`, <https://onnx.ai/onnx/operators/onnx__Tanh.html>
    direct tanh = Tanh(input: "input")
    /// `TensorScatter(past_cache, update, write_indices?) -> present_cache`, <https://onnx.ai/onnx/operators/onnx__TensorScatter.html>
    call tensor_scatter = TensorScatter(past_cache: "past_cache", update: "update") {
        write_indices: "write_indices",
        axis: "axis",
        mode: "mode",
    }
    /// `TfIdfVectorizer(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__TfIdfVectorizer.html>
    call tf_idf_vectorizer = TfIdfVectorizer(x: "X") {
        max_gram_length: "max_gram_length",
        max_skip_count: "max_skip_count",
        min_gram_length: "min_gram_length",
        mode: "mode",
        ngram_counts: "ngram_counts",
        ngram_indexes: "ngram_indexes",
        pool_int64s: "pool_int64s",
        pool_strings: "pool_strings",
        weights: "weights",
    }
    /// `ThresholdedRelu(X) -> Y`, <https://onnx.ai/onnx/operators/onnx__ThresholdedRelu.html>
    call thresholded_relu = ThresholdedRelu(x: "X") {
        alpha: "alpha",
    }
    /// `Tile(input, repeats) -> output`, <https://onnx.ai/onnx/operators/onnx__Tile.html>
    direct tile = Tile(input: "input", repeats: "repeats")
    /// `TopK(X, K) -> Values, Indices`, <https://onnx.ai/onnx/operators/onnx__TopK.html>
    call top_k = TopK(x: "X", k: "K") {
        axis: "axis",
        largest: "largest",
        sorted: "sorted",
    }
    /// `Transpose(data) -> transposed`, <https://onnx.ai/onnx/operators/onnx__Transpose.html>
    call transpose = Transpose(data: "data") {
        perm: "perm",
    }
    /// `Trilu(input, k?) -> output`, <https://onnx.ai/onnx/operators/onnx__Trilu.html>
    call trilu = Trilu(input: "input") {
        k: "k",
        upper: "upper",
    }
    /// `Unique(X) -> Y, indices?, inverse_indices?, counts?`, <https://onnx.ai/onnx/operators/onnx__Unique.html>
    call unique = Unique(x: "X") {
        axis: "axis",
        sorted: "sorted",
    }
    /// `Unsqueeze(data, axes) -> expanded`, <https://onnx.ai/onnx/operators/onnx__Unsqueeze.html>
    direct unsqueeze = Unsqueeze(data: "data", axes: "axes")
    /// `Where(condition, X, Y) -> output`, <https://onnx.ai/onnx/operators/onnx__Where.html>
    direct where_ = Where(condition: "condition", x: "X", y: "Y")
    /// `Xor(A, B) -> C`, <https://onnx.ai/onnx/operators/onnx__Xor.html>
    direct xor = Xor(a: "A", b: "B")
}
