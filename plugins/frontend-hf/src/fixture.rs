//! Checkpoints for tests, whose tensors are those that a model asks for.

use crate::architecture::Target;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::{kinds, quantization, safetensors};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::lower;
use serde_json::{Map, Value, json};

/// So many numbers from -0.5 to 0.5 that follow from a name.
pub(crate) fn numbers(name: &str, count: usize) -> Vec<f32> {
    let mut seed = name.bytes().fold(17u32, |all, b| all.wrapping_mul(31).wrapping_add(b.into()));
    let mut next = || {
        seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (seed >> 8) as f32 / (1 << 24) as f32 - 0.5
    };
    (0..count).map(|_| next()).collect()
}

/// A file of float32 tensors with numbers that follow from their names.
pub(crate) fn file(tensors: &[(String, Vec<usize>)]) -> Bytes {
    let (mut header, mut data) = (Map::new(), Vec::new());
    for (name, dims) in tensors {
        let begin = data.len();
        for number in numbers(name, dims.iter().product()) {
            // Variances are above zero.
            let number = if name.ends_with("running_var") { number + 1.0 } else { number };
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
    model_for(config, tensors, &Target::plain(opset))
}

/// The model for a target.
pub(crate) fn model_for(
    config: &str,
    tensors: &Bytes,
    target: &Target,
) -> Result<Model, Diagnostic> {
    models(config, tensors, target).map(|models| models.first)
}

/// The same of a network that may make several.
pub(crate) fn models(config: &str, tensors: &Bytes, target: &Target) -> Result<Models, Diagnostic> {
    let config = Config::parse(config.as_bytes())?;
    let scheme = quantization::scheme(&config)?;
    let described = kinds::family(&config)?.describe(&config, None)?;
    let stored = safetensors::read("m.safetensors", tensors)?;
    let mut checkpoint = Checkpoint::of(stored.into_iter().map(|t| (t.name.clone(), t)).collect());
    checkpoint.under(described.prefixes());
    checkpoint.by(scheme);
    let first = lower::model(described.graph(&checkpoint, target)?, target.opset);
    let further = described.further(&checkpoint, target)?.into_iter();
    let further = further.map(|(name, graph)| (name, lower::model(graph, target.opset))).collect();
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
        let found = match models(config, &bytes, &Target::plain(21)) {
            Ok(models) => return (bytes, models),
            Err(found) => found,
        };
        let words: Vec<&str> = found.message.split(['`', '[', ']']).collect();
        assert!(found.code == "N0209" && words.len() == 5, "{config}: {found}");
        let sizes = words[3].split(", ").filter(|size| !size.is_empty());
        let dims = sizes.map(|size| size.parse().expect("a size")).collect();
        tensors.push((words[1].to_owned(), dims));
    }
}
