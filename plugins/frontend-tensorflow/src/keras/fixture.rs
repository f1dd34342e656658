//! Files of Keras, made in tests.

use crate::hdf5::testing::{Message, Writer, contiguous, text};
use std::io::Write;

/// Descriptions of small models, of both versions.
pub(crate) const MODELS: [&str; 3] = [SEQUENCE, FUNCTIONAL, OLD];

/// A sequence of version 3.
pub(crate) const SEQUENCE: &str = r#"{"module": "keras", "class_name": "Sequential", "config": {"name": "s", "layers": [
    {"module": "keras.layers", "class_name": "InputLayer", "config": {"batch_shape": [null, 4], "dtype": "float32",
     "name": "x"}},
    {"module": "keras.layers", "class_name": "Dense", "config": {"name": "d", "dtype": "float32", "units": 3,
     "activation": "relu", "use_bias": true}}]}}"#;

/// A functional model of version 3 that adds two calls of one layer.
pub(crate) const FUNCTIONAL: &str = r#"{"class_name": "Functional", "config": {"name": "f", "layers": [
    {"class_name": "InputLayer", "config": {"batch_shape": [null, 4], "dtype": "float32", "name": "x"}, "name": "x",
     "inbound_nodes": []},
    {"class_name": "Dense", "config": {"name": "d", "dtype": {"module": "keras", "class_name": "DTypePolicy",
     "config": {"name": "float32"}}, "units": 3, "activation": "softmax", "use_bias": true}, "name": "d",
     "inbound_nodes": [
      {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}], "kwargs": {}},
      {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["x", 0, 0]}}], "kwargs": {}}]},
    {"class_name": "Concatenate", "config": {"name": "c", "axis": -1}, "name": "c", "inbound_nodes": [
      {"args": [[{"class_name": "__keras_tensor__", "config": {"keras_history": ["d", 0, 0]}},
                 {"class_name": "__keras_tensor__", "config": {"keras_history": ["d", 1, 0]}}]], "kwargs": {}}]}],
    "input_layers": ["x", 0, 0], "output_layers": [["c", 0, 0], ["d", 1, 0]]}}"#;

/// A functional model of version 2, with a model inside.
pub(crate) const OLD: &str = r#"{"class_name": "Functional", "config": {"name": "f", "layers": [
    {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 4], "dtype": "float32", "name": "x"},
     "name": "x", "inbound_nodes": []},
    {"class_name": "Sequential", "config": {"name": "s", "layers": [
      {"class_name": "InputLayer", "config": {"batch_input_shape": [null, 4], "dtype": "float32", "name": "y"}},
      {"class_name": "LeakyReLU", "config": {"name": "l", "dtype": "float32", "alpha": 0.1}},
      {"class_name": "Reshape", "config": {"name": "r", "dtype": "float32", "target_shape": [2, 2]}}]},
     "name": "s", "inbound_nodes": [[["x", 0, 0, {}]]]},
    {"class_name": "Add", "config": {"name": "a", "dtype": "float32"}, "name": "a",
     "inbound_nodes": [[["s", 1, 0, {}], ["s", 1, 0, {}]]]}],
    "input_layers": [["x", 0, 0]], "output_layers": [["a", 0, 0]]}}"#;

/// Groups with their tensors, all of whose elements are counted through.
pub(crate) type Groups<'a> = [(&'a str, &'a [(&'a str, &'a [u64])])];

/// An HDF5 file.
pub(crate) fn weights(groups: &Groups<'_>) -> Vec<u8> {
    let mut file = Writer::new();
    let root = group(&mut file, "", groups, &[text("backend", "tensorflow")]);
    file.done(root)
}

/// Writes the group at `path`; where it is.
fn group(file: &mut Writer, path: &str, groups: &Groups<'_>, more: &[Message]) -> u64 {
    let mut links = vec![];
    for (name, shape) in groups.iter().filter(|(found, _)| *found == path).flat_map(|(_, all)| *all)
    {
        let count = shape.iter().product::<u64>();
        let data: Vec<u8> = (0..count).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect();
        let layout = contiguous(file.put(&data), data.len() as u64);
        links.push((*name, file.tensor(shape, layout, &[])));
    }
    let mut names: Vec<&str> =
        groups.iter().filter_map(|(found, _)| first_below(path, found)).collect();
    names.dedup();
    for name in names {
        let inner = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
        links.push((name, group(file, &inner, groups, &[])));
    }
    links.sort_unstable();
    file.group(&links, more)
}

/// The name in the group at `path` that leads to what lies below it.
fn first_below<'p>(path: &str, found: &'p str) -> Option<&'p str> {
    let rest = found.strip_prefix(path)?;
    let rest = if path.is_empty() { rest } else { rest.strip_prefix('/')? };
    rest.split('/').next()
}

/// A `.keras` file, whose members are stored as Keras does it.
pub(crate) fn archive(config: &str, weights: &[u8]) -> Vec<u8> {
    let mut zip = zip::ZipWriter::new(std::io::Cursor::new(vec![]));
    let options =
        zip::write::SimpleFileOptions::default().compression_method(zip::CompressionMethod::Stored);
    let version = br#"{"keras_version": "3.15.0"}"#;
    let members: [(&str, &[u8]); 3] = [
        ("metadata.json", version),
        ("config.json", config.as_bytes()),
        ("model.weights.h5", weights),
    ];
    for (name, bytes) in members {
        zip.start_file(name, options).expect("a file in memory");
        zip.write_all(bytes).expect("a file in memory");
    }
    zip.finish().expect("a file in memory").into_inner()
}
