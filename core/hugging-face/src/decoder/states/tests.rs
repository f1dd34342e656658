use crate::architecture::Target;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::kinds;
use crate::{fixture, safetensors};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::lower;
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

fn config(more: &Value) -> String {
    let mut config = json!({
        "vocab_size": 11, "hidden_size": 16, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 4,
        "num_hidden_layers": 2, "intermediate_size": 12, "max_position_embeddings": 16, "n_embd": 16, "n_head": 4,
        "n_layer": 2, "n_positions": 16,
    });
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config.to_string()
}

fn model(
    config: &str,
    tensors: &Bytes,
    opset: i64,
    task: Option<&str>,
) -> Result<Model, Diagnostic> {
    let config = Config::parse(config.as_bytes())?;
    let described = kinds::family(&config, &kinds::named)?.describe(&config, task)?;
    let stored = safetensors::read("m.safetensors", tensors)?.into_iter();
    let mut checkpoint = Checkpoint::of(stored.map(|t| (t.name.clone(), t)).collect());
    checkpoint.under(described.prefixes());
    Ok(lower::model(described.graph(&checkpoint, &Target::plain(opset))?, opset))
}

/// Hidden states of the words of a row that has padding on both sides.
fn states(model: &Model, words: &[i64], [before, after]: [usize; 2]) -> Vec<f32> {
    let row = [&vec![0; before][..], words, &vec![0; after]].concat();
    let mask = (0..row.len())
        .map(|at| i64::from(at >= before && at < before + words.len()))
        .collect::<Vec<_>>();
    let matrix = |values: Vec<i64>| Tensor::from_vec([1, values.len()], values);
    let found = run(model, [("input_ids", matrix(row)), ("attention_mask", matrix(mask))]).unwrap();
    assert!(found.len() == 1 && found[0].0 == "last_hidden_state");
    found[0].1.as_slice::<f32>().unwrap()[before * 16..(before + words.len()) * 16].to_vec()
}

fn are_near(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-4)
}

#[test]
fn hidden_states_come_without_cache_and_padding_changes_nothing() {
    let words = [3, 1, 4, 1, 5];
    for (more, sees_both) in [
        (json!({ "model_type": "llama", "architectures": ["LlamaModel"] }), false),
        (json!({ "model_type": "gpt2", "architectures": ["GPT2Model"] }), false),
        (
            json!({ "model_type": "lfm2", "architectures": ["Lfm2Model"], "layer_types": ["conv", "full_attention"],
            "block_auto_adjust_ff_dim": false }),
            false,
        ),
        (
            json!({ "model_type": "mamba", "architectures": ["MambaModel"], "intermediate_size": 24, "state_size": 5,
            "conv_kernel": 3, "time_step_rank": 4 }),
            false,
        ),
        (
            json!({ "model_type": "gemma3_text", "architectures": ["Gemma3TextModel"], "sliding_window": 4,
            "layer_types": ["sliding_attention", "full_attention"], "use_bidirectional_attention": true }),
            true,
        ),
    ] {
        let text = config(&more);
        // The tensors of the same decoder with its scores of words.
        let with_head = text
            .replace("Model\"", "ForCausalLM\"")
            .replace("attention\":true", "attention\":false");
        let tensors = fixture::complete(&with_head, &[]).0;
        let model = |opset| self::model(&text, &tensors, opset, None).unwrap();
        let alone = states(&model(21), &words, [0, 0]);
        for (opset, pads) in [(21, [0, 2]), (21, [3, 0]), (24, [0, 0]), (24, [2, 1])] {
            let found = states(&model(opset), &words, pads);
            assert!(are_near(&alone, &found), "{opset} {pads:?} {more}: {alone:?} {found:?}");
        }
        let changed = states(&model(21), &[3, 1, 4, 1, 6], [0, 0]);
        assert_eq!(
            !are_near(&alone[..16], &changed[..16]),
            sees_both,
            "the last word, for the first: {more}"
        );
    }
}

#[test]
fn what_a_decoder_is_not_asked_for_is_told() {
    let refused = |more: Value, task: Option<&str>, words: &str| {
        let tensors = fixture::file(&[]);
        let found = model(&config(&more), &tensors, 21, task).unwrap_err();
        assert!(found.message.contains(words), "{words}: {}", found.message);
    };
    let llama = |more: Value| {
        let mut all = json!({ "model_type": "llama" });
        more.as_object().unwrap().iter().for_each(|(key, value)| all[key] = value.clone());
        all
    };
    refused(llama(json!({})), Some("fill-mask"), "`source.task` is `fill-mask`");
    refused(
        llama(json!({ "architectures": ["LlamaModel"] })),
        Some("text-generation"),
        "`architectures` is",
    );
    refused(
        llama(json!({ "architectures": ["GPT2DoubleHeadsModel"] })),
        None,
        "`architectures` is",
    );
    let own = json!({ "auto_map": { "AutoModel": "modeling.Both" } });
    refused(llama(own), Some("feature-extraction"), "`auto_map.AutoModel` is `modeling.Both`");
    refused(
        llama(json!({ "is_causal": false })),
        Some("feature-extraction"),
        "`is_causal` is false",
    );
    let both = json!({ "model_type": "gemma3_text", "use_bidirectional_attention": true });
    refused(both, None, "`use_bidirectional_attention` is true");
}
