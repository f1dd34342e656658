//! Checkpoints for tests, whose tensors are those that a model asks for.

use crate::architecture::Target;
use crate::checkpoint::Checkpoint;
use crate::config::Config;
use crate::diag::Diagnostic;
use crate::{kinds, quantization, safetensors};
use bytes::Bytes;
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::lower;
use onnxd_plugin_sdk::pickle;
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

/// The same tensors as `torch.save` writes them.
pub(crate) fn pickled(tensors: &[safetensors::Stored]) -> Vec<u8> {
    let number = |n: usize| [b"M".as_slice(), &(n as u16).to_le_bytes()].concat();
    let numbers = |of: &[usize]| {
        let items = of.iter().flat_map(|n| number(*n));
        [b"(".to_vec(), items.collect(), b"t".to_vec()].concat()
    };
    let (mut items, mut members) = (vec![], vec![]);
    for (key, stored) in tensors.iter().enumerate() {
        let tensor = stored.tensor().expect("a tensor of a file that was read");
        let dims = tensor.dims();
        let strides: Vec<usize> =
            (1..=dims.len()).map(|axis| dims[axis..].iter().product()).collect();
        let key = char::from(b'a' + u8::try_from(key).expect("a few tensors"));
        let storage = format!("ctorch\nFloatStorage\nX\x01\0\0\0{key}").into_bytes();
        let call = [
            b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storage".to_vec(),
            storage,
            b"X\x03\0\0\0cpu".to_vec(),
            number(tensor.len()),
            b"tQK\0".to_vec(),
            numbers(dims),
            numbers(&strides),
            b"\x89ccollections\nOrderedDict\n)RtR".to_vec(),
        ];
        items.push((stored.name.as_str(), call.concat()));
        members.push((format!("data/{key}"), tensor.bytes()));
    }
    let dict = pickle::testing::dict(&items);
    members.insert(0, ("data.pkl".to_owned(), pickle::testing::pickle(&dict).into()));
    zip(&members)
}

/// A zip archive whose members are stored in one folder.
fn zip(members: &[(String, Bytes)]) -> Vec<u8> {
    let (mut file, mut directory) = (vec![], vec![]);
    let word = |n: usize| (n as u32).to_le_bytes();
    for (name, bytes) in members {
        let name = format!("archive/{name}");
        let sizes = [word(0), word(bytes.len()), word(bytes.len())].concat();
        let lengths = (name.len() as u32).to_le_bytes();
        let head = [&[20, 0, 0, 0, 0, 0, 0, 0, 0, 0][..], &sizes, &lengths].concat();
        let place = [&[0; 10][..], &word(file.len())].concat();
        directory.extend([b"PK\x01\x02\x14\0", &head[..], &place, name.as_bytes()].concat());
        file.extend([b"PK\x03\x04", &head[..], name.as_bytes(), bytes].concat());
    }
    let count = (members.len() as u16).to_le_bytes();
    let end = [
        &b"PK\x05\x06\0\0\0\0"[..],
        &count,
        &count,
        &word(directory.len()),
        &word(file.len()),
        &[0, 0],
    ];
    [&file[..], &directory, &end.concat()].concat()
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
    let described = kinds::family(&config, &kinds::named)?.describe(&config, None)?;
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
