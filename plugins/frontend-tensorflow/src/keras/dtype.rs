//! Element types by Keras' words, and policies: in which type a layer computes.

use onnxd_plugin_sdk::ir::DataType;
use serde_json::{Map, Value as Json};

const TYPES: [(&str, DataType); 13] = [
    ("float32", DataType::Float),
    ("float64", DataType::Double),
    ("float16", DataType::Float16),
    ("bfloat16", DataType::Bfloat16),
    ("bool", DataType::Bool),
    ("int8", DataType::Int8),
    ("int16", DataType::Int16),
    ("int32", DataType::Int32),
    ("int64", DataType::Int64),
    ("uint8", DataType::Uint8),
    ("uint16", DataType::Uint16),
    ("uint32", DataType::Uint32),
    ("uint64", DataType::Uint64),
];

pub(crate) fn dtype_of_word(word: &str) -> Option<DataType> {
    match word {
        "string" => Some(DataType::String),
        _ => TYPES.iter().find(|(name, _)| *name == word).map(|(_, dtype)| *dtype),
    }
}

pub(crate) fn word(dtype: DataType) -> &'static str {
    TYPES.iter().find(|(_, found)| *found == dtype).map_or("float32", |(word, _)| word)
}

/// The type in which a layer computes.
pub(crate) fn computed(config: &Map<String, Json>) -> DataType {
    policy(config.get("dtype"))
        .and_then(|name| {
            // Quantized layers: `int8_from_float32`.
            let name = name.rsplit_once("_from_").map_or(name, |(_, base)| base);
            dtype_of_word(name.strip_prefix("mixed_").unwrap_or(name))
        })
        .unwrap_or(DataType::Float)
}

/// The name of a policy: a word, or an object with a name.
fn policy(json: Option<&Json>) -> Option<&str> {
    let json = json?;
    if let Some(word) = json.as_str() {
        return Some(word);
    }
    let config = json.get("config")?;
    // A map of policies has one for layers that it does not name.
    config
        .get("name")
        .or_else(|| config.get("source_name"))
        .and_then(Json::as_str)
        .or_else(|| policy(config.get("default_policy")))
}

/// Runtimes have few kernels of `bfloat16`: what is rounded to it is computed in 32 bits, and rounded again.
pub(crate) fn kernel(dtype: DataType) -> DataType {
    if dtype == DataType::Bfloat16 { DataType::Float } else { dtype }
}
