//! `genai_config.json`, which ONNX Runtime GenAI reads beside the model.

use super::Decoder;
use crate::config::Config;
use crate::diag::shown;
use serde_json::{Map, Value, json};

pub(crate) const FILE: &str = "genai_config.json";

/// Tokens of a sequence where the file does not say.
const CONTEXT: usize = 2048;

/// Settings of a search and their defaults; those of `generation_config.json` win.
fn search() -> [(&'static str, Value); 12] {
    [
        ("diversity_penalty", json!(0.0)),
        ("do_sample", json!(false)),
        ("early_stopping", json!(true)),
        ("length_penalty", json!(1.0)),
        ("min_length", json!(0)),
        ("no_repeat_ngram_size", json!(0)),
        ("num_beams", json!(1)),
        ("num_return_sequences", json!(1)),
        ("repetition_penalty", json!(1.0)),
        ("temperature", json!(1.0)),
        ("top_k", json!(50)),
        ("top_p", json!(1.0)),
    ]
}

/// Settings and names of words that are said beside the model; what has another type than a runtime reads is noted.
struct Said<'s> {
    config: &'s Config,
    generation: &'s Map<String, Value>,
}

impl Said<'_> {
    /// The value of a key of `generation_config.json`, if it is of the kind that is wanted.
    fn get(&self, key: &str, is_wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        let value = self.generation.get(key).filter(|value| !value.is_null())?;
        if is_wanted(value) {
            return Some(value.clone());
        }
        let value = shown(&value.to_string());
        self.config.note(format!(
            "`{key}` is {value} in `generation_config.json`, which `{FILE}` cannot say."
        ));
        None
    }

    /// A word, or several, by their numbers.
    fn words(&self, key: &str) -> Option<Value> {
        let is_word = |value: &Value| match value {
            Value::Array(all) => !all.is_empty() && all.iter().all(Value::is_u64),
            one => one.is_u64(),
        };
        let own = || self.config.get(key).filter(|value| is_word(value)).cloned();
        self.get(key, is_word).or_else(own)
    }

    /// A setting of a search, which has the type of its default.
    fn setting(&self, key: &str, default: &Value) -> Value {
        let is_alike = |value: &Value| match default {
            Value::Bool(_) => value.is_boolean(),
            _ if default.is_u64() => value.is_u64(),
            _ => value.is_number(),
        };
        self.get(key, is_alike).unwrap_or_else(|| default.clone())
    }
}

/// The text of the file: facts of `config`, those of `generation_config.json` where there is one, and of the graph.
pub(crate) fn text(config: &Config, generation: &Map<String, Value>, decoder: &Decoder) -> String {
    let said = Said { config, generation };
    let end = said.words("eos_token_id");
    let first_end = match &end {
        Some(Value::Array(all)) => all.first().cloned(),
        other => other.clone(),
    };
    let context = config.context().unwrap_or(CONTEXT);
    let mut model = json!({
        "type": kind(config),
        "context_length": context,
        "vocab_size": decoder.vocabulary,
        "decoder": {
            "session_options": { "log_id": "onnxruntime-genai", "provider_options": [] },
            "filename": "model.onnx",
            "head_size": decoder.head,
            "hidden_size": decoder.hidden,
            "num_attention_heads": decoder.heads,
            "num_hidden_layers": decoder.layers.len(),
            "num_key_value_heads": decoder.kv_heads,
            "inputs": {
                "input_ids": "input_ids",
                "attention_mask": "attention_mask",
                "past_key_names": "past_key_values.%d.key",
                "past_value_names": "past_key_values.%d.value",
            },
            "outputs": {
                "logits": "logits",
                "present_key_names": "present.%d.key",
                "present_value_names": "present.%d.value",
            },
        },
    });
    let tokens = [
        ("bos_token_id", said.words("bos_token_id")),
        ("eos_token_id", end),
        ("pad_token_id", said.words("pad_token_id").or(first_end)),
    ];
    for (key, value) in tokens {
        if let Some(value) = value {
            model[key] = value;
        }
    }
    let settings = search().into_iter();
    let settings = settings.map(|(key, default)| (key.to_owned(), said.setting(key, &default)));
    let mut searching: Map<String, Value> = settings.collect();
    searching.insert("max_length".into(), json!(context));
    // The operator writes into a cache that is as long as it will be; other graphs make a longer one.
    searching.insert("past_present_share_buffer".into(), json!(decoder.is_grouped()));
    let whole = json!({ "model": model, "search": searching });
    format!("{whole:#}\n")
}

/// Families that ONNX Runtime GenAI 0.18 has a name for, beside those of the same name.
const NAMES: [(&str, &str); 2] = [("gpt_oss", "gptoss"), ("hunyuan_v1_dense", "hunyuandensev1")];
const SAME: [&str; 14] = [
    "ernie4_5", "gemma", "gemma2", "gemma3_text", "granite", "llama", "mistral", "nemotron",
    "olmo", "phi", "phi3", "qwen2", "qwen3", "smollm3",
];

/// The name of the family in ONNX Runtime GenAI; `decoder` is that of any other.
fn kind(config: &Config) -> &'static str {
    let family = config.word("model_type").ok().flatten().unwrap_or_default();
    let named = NAMES.iter().find(|(name, _)| *name == family).map(|(_, named)| *named);
    named.or_else(|| SAME.into_iter().find(|name| *name == family)).unwrap_or("decoder")
}
