//! Models of one operation that are converted and run.

mod functions;
mod keys;
mod limits;
mod linalg;
mod operations;
mod windows;

use crate::keras::fixture;
use crate::keras::hdf5::Hdf5;
use crate::keras::weights::by_paths;
use crate::keras::{config, converted};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::build::Operand;
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::DataType::{self, Float};
use onnxd_plugin_sdk::ir::{Model, Tensor, VerifyLevel, verify};

/// A tensor of a type with sizes; its elements are reals.
fn tensor(dtype: DataType, dims: &[usize], elements: &[f64]) -> Tensor {
    let tensor = Operand::Floats(elements.to_vec()).to_tensor(Some(dtype)).unwrap();
    tensor.reshaped(dims.to_vec()).unwrap()
}

fn floats(dims: &[usize], elements: &[f64]) -> Tensor {
    tensor(Float, dims, elements)
}

/// A model of inputs `x0`, `x1`, ... and the description of one more layer, named `y`.
fn model(feeds: &[Tensor], layer: &str, outputs: usize) -> String {
    let mut layers = vec![];
    for (i, feed) in feeds.iter().enumerate() {
        let (dims, dtype) = (feed.dims(), crate::keras::dtype::word(feed.dtype()));
        layers.push(format!(
            r#"{{"class_name": "InputLayer", "name": "x{i}", "inbound_nodes": [], "config": {{"name": "x{i}",
                "dtype": "{dtype}", "batch_shape": {dims:?}}}}}"#
        ));
    }
    layers.push(layer.to_owned());
    let inputs: Vec<String> = (0..feeds.len()).map(|i| format!(r#"["x{i}", 0, 0]"#)).collect();
    let outputs: Vec<String> = (0..outputs).map(|i| format!(r#"["y", 0, {i}]"#)).collect();
    format!(
        r#"{{"class_name": "Functional", "config": {{"name": "m", "layers": [{}], "input_layers": [{}],
            "output_layers": [{}]}}}}"#,
        layers.join(","),
        inputs.join(","),
        outputs.join(",")
    )
}

fn imported(
    text: &str,
    is_keras2: bool,
    groups: &fixture::Groups<'_>,
) -> Result<Model, Diagnostics> {
    let mut model = config::read(text.as_bytes(), is_keras2)?;
    let weights = Hdf5::open(fixture::weights(groups).into())?;
    by_paths(&weights, &mut model)?;
    let options = ExportOptions::of_shapes(18, vec![]);
    Ok(converted(&model, &weights, is_keras2, &options)?.model)
}

/// What a layer with weights gives.
fn ran_with(
    layer: &str,
    is_keras2: bool,
    feeds: &[Tensor],
    groups: &fixture::Groups<'_>,
) -> Result<Vec<Tensor>, Diagnostics> {
    run(&imported(&model(feeds, layer, 1), is_keras2, groups)?, feeds)
}

fn ran(text: &str, is_keras2: bool, feeds: &[Tensor]) -> Result<Vec<Tensor>, Diagnostics> {
    run(&imported(text, is_keras2, &[])?, feeds)
}

fn run(model: &Model, feeds: &[Tensor]) -> Result<Vec<Tensor>, Diagnostics> {
    let findings = verify(model, VerifyLevel::Full);
    assert!(findings.0.is_empty(), "{findings}");
    let feeds = (0..).zip(feeds).map(|(i, feed): (i64, _)| (format!("x{i}"), feed.clone()));
    let outputs = Executor::new(model)?.run(&feeds.collect(), RunOptions::default())?;
    Ok(outputs.into_iter().map(|(_, tensor)| tensor).collect())
}

/// What an operation of Keras 3 gives: its class, its configuration, and its arguments, in which `@0` is an input.
fn operations(
    class: &str,
    config: &str,
    args: &str,
    feeds: &[Tensor],
    outputs: usize,
) -> Result<Vec<Tensor>, Diagnostics> {
    let mut args = args.to_owned();
    for i in 0..feeds.len() {
        let history = format!(
            r#"{{"class_name": "__keras_tensor__", "config": {{"keras_history": ["x{i}", 0, 0]}}}}"#
        );
        args = args.replace(&format!("@{i}"), &history);
    }
    let layer = format!(
        r#"{{"module": "keras.src.ops", "class_name": "{class}", "name": "y",
            "config": {{"name": "y", {config}}}, "inbound_nodes": [{{"args": [{args}], "kwargs": {{}}}}]}}"#
    );
    let layer = layer.replace(r#""y", }"#, r#""y"}"#);
    ran(&model(feeds, &layer, outputs), false, feeds)
}

/// As [`operations`], of one result.
fn operation(
    class: &str,
    config: &str,
    args: &str,
    feeds: &[Tensor],
) -> Result<Tensor, Diagnostics> {
    Ok(operations(class, config, args, feeds, 1)?.remove(0))
}

/// What a function of TensorFlow in a model of Keras 2 gives, which is called on the first input.
fn function(name: &str, keywords: &str, feeds: &[Tensor]) -> Result<Tensor, Diagnostics> {
    let layer = format!(
        r#"{{"class_name": "TFOpLambda", "name": "y", "config": {{"name": "y", "trainable": true, "dtype": "float32",
            "function": "{name}"}}, "inbound_nodes": [["x0", 0, 0, {{{keywords}}}]]}}"#
    );
    Ok(ran(&model(feeds, &layer, 1), true, feeds)?.remove(0))
}

/// What a key of Keras 2 takes out of the first input.
fn slicing(key: &str, feeds: &[Tensor]) -> Result<Tensor, Diagnostics> {
    function("__operators__.getitem", &format!(r#""slice_spec": {key}"#), feeds)
}

fn reals(tensor: &Tensor) -> Vec<f64> {
    tensor.to_reals().unwrap().values
}

/// The codes and messages of findings.
fn findings(result: Result<impl Sized, Diagnostics>) -> Vec<String> {
    let found = result.err().map_or(vec![], |found| found.0);
    found.into_iter().map(|found| format!("{} {}", found.code, found.message)).collect()
}
