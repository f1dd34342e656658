//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { ""
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
    /// `CausalConvWithState(input, weight, bias?, past_state?) -> output, present_state`, <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>
    call causal_conv_with_state = CausalConvWithState(input: "input", weight: "weight") {
        bias: "bias",
        past_state: "past_state",
        activation: "activation",
    }
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
    /// `RotaryEmbedding(X, cos_cache, sin_cache, position_ids?) -> Y`, <https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html>
    call rotary_embedding = RotaryEmbedding(x: "X", cos_cache: "cos_cache", sin_cache: "sin_cache") {
        position_ids: "position_ids",
        interleaved: "interleaved",
        num_heads: "num_heads",
        rotary_embedding_dim: "rotary_embedding_dim",
    }
    /// `TensorScatter(past_cache, update, write_indices?) -> present_cache`, <https://onnx.ai/onnx/operators/onnx__TensorScatter.html>
    call tensor_scatter = TensorScatter(past_cache: "past_cache", update: "update") {
        write_indices: "write_indices",
        axis: "axis",
        mode: "mode",
    }
}
