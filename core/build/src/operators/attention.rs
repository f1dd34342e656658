//! Written by `UPDATE_EXPECT=1 cargo test -p onnxd-build`: a method for each operator.

use crate::macros::operators;

operators! { "" "https://onnx.ai/onnx/operators/onnx__"
    call attention = Attention(q "Q", k "K", v "V"; attn_mask, past_key, past_value, nonpad_kv_seqlen) { is_causal,
        kv_num_heads, left_window_size, q_num_heads, qk_matmul_output_mode, right_window_size, scale, softcap,
        softmax_precision } -> "Y, present_key?, present_value?, qk_matmul_output?"
    call causal_conv_with_state = CausalConvWithState(input, weight; bias, past_state) { activation } -> "output,
        present_state"
    call linear_attention = LinearAttention(query, key, value; past_state, decay, beta) { chunk_size, kv_num_heads,
        q_num_heads, scale, update_rule } -> "output, present_state"
    call rotary_embedding = RotaryEmbedding(x "X", cos_cache, sin_cache; position_ids) { interleaved, num_heads,
        rotary_embedding_dim } -> "Y"
    call tensor_scatter = TensorScatter(past_cache, update; write_indices) { axis, mode } -> "present_cache"
}
