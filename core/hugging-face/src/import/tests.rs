use crate::config::BYTES_MAX;
use crate::diag::Severity;
use crate::fixture;
use onnxd_plugin_sdk::ir::{Model, Tensor};
use onnxd_plugin_sdk::testing::{self, Dropped, run};
use serde_json::{Value, json};

/// What an import leaves behind.
struct Done {
    model: Model,
    further: usize,
    files: Vec<String>,
    notes: String,
    /// Of these, what the verdict counts.
    findings: String,
    padding: Option<String>,
    genai: Value,
}

/// A folder with a `config.json` and the weights that it asks for.
fn folder(config: &Value) -> Dropped {
    let text = config.to_string();
    let weights = fixture::complete(&text, &[]).0;
    Dropped::file("m/config.json", text).and("m/model.safetensors", &weights)
}

fn imported(dropped: &Dropped) -> Done {
    let done = testing::import(&crate::HuggingFace, dropped).unwrap();
    let genai = done.files.get("genai_config.json");
    let told = done.log.notes.iter().map(|note| (note.severity(), note.message.clone() + "\n"));
    let told: Vec<(Severity, String)> = told.collect();
    let findings = told.iter().filter(|(severity, _)| *severity == Severity::Error);
    Done {
        genai: genai.map_or(Value::Null, |text| serde_json::from_slice(text).unwrap()),
        model: done.model,
        further: done.further.len(),
        files: done.files.into_keys().collect(),
        findings: findings.map(|(_, text)| text.as_str()).collect(),
        notes: told.iter().map(|(_, text)| text.as_str()).collect(),
        padding: done.log.metadata.get("hf.padding").cloned(),
    }
}

fn refused(dropped: &Dropped) -> String {
    testing::import(&crate::HuggingFace, dropped).unwrap_err().to_string()
}

fn outputs(done: &Done) -> Vec<&str> {
    let graph = &done.model.graph;
    graph.outputs().iter().map(|output| graph[*output].name.as_str()).collect()
}

fn with(mut config: Value, more: &Value) -> Value {
    for (key, value) in more.as_object().unwrap() {
        config[key] = value.clone();
    }
    config
}

fn bert() -> Value {
    json!({ "model_type": "bert", "vocab_size": 11, "hidden_size": 4, "num_attention_heads": 2,
        "num_hidden_layers": 1, "intermediate_size": 6, "max_position_embeddings": 8, "type_vocab_size": 1 })
}

fn llama() -> Value {
    json!({ "model_type": "llama", "vocab_size": 11, "hidden_size": 8, "num_attention_heads": 2,
        "num_hidden_layers": 1, "intermediate_size": 6, "max_position_embeddings": 8 })
}

fn t5() -> Value {
    json!({ "model_type": "t5", "vocab_size": 11, "d_model": 8, "num_layers": 2, "num_heads": 2, "d_kv": 3,
        "d_ff": 12 })
}

fn sound() -> Value {
    json!({ "model_type": "wav2vec2", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 12, "conv_dim": [4, 6], "conv_kernel": [5, 3], "conv_stride": [3, 2],
        "num_conv_pos_embeddings": 4, "num_conv_pos_embedding_groups": 2 })
}

#[test]
fn pointers_of_git_lfs_are_told() {
    const POINTER: &str = "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n";
    let config = Dropped::file("m/config.json", bert().to_string());
    for file in ["model.safetensors", "model.safetensors.index.json"] {
        let found = refused(&config.clone().and(format!("m/{file}"), POINTER));
        assert!(found.contains(&format!("`{file}` is a pointer of Git LFS")), "{found}");
        assert!(found.contains("git lfs pull"), "{found}");
    }
    let done = imported(&folder(&bert()).and("m/tokenizer.json", POINTER));
    assert!(done.notes.contains("`tokenizer.json` is a pointer of Git LFS"), "{}", done.notes);
}

#[test]
fn files_of_tokenizers_go_along() {
    let files = ["spm.model", "bpe.codes"];
    let all = files.iter().fold(folder(&bert()), |all, file| all.and(format!("m/{file}"), "x"));
    let done = imported(&all);
    assert!(files.iter().all(|file| done.files.contains(&(*file).to_owned())), "{:?}", done.files);
}

#[test]
fn what_genai_cannot_run_is_refused() {
    let of = |config: &Value| folder(config).param("export.runtime", "onnxruntime-genai");
    let mla = with(
        llama(),
        &json!({ "model_type": "deepseek_v2", "qk_rope_head_dim": 2, "qk_nope_head_dim": 3, "v_head_dim": 4,
            "kv_lora_rank": 6 }),
    );
    let found = refused(&of(&mla));
    assert!(
        found.contains("`deepseek_v2` in `config.json`, of which ONNX Runtime GenAI runs no model"),
        "{found}"
    );
    let found = refused(&of(&llama()).param("source.task", "feature-extraction"));
    assert!(found.contains("runs no model that gives hidden states alone"), "{found}");
    let said = "{\"top_p\": Infinity, \"top_k\": 7, \"early_stopping\": \"never\", \"eos_token_id\": [2, 3]}";
    let done = imported(&of(&llama()).and("m/generation_config.json", said));
    let search = &done.genai["search"];
    assert_eq!((&search["top_p"], &search["top_k"]), (&json!(1.0), &json!(7)));
    assert_eq!(search["early_stopping"], true);
    let ends = (&done.genai["model"]["eos_token_id"], &done.genai["model"]["pad_token_id"]);
    assert_eq!(ends, (&json!([2, 3]), &json!(2)));
    for told in ["`top_p` is \"Infinity\"", "`early_stopping` is \"never\""] {
        assert!(done.notes.contains(told), "{}", done.notes);
    }
    let long = " ".repeat(BYTES_MAX + 1);
    let found = refused(&of(&llama()).and("m/generation_config.json", long));
    assert!(found.contains("`generation_config.json` has"), "{found}");
}

/// Strictness is about fields that nothing reads, and not about what a user should know.
#[test]
fn notes_are_no_findings_of_strict_conversions() {
    let strict = |config: &Value| folder(config).param("source.strict", true);
    let noted =
        with(llama(), &json!({ "model_type": "gemma", "head_dim": 4, "hidden_act": "gelu" }));
    let done = imported(&strict(&noted));
    assert!(!done.notes.is_empty() && done.findings.is_empty(), "{}", done.findings);
    let found = refused(&strict(&with(noted, &json!({ "magic": 1 }))));
    assert!(found.contains("`magic` is 1 in `config.json`, which nothing reads"), "{found}");
}

/// A field that nothing reads may change what is computed. A tensor that nothing uses is one that Transformers leaves
/// out, too, and fields of training and of generation change nothing.
#[test]
fn the_verdict_counts_fields_that_nothing_reads() {
    let harmless = json!({
        "transformers_version": "4.57.0", "torch_dtype": "bfloat16", "dtype": "bfloat16", "use_cache": false,
        "initializer_range": 0.02, "attention_dropout": 0.1, "pretraining_tp": 1, "bos_token_id": 1,
        "eos_token_id": [2, 3], "_name_or_path": "x", "tokenizer_class": "LlamaTokenizer",
    });
    let config = with(llama(), &harmless);
    let weights = fixture::complete(&config.to_string(), &[("model.spare", &[3])]).0;
    let dropped = |config: &Value| {
        Dropped::file("m/config.json", config.to_string()).and("m/model.safetensors", &weights)
    };
    let done = imported(&dropped(&config));
    assert!(done.findings.is_empty() && done.notes.contains("`model.spare`"), "{}", done.notes);
    let done = imported(&dropped(&with(config, &json!({ "magic": 1, "rope_scaling": null }))));
    assert_eq!(done.findings, "`magic` is 1 in `config.json`, which nothing reads\n");
}

#[test]
fn a_decoder_beside_an_encoder_has_its_cache() {
    let found = refused(&folder(&t5()).param("export.cache", false));
    assert!(found.contains("`export.cache` is false"), "{found}");
}

#[test]
fn other_languages_of_a_model_are_told() {
    let config = with(
        sound(),
        &json!({ "do_stable_layer_norm": true, "feat_extract_norm": "layer", "adapter_attn_dim": 4 }),
    );
    let dropped =
        folder(&config).and("m/adapter.deu.safetensors", "").and("m/flax_model.msgpack", "");
    let done = imported(&dropped);
    assert!(done.padding.is_some_and(|told| told.contains("one length")));
    let told = done.notes;
    assert!(told.contains("those in `adapter.deu.safetensors` were not read"), "{told}");
    assert!(told.contains("safetensors; `flax_model.msgpack` were not read"), "{told}");
    let told = imported(&folder(&sound()).and("m/adapter.deu.safetensors", "")).notes;
    assert!(told.contains("safetensors; `adapter.deu.safetensors` were not read"), "{told}");
}

#[test]
fn heads_are_left_out_where_features_are_asked_for() {
    let vit = json!({ "model_type": "vit", "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
        "intermediate_size": 12, "image_size": 8, "patch_size": 4, "architectures": ["ViTForImageClassification"] });
    let ctc = with(sound(), &json!({ "architectures": ["Wav2Vec2ForCTC"] }));
    for config in [vit, ctc, t5()] {
        let dropped = folder(&config);
        let with_head = imported(&dropped);
        assert!(outputs(&with_head) == ["logits"] || config["model_type"] == "t5", "{config}");
        let done = imported(&dropped.clone().param("source.task", "feature-extraction"));
        assert_eq!(outputs(&done)[0], "last_hidden_state", "{config}");
        assert!(done.further == 0, "{config}");
        let found = refused(&dropped.param("source.task", "fill-mask"));
        assert!(found.contains("`source.task` is `fill-mask`"), "{found}");
    }
}

/// The encoder of T5 alone, as the class that ends with it has it, gives what it gives beside its decoder.
#[test]
fn an_encoder_without_its_decoder_gives_vectors_of_texts() {
    let both = folder(&t5());
    let alone =
        with(t5(), &json!({ "architectures": ["T5EncoderModel"], "is_encoder_decoder": false }));
    let alone = folder(&alone);
    let modules = json!([
        { "path": "", "type": "sentence_transformers.models.Transformer" },
        { "path": "1_Pooling", "type": "sentence_transformers.models.Pooling" },
    ]);
    let pooling = json!({ "word_embedding_dimension": 8, "pooling_mode_mean_tokens": true, "include_prompt": false });
    let sentence = alone.clone().and("m/modules.json", modules.to_string());
    let sentence = imported(&sentence.and("m/1_Pooling/config.json", pooling.to_string()));
    assert!(sentence.notes.contains("`include_prompt` is false"), "{}", sentence.notes);
    assert_eq!(outputs(&sentence), ["token_embeddings", "sentence_embedding"]);
    let call = |done: &Done| {
        let ids = Tensor::from_vec([1, 4], vec![3i64, 1, 4, 0]);
        let mask = Tensor::from_vec([1, 4], vec![1i64, 1, 1, 0]);
        let found = run(&done.model, [("input_ids", ids), ("attention_mask", mask)]).unwrap();
        found.into_iter().map(|(_, x)| x.as_slice::<f32>().unwrap().to_vec()).collect::<Vec<_>>()
    };
    let states = call(&imported(&both));
    assert_eq!(states, call(&imported(&alone)));
    let given = call(&sentence);
    assert_eq!(states[0], given[0]);
    for (i, mean) in given[1].iter().enumerate() {
        let sum: f32 = (0..3).map(|token| given[0][8 * token + i]).sum();
        assert!((sum / 3.0 - mean).abs() < 1e-5, "{given:?}");
    }
}

#[test]
fn a_model_below_the_head_gives_scores_by_its_words() {
    let base = with(t5(), &json!({ "architectures": ["T5Model"] }));
    let done = imported(&folder(&base));
    assert!(done.notes.contains("The class `T5Model` has no scores of words"), "{}", done.notes);
    assert_eq!(done.further, 1);
}

#[test]
fn a_folder_of_steps_may_have_clip_alone() {
    let tower = json!({ "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 12,
        "image_size": 8, "patch_size": 4, "vocab_size": 11, "max_position_embeddings": 8 });
    let clip = json!({ "model_type": "clip", "text_config": tower, "vision_config": tower, "projection_dim": 4 });
    let modules = json!([{ "path": "", "type": "sentence_transformers.models.CLIPModel" }]);
    let done = imported(&folder(&clip).and("m/modules.json", modules.to_string()));
    assert!(outputs(&done).contains(&"image_embeds"), "{:?}", outputs(&done));
}
