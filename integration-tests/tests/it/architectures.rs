//! An architecture of checkpoints that a plugin adds: `plugins/example-architecture` in the built program.

use crate::hugging_face::{case_of, wrong_of};
use onnxd_integration_tests::{PLUGINS, converted, copied, folder_with};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

const PLUGIN: &str = "libexample_architecture.so";

/// Parts of Llama's names of weights, and what they are in Plume.
const WEIGHTS: [(&str, &str); 13] = [
    ("model.norm.", "plume.norm_f."),
    ("model.", "plume."),
    ("embed_tokens", "tokens"),
    (".layers.", ".blocks."),
    ("input_layernorm", "attn_norm"),
    ("post_attention_layernorm", "ffn_norm"),
    ("self_attn.q_proj", "attn.wq"),
    ("self_attn.k_proj", "attn.wk"),
    ("self_attn.v_proj", "attn.wv"),
    ("self_attn.o_proj", "attn.wo"),
    ("mlp.gate_proj", "ffn.w1"),
    ("mlp.up_proj", "ffn.w3"),
    ("mlp.down_proj", "ffn.w2"),
];

/// The same of fields of `config.json`.
const FIELDS: [(&str, &str); 6] = [
    ("hidden_size", "dim"),
    ("num_attention_heads", "n_heads"),
    ("num_key_value_heads", "n_kv_heads"),
    ("num_hidden_layers", "n_layers"),
    ("intermediate_size", "ffn_dim"),
    ("rms_norm_eps", "norm_eps"),
];

fn renamed(object: Map<String, Value>, rename: impl Fn(&str) -> String) -> Value {
    Value::Object(object.into_iter().map(|(key, value)| (rename(&key), value)).collect())
}

fn weight(name: &str) -> String {
    let name = WEIGHTS.iter().fold(name.to_owned(), |name, (from, to)| name.replace(from, to));
    name.replace("lm_head", "head")
}

/// The small Llama as a Plume: the same numbers under other names.
fn plume(model: &Path) {
    copied(&case_of("llama").join("model"), model);
    let read = |file: &str| -> Value {
        serde_json::from_slice(&fs::read(model.join(file)).unwrap()).unwrap()
    };
    let write = |file: &str, value: &Value| fs::write(model.join(file), value.to_string()).unwrap();
    let Value::Object(mut config) = read("config.json") else { panic!() };
    config.insert("model_type".into(), "plume".into());
    config.insert("architectures".into(), json!(["PlumeForCausalLM"]));
    let field = |key: &str| {
        FIELDS.iter().find(|(from, _)| *from == key).map_or(key, |(_, to)| to).to_owned()
    };
    write("config.json", &renamed(config, field));
    let mut index = read("model.safetensors.index.json");
    let map = index["weight_map"].as_object().unwrap().clone();
    index["weight_map"] = renamed(map, weight);
    write("model.safetensors.index.json", &index);
    for shard in ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] {
        let file = fs::read(model.join(shard)).unwrap();
        let (length, rest) = file.split_first_chunk().unwrap();
        let (header, data) = rest.split_at(u64::from_le_bytes(*length) as usize);
        let header = renamed(serde_json::from_slice(header).unwrap(), weight).to_string();
        let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), data].concat();
        fs::write(model.join(shard), file).unwrap();
    }
}

/// It computes what Llama does with the same weights, and takes no other checkpoint.
#[test]
fn a_plugin_adds_an_architecture_of_checkpoints() {
    let without = folder_with(&PLUGINS);
    plume(&without.path().join("model"));
    let (status, stderr, _) = converted(without.path(), "out", &["model"], &[]);
    assert_eq!(status, 3, "{stderr}");
    assert!(stderr.contains("`model_type` is `plume`"), "{stderr}");

    let folder = folder_with(&[&PLUGINS[..], &[PLUGIN]].concat());
    plume(&folder.path().join("model"));
    let (status, stderr, said) = converted(folder.path(), "out", &["model"], &[]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(said["recognition"]["plugin"], "org.onnxd.example-architecture", "{said}");
    assert_eq!(wrong_of("llama", &folder.path().join("out/model.onnx")), None);
    assert!(folder.path().join("out/tokenizer.json").exists());

    copied(&case_of("llama").join("model"), &folder.path().join("llama"));
    let (status, stderr, said) = converted(folder.path(), "other", &["llama"], &[]);
    assert_eq!(status, 0, "{stderr}");
    assert_eq!(said["recognition"]["plugin"], "org.onnxd.frontend-hf", "{said}");
}

/// A bound of the logits that its `config.json` asks for; what the function does not read is told.
#[test]
fn its_fields_count_and_others_are_told() {
    let folder = folder_with(&[&PLUGINS[..], &[PLUGIN]].concat());
    let model = folder.path().join("model");
    plume(&model);
    let config = fs::read_to_string(model.join("config.json")).unwrap();
    let more = "{\"logit_cap\": 0.5, \"magic\": 3,";
    fs::write(model.join("config.json"), config.replacen('{', more, 1)).unwrap();
    let (status, stderr, _) = converted(folder.path(), "out", &["model"], &[]);
    assert_eq!(status, 1, "{stderr}");
    assert!(stderr.contains("`magic` is 3") && !stderr.contains("logit_cap"), "{stderr}");
    assert!(wrong_of("llama", &folder.path().join("out/model.onnx")).is_some(), "a bound");
    let changed = config.replace("\"n_heads\":2", "\"n_heads\":3");
    assert_ne!(changed, config);
    fs::write(model.join("config.json"), changed).unwrap();
    let (status, stderr, _) = converted(folder.path(), "wrong", &["model"], &[]);
    assert_eq!(status, 2, "{stderr}");
    assert!(stderr.contains("`plume.blocks.0.attn.wq.weight`"), "{stderr}");
}
