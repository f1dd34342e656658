use crate::architecture::Target;
use crate::config::Config;
use crate::decoder::Mixer;
use crate::fixture::{self, complete};
use crate::kinds;
use crate::testing::{self, same_numbers};
use onnxd_plugin_sdk::ir::{Dim, Model, Tensor, ValueId, VerifyLevel, verify};
use onnxd_plugin_sdk::testing::run;
use serde_json::{Value, json};

const WORDS: usize = 11;

/// Each family, and each switch that changes the graph.
pub(crate) const CASES: &str = include_str!("cases.txt");

/// The `config.json` of a line of `CASES`.
pub(crate) fn config(line: &str) -> Value {
    let mut config = json!({
        "vocab_size": WORDS, "num_key_value_heads": 2, "intermediate_size": 12, "ffn_dim": 12, "head_dim": 4,
        "max_position_embeddings": 16, "n_positions": 16, "num_experts": 4, "num_local_experts": 4,
        "num_experts_per_tok": 2, "moe_intermediate_size": 6, "shared_expert_intermediate_size": 6,
        "mlp_only_layers": [1], "qk_rope_head_dim": 2, "qk_nope_head_dim": 3, "v_head_dim": 5, "kv_lora_rank": 6,
        "q_lora_rank": 7, "n_routed_experts": 4, "n_shared_experts": 1, "n_group": 2, "topk_group": 1,
        "first_k_dense_replace": 1,
    });
    for (size, names) in [
        (16, ["hidden_size", "n_embd", "d_model"].as_slice()),
        (4, &["num_attention_heads", "n_head", "n_heads", "num_heads"]),
        (2, &["num_hidden_layers", "n_layer", "n_layers", "num_layers"]),
    ] {
        names.iter().for_each(|name| config[*name] = json!(size));
    }
    testing::config_over(config, line)
}

#[test]
fn each_family_has_a_case_and_is_in_the_manual() {
    testing::check_list(super::FAMILIES.iter().map(|(kind, _)| *kind), CASES);
}

/// Logits, and the cache, of `rows` of words where those before `pad` are none.
fn call(
    model: &Model,
    words: &[i64],
    pad: usize,
    past: &[(String, Tensor)],
) -> Vec<(String, Tensor)> {
    let heads = past.iter().find(|(_, cache)| cache.rank() == 4);
    let before = heads.map_or(0, |(_, cache)| cache.dims()[2]);
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
        let size = |dim: &Dim| dim.known().unwrap_or(0) as usize;
        let empty: Vec<usize> = [1].into_iter().chain(dims[1..].iter().map(size)).collect();
        let zeros = vec![0f32; empty.iter().product()];
        feeds.push((name, cache.unwrap_or_else(|| Tensor::from_vec(empty, zeros))));
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

/// A prompt in one call, in two, and behind padding gives the same; the words before count.
#[test]
fn the_cache_and_padding_change_nothing() {
    let words = [3, 1, 4, 1, 5, 9];
    for case in testing::cases(CASES) {
        let text = config(case).to_string();
        let (tensors, model) = complete(&text, &[]);
        let newer = fixture::model(&text, &tensors, 24).unwrap();
        for model in [&model, &newer] {
            let found = verify(model, VerifyLevel::Full);
            assert!(found.0.is_empty(), "{text}: {found}");
        }
        let whole = call(&model, &words, 0, &[]);
        same_numbers(
            &last(&whole, 6),
            &last(&call(&newer, &words, 0, &[]), 6),
            &format!("opset 24 {case}"),
        );
        let begun = call(&model, &words[..2], 0, &[]);
        let chunk = call(&model, &words[2..5], 0, &begun[1..]);
        let step = call(&model, &words[5..], 0, &chunk[1..]);
        let parts = [last(&begun, 2), last(&chunk, 3), last(&step, 1)].concat();
        same_numbers(&last(&whole, 6), &parts, &format!("cache {case}"));
        let padded = call(&model, &[&[0, 0], &words[..]].concat(), 2, &[]);
        same_numbers(&last(&whole, 6), &last(&padded, 6), &format!("padding {case}"));
        let other = call(&model, &[&[7], &words[1..]].concat(), 0, &[]);
        assert!(last(&other, 5) != last(&whole, 5), "the first word counts: {case}");
    }
}

/// Models for ONNX Runtime GenAI, and those without a cache, give what others do.
#[test]
fn targets_change_no_numbers() {
    let words = [3, 1, 4, 1, 5, 9];
    let mut grouped = 0;
    for case in testing::cases(CASES) {
        let mut config = config(case);
        // Lists of factors are as long as a head of four has pairs, and heads of Mamba 2 divide its channels.
        if !case.contains("short_factor") && !case.starts_with("mamba2") {
            config["head_dim"] = json!(16);
        }
        let text = config.to_string();
        let (tensors, plain) = complete(&text, &[]);
        let genai = Target { is_genai: true, context: Some(16), ..Target::plain(23) };
        let genai = fixture::model_for(&text, &tensors, &genai).unwrap();
        let without = Target { has_cache: false, ..Target::plain(21) };
        let without = fixture::model_for(&text, &tensors, &without).unwrap();
        for model in [&genai, &without] {
            let found = verify(model, VerifyLevel::Full);
            assert!(found.0.is_empty(), "{text}: {found}");
        }
        let expected = last(&call(&plain, &words, 0, &[]), 6);
        same_numbers(
            &expected,
            &last(&call(&without, &words, 0, &[]), 6),
            &format!("no cache {case}"),
        );
        let has = |op: &str| genai.graph.nodes().any(|(_, node)| node.op == op);
        grouped += usize::from(has("GroupQueryAttention"));
        if case.starts_with("gpt_oss") {
            // The built-in executor has no sinks of that operator.
            continue;
        }
        let begun = call(&genai, &words[..4], 0, &[]);
        let step = call(&genai, &words[4..], 0, &begun[1..]);
        let parts = [last(&begun, 4), last(&step, 2)].concat();
        same_numbers(&expected, &parts, &format!("genai {case}"));
    }
    assert!(grouped > 20, "{grouped}");
}

/// The decoder of a family whose `config.json` says so much beside the sizes.
fn described(line: &str) -> Result<crate::decoder::Decoder, crate::diag::Diagnostic> {
    let config = config(line);
    let kind = config["model_type"].as_str().unwrap().to_owned();
    let c = crate::config::Config::parse(config.to_string().as_bytes()).unwrap();
    super::named(&kind).unwrap()(&c)
}

#[test]
fn what_transformers_fills_in_is_filled_in_or_asked_for() {
    for (line, told) in [
        (r#"gpt_oss {}"#, "`rope_scaling` is absent"),
        (r#"llama {"head_dim": 2147483648}"#, "`head_dim` is 2147483648"),
        (r#"llama {"num_attention_heads": 131072}"#, "`num_attention_heads` is 131072"),
        (r#"gpt2 {"n_embd": 4, "n_head": 8, "head_dim": null}"#, "`head_dim` is null"),
        (r#"lfm2 {"block_ffn_dim_multiplier": 1e300}"#, "`block_ffn_dim_multiplier`"),
        (r#"lfm2 {"full_attn_idxs": [2]}"#, "`full_attn_idxs` is [2]"),
        (r#"deepseek_v2 {"num_experts_per_tok": null}"#, "`num_experts_per_tok` is null"),
    ] {
        let found = described(line).unwrap_err();
        assert!(found.message.contains(told), "{line}: {}", found.message);
    }
    let windows =
        |line: &str| described(line).unwrap().layers.iter().filter_map(|l| l.window).count();
    let qwen = r#"qwen2 {"use_sliding_window": true, "max_window_layers": 1}"#;
    assert_eq!(windows(qwen), 1, "Transformers' window is 4096");
    assert_eq!(windows(r#"exaone4 {"layer_types": null, "sliding_window_pattern": 2}"#), 1);
    let turning =
        |line: &str| described(line).unwrap().layers.iter().filter_map(|l| l.rope).count();
    assert_eq!(turning(r#"cohere2 {"sliding_window": null}"#), 0);
}

/// The first names of fields win over those of Transformers.
#[test]
fn fields_of_the_first_lfm2_count() {
    let d = described(
        r#"lfm2 {"full_attn_idxs": [1], "block_auto_adjust_ff_dim": false, "block_ff_dim": 10, "tie_embedding": false,
            "tie_word_embeddings": true}"#,
    )
    .unwrap();
    let kinds: Vec<_> = d.layers.iter().map(|layer| layer.mixer).collect();
    assert_eq!(kinds, [Mixer::Conv(3), Mixer::Attention]);
    assert_eq!((d.mlp.inner, d.head_of_words.is_tied), (10, false));
    let all = described("lfm2 {}").unwrap().layers;
    assert!(all.iter().all(|layer| layer.mixer == Mixer::Attention));
}

/// What the description of a line notes.
fn notes(line: &str) -> String {
    let config = config(line);
    let c = crate::config::Config::parse(config.to_string().as_bytes()).unwrap();
    super::named(config["model_type"].as_str().unwrap()).unwrap()(&c).unwrap();
    c.notes().iter().map(|note| note.message.clone() + "\n").collect()
}

#[test]
fn what_releases_of_transformers_differ_in_is_noted() {
    let yarn = r#"{"rope_scaling": {"type": "yarn", "factor": 4, "original_max_position_embeddings": 4, "mscale": 1"#;
    for (line, is_noted) in [
        (format!(r#"deepseek_v2 {yarn}, "mscale_all_dim": 1}}}}"#), true),
        (format!(r#"deepseek_v2 {yarn}}}}}"#), false),
        (format!(r#"deepseek_v3 {yarn}, "mscale_all_dim": 1}}}}"#), false),
    ] {
        assert_eq!(notes(&line).contains("`mscale_all_dim` does not change"), is_noted, "{line}");
    }
    let groups =
        r#"mamba2 {"intermediate_size": null, "num_heads": 8, "state_size": 3, "n_groups": "#;
    assert!(notes(&format!("{groups}4}}")).contains("`mamba_ssm` norms each group by itself"));
    assert!(!notes(&format!("{groups}1}}")).contains("mamba_ssm"));
}

/// One root of the mean square for what comes out of a state, as of the norm before each layer.
#[test]
fn groups_of_a_state_are_normed_together() {
    for line in testing::cases(CASES).filter(|line| line.contains("n_groups")) {
        let text = config(line).to_string();
        let tensors = complete(&text, &[]).0;
        let model = fixture::model(&text, &tensors, 23).unwrap();
        let norms = model.graph.nodes().filter(|(_, node)| node.op == "RMSNormalization").count();
        let states = described(line).unwrap().layers;
        let states = states.iter().filter(|layer| layer.mixer == Mixer::State).count();
        let others = if line.starts_with("mamba2") { 2 } else { 4 };
        assert_eq!(norms, others + 1 + states, "{line}");
    }
}

/// Inputs of the grouped attentions of a model for ONNX Runtime GenAI, whose sequences may be so long.
fn grouped(line: &str, context: usize) -> Vec<Vec<Option<ValueId>>> {
    let text = config(line).to_string();
    let target = Target { is_genai: true, context: Some(context), ..Target::plain(23) };
    let model = fixture::model_for(&text, &complete(&text, &[]).0, &target).unwrap();
    let nodes = model.graph.nodes().filter(|(_, node)| node.op == "GroupQueryAttention");
    nodes.map(|(_, node)| node.inputs.clone()).collect()
}

/// Such inputs have the tables of cosines and sines at 7 and 8.
#[test]
fn tables_of_angles_are_shared_and_bounded() {
    let two = r#"gemma3_text {"head_dim": 16, "rope_theta": 100, "rope_local_base_freq": 100,
        "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 3}"#;
    let layers = grouped(two, 16);
    assert_eq!(layers.len(), 2);
    assert!(layers[0][7].is_some() && layers[0][7..9] == layers[1][7..9], "{layers:?}");
    let other = grouped(&two.replacen("100", "200", 1), 16);
    assert!(other[0][7] != other[1][7], "{other:?}");
    // Heads of 16 elements turn by 8 angles for each position.
    let longest = (1 << 23) / 8;
    for layer in grouped(r#"llama {"head_dim": 16}"#, longest + 1) {
        assert!(layer.len() < 8, "heads turn outside: {layer:?}");
    }
}

/// Nothing is within a bound below zero, and the proof applies it, too.
#[test]
fn bounds_of_queries_are_above_zero() {
    for line in [r#"olmo {"clip_qkv": -1}"#, r#"mpt {"attn_config": {"clip_qkv": 0}}"#] {
        let parsed = Config::parse(config(line).to_string().as_bytes()).unwrap();
        let family = kinds::family(&parsed, &kinds::named).unwrap();
        let found = family.describe(&parsed, None).map(|_| ()).unwrap_err().to_string();
        assert!(found.contains("clip_qkv"), "{found}");
    }
}
