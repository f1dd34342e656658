use crate::fixture::{self, complete};
use onnxd_plugin_sdk::ir::{Level, Model, Tensor, verify};
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

const WORDS: usize = 11;

/// A small `config.json` of a family.
fn config(kind: &str, more: &Value) -> Value {
    let mut config = json!({
        "model_type": kind, "vocab_size": WORDS, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2,
        "num_hidden_layers": 2, "intermediate_size": 12, "max_position_embeddings": 16, "head_dim": 4,
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// The same where sizes have the names of GPT-2.
fn old(kind: &str, more: &Value) -> Value {
    let mut config = json!({
        "model_type": kind, "vocab_size": WORDS, "n_embd": 16, "n_head": 4, "n_layer": 2, "n_positions": 16,
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

/// Each family, and each switch that changes the graph.
fn cases() -> Vec<Value> {
    let rope = |scaling: &Value| config("llama", &json!({ "rope_scaling": scaling }));
    let moe = json!({
        "num_experts": 4, "num_local_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 6,
        "shared_expert_intermediate_size": 6, "mlp_only_layers": [1],
    });
    let window = json!({ "sliding_window": 3 });
    let mut deepseek = json!({
        "qk_rope_head_dim": 2, "qk_nope_head_dim": 3, "v_head_dim": 5, "kv_lora_rank": 6, "q_lora_rank": 7,
        "n_routed_experts": 4, "n_shared_experts": 1, "moe_intermediate_size": 6, "num_experts_per_tok": 2,
        "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
    });
    let newest = config("deepseek_v3", &deepseek);
    deepseek["q_lora_rank"] = Value::Null;
    deepseek["topk_method"] = json!("group_limited_greedy");
    vec![
        newest,
        config("llama", &json!({})),
        config("llama", &json!({ "num_key_value_heads": 4, "tie_word_embeddings": true })),
        rope(&json!({ "type": "linear", "factor": 2 })),
        rope(&json!({ "type": "dynamic", "factor": 2 })),
        rope(&json!({ "rope_type": "yarn", "factor": 2, "original_max_position_embeddings": 8 })),
        rope(&json!({ "rope_type": "llama3", "factor": 2, "original_max_position_embeddings": 8 })),
        rope(
            &json!({ "rope_type": "longrope", "short_factor": [1, 2], "long_factor": [2, 3], "factor": 2 }),
        ),
        config("arcee", &json!({})),
        config("ernie4_5", &json!({})),
        config("seed_oss", &json!({})),
        config("mistral", &window),
        config("mixtral", &moe),
        config(
            "qwen2",
            &json!({ "use_sliding_window": true, "sliding_window": 3, "max_window_layers": 1 }),
        ),
        config("qwen3", &json!({})),
        config("qwen2_moe", &moe),
        config("qwen3_moe", &moe),
        config("phi", &json!({ "qk_layernorm": true })),
        config("phi3", &json!({})),
        config("gemma", &json!({})),
        config("gemma2", &window),
        config("gemma3_text", &json!({ "sliding_window": 3, "sliding_window_pattern": 2 })),
        config(
            "granite",
            &json!({ "embedding_multiplier": 3, "logits_scaling": 2, "residual_multiplier": 0.5 }),
        ),
        config("granitemoe", &moe),
        config("olmo", &json!({ "clip_qkv": 0.5 })),
        config("olmo2", &json!({})),
        config("smollm3", &json!({ "no_rope_layer_interval": 2 })),
        config("starcoder2", &window),
        config("stablelm", &json!({ "partial_rotary_factor": 0.5 })),
        config(
            "stablelm",
            &json!({ "partial_rotary_factor": 0.5, "use_parallel_residual": true, "qk_layernorm": true }),
        ),
        config("cohere", &json!({ "use_qk_norm": true })),
        config("cohere2", &json!({ "sliding_window": 3, "sliding_window_pattern": 2 })),
        config("glm", &json!({})),
        config("glm4", &json!({})),
        config("nemotron", &json!({})),
        config("gpt_oss", &moe),
        old("gpt2", &json!({ "scale_attn_by_inverse_layer_idx": true })),
        old("gpt_bigcode", &json!({})),
        old("gptj", &json!({ "rotary_dim": 2 })),
        config(
            "gpt_neo",
            &json!({ "num_heads": 4, "num_layers": 2, "attention_layers": ["global", "local"], "window_size": 3 }),
        ),
        config("gpt_neox", &json!({ "rotary_pct": 0.5 })),
        config("gpt_neox", &json!({ "rotary_pct": 0.5, "use_parallel_residual": false })),
        config("falcon", &json!({})),
        config("falcon", &json!({ "new_decoder_architecture": true, "num_kv_heads": 2 })),
        config("falcon", &json!({ "multi_query": false, "alibi": true, "parallel_attn": false })),
        config("opt", &json!({ "ffn_dim": 12 })),
        config("bloom", &json!({})),
        config("deepseek_v2", &deepseek),
    ]
}

/// Logits, and the cache, of `rows` of words where those before `pad` are none.
fn call(
    model: &Model,
    words: &[i64],
    pad: usize,
    past: &[(String, Tensor)],
) -> Vec<(String, Tensor)> {
    let before = past.first().map_or(0, |(_, cache)| cache.dims()[2]);
    let mut mask = vec![1i64; before + words.len()];
    mask[..pad].fill(0);
    let row = |values: &[i64]| Tensor::from_vec([1, values.len()], values.to_vec());
    let mut feeds = vec![("input_ids", row(words)), ("attention_mask", row(&mask))];
    let graph = &model.graph;
    let names: Vec<String> = graph.inputs()[2..].iter().map(|v| graph[*v].name.clone()).collect();
    for (name, input) in names.iter().zip(&graph.inputs()[2..]) {
        let present = name.replace("past_key_values", "present");
        let cache = past.iter().find(|(name, _)| *name == present).map(|(_, cache)| cache.clone());
        let dims = graph[*input].ty.as_ref().unwrap().shape().unwrap();
        let [heads, head] = [1, 3].map(|axis: usize| dims[axis].known().unwrap() as usize);
        feeds.push((
            name,
            cache.unwrap_or_else(|| Tensor::from_vec([1, heads, 0, head], Vec::<f32>::new())),
        ));
    }
    run(model, feeds).unwrap()
}

/// The logits of the last words.
fn last(outputs: &[(String, Tensor)], count: usize) -> Vec<f32> {
    let (name, logits) = &outputs[0];
    assert_eq!(name, "logits");
    let all = logits.as_slice::<f32>().unwrap();
    all[all.len() - count * WORDS..].to_vec()
}

fn same(a: &[f32], b: &[f32], what: &str) {
    let scale = a.iter().fold(1e-6f32, |most, x| most.max(x.abs()));
    assert!(a.iter().all(|x| x.is_finite()), "{what}: {a:?}");
    let worst = a.iter().zip(b).fold(0f32, |most, (a, b)| most.max((a - b).abs()));
    assert!(a.len() == b.len() && worst <= 1e-4 * scale, "{what}: {a:?} {b:?}");
}

/// A prompt in one call, in two, and behind padding gives the same; the words before count.
#[test]
fn the_cache_and_padding_change_nothing() {
    let words = [3, 1, 4, 1, 5, 9];
    for case in cases() {
        let text = case.to_string();
        let (tensors, model) = complete(&text, &[]);
        let newer = fixture::model(&text, &tensors, 24).unwrap();
        for model in [&model, &newer] {
            let found = verify(model, Level::Full);
            assert!(found.0.is_empty(), "{text}: {found}");
        }
        let whole = call(&model, &words, 0, &[]);
        same(
            &last(&whole, 6),
            &last(&call(&newer, &words, 0, &[]), 6),
            &format!("opset 24 {text}"),
        );
        let begun = call(&model, &words[..2], 0, &[]);
        let chunk = call(&model, &words[2..5], 0, &begun[1..]);
        let step = call(&model, &words[5..], 0, &chunk[1..]);
        let parts = [last(&begun, 2), last(&chunk, 3), last(&step, 1)].concat();
        same(&last(&whole, 6), &parts, &format!("cache {text}"));
        let padded = call(&model, &[&[0, 0], &words[..]].concat(), 2, &[]);
        same(&last(&whole, 6), &last(&padded, 6), &format!("padding {text}"));
        let other = call(&model, &[&[7], &words[1..]].concat(), 0, &[]);
        assert!(last(&other, 5) != last(&whole, 5), "the first word counts: {text}");
    }
}
