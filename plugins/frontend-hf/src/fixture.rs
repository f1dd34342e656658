//! Checkpoints for tests, whose tensors are those that a decoder asks for.

use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::{architecture, safetensors};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::lower;
use serde_json::{Map, Value, json};

/// A file of float32 tensors with numbers that follow from their names.
pub(crate) fn file(tensors: &[(String, Vec<usize>)]) -> Bytes {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, dims) in tensors {
        let begin = data.len();
        let mut seed =
            name.bytes().fold(17u32, |all, b| all.wrapping_mul(31).wrapping_add(b.into()));
        for _ in 0..dims.iter().product() {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let number = (seed >> 8) as f32 / (1 << 24) as f32 - 0.5;
            data.extend(number.to_le_bytes());
        }
        let entry = json!({ "dtype": "F32", "shape": dims, "data_offsets": [begin, data.len()] });
        header.insert(name.clone(), entry);
    }
    let header = Value::Object(header).to_string();
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat().into()
}

/// The models of a network.
pub(crate) struct Models {
    pub(crate) first: Model,
    /// Others by the names of their files.
    pub(crate) further: Vec<(&'static str, Model)>,
}

/// The model of a `config.json` with these tensors.
pub(crate) fn model(config: &str, tensors: &Bytes, opset: i64) -> Result<Model, Diagnostic> {
    models(config, tensors, opset).map(|models| models.first)
}

/// The same of a network that may make several.
pub(crate) fn models(config: &str, tensors: &Bytes, opset: i64) -> Result<Models, Diagnostic> {
    let config = Config::parse(config.as_bytes())?;
    let described = architecture::family(&config)?.describe(&config)?;
    let stored = safetensors::read("m.safetensors", tensors)?;
    let mut checkpoint = Checkpoint::of(stored.into_iter().map(|t| (t.name.clone(), t)).collect());
    checkpoint.under(described.prefixes());
    let first = lower::model(described.graph(&checkpoint, opset)?, opset);
    let further = described.further(&checkpoint, opset)?.into_iter();
    let further = further.map(|(name, graph)| (name, lower::model(graph, opset))).collect();
    Ok(Models { first, further })
}

/// The tensors that `config.json` asks for, beside `more`, and its model: what is missing says its name and its shape.
pub(crate) fn complete(config: &str, more: &[(&str, &[usize])]) -> (Bytes, Model) {
    let (tensors, models) = complete_models(config, more);
    (tensors, models.first)
}

/// The same of a network that may make several.
pub(crate) fn complete_models(config: &str, more: &[(&str, &[usize])]) -> (Bytes, Models) {
    let mut tensors: Vec<_> =
        more.iter().map(|(name, dims)| ((*name).to_owned(), dims.to_vec())).collect();
    loop {
        let bytes = file(&tensors);
        let found = match models(config, &bytes, 21) {
            Ok(models) => return (bytes, models),
            Err(found) => found,
        };
        let words: Vec<&str> = found.message.split(['`', '[', ']']).collect();
        assert!(found.code == "N0209" && words.len() == 5, "{config}: {found}");
        let dims = words[3].split(", ").map(|size| size.parse().expect("a size")).collect();
        tensors.push((words[1].to_owned(), dims));
    }
}
