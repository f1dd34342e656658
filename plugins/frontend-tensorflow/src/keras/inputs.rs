//! Inputs and outputs of the whole model.

use super::dtype::{self, dtype_of_word};
use super::layer::EXPORT;
use super::layer::{Argument, KerasLayer, KerasNetwork, damaged};
use super::runner::{CallArgs, KerasRunner};
use super::values::KerasItem;
use crate::model::{self, Ran};
use onnxd_plugin_sdk::ExportOptions;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::{DataType, Dim};
use serde_json::Value as Json;

/// An input of the model.
#[derive(Clone, Debug, PartialEq)]
struct Port {
    name: String,
    dtype: DataType,
    shape: Option<Vec<Dim>>,
}

/// The element type and sizes that an `InputLayer` declares.
pub(super) fn declared(layer: &KerasLayer) -> Option<(DataType, Option<Vec<Dim>>)> {
    let config = &layer.config;
    let shape = config.get("batch_shape").or_else(|| config.get("batch_input_shape"));
    let batch = config.get("batch_size").or_else(|| config.get("batch_input_size"));
    let dims = shape.and_then(dims_of).or_else(|| {
        let rest = dims_of(config.get("shape").or_else(|| config.get("input_shape"))?)?;
        let batch = batch.and_then(Json::as_i64).map_or(Dim::Unknown, Dim::Known);
        Some([vec![batch], rest].concat())
    });
    let dtype = match config.get("dtype").and_then(Json::as_str) {
        Some(word) => dtype_of_word(word)?,
        None => dtype::computed(config),
    };
    Some((dtype, dims))
}

/// Sizes; null is one that varies.
fn dims_of(json: &Json) -> Option<Vec<Dim>> {
    let size = |json: &Json| match json {
        Json::Null => Some(Dim::Unknown),
        other => other.as_i64().filter(|n| *n >= 0).map(Dim::Known),
    };
    json.as_array()?.iter().map(size).collect()
}

/// Runs the whole model.
pub(super) fn run(
    runner: &KerasRunner<'_, '_>,
    model: &KerasLayer,
    options: &ExportOptions,
) -> Result<Ran> {
    let b = runner.builder();
    let Some(network) = &model.network else {
        let class = shown(&model.class);
        let message = format!("The model is a `{class}`, whose Python code is not in the file.");
        return Err(Diagnostic::new(Code::LayerUnsupported, message).help(EXPORT));
    };
    let ports = ports(network)?;
    let names = output_names(network);
    b.reserve(names.iter().cloned());
    runner.outputs.borrow_mut().extend(names.iter().cloned());
    let inputs: Vec<_> = ports.iter().map(|port| (port.name.as_str(), Some(port.dtype))).collect();
    let (mut at, mut items) = (0, vec![]);
    for (port, fixed) in ports.iter().zip(model::fixed(b, options, &inputs)?) {
        if let Some(var) = fixed {
            items.push(var.into());
            continue;
        }
        let declared = (Some(port.dtype), port.shape.clone());
        let ty = model::input_type(options, at, &port.name, declared)?;
        items.push(b.input(&port.name, ty).into());
        at += 1;
    }
    // The structure of inputs has one leaf for each port.
    let outputs = runner.network(network, "", &CallArgs::one(KerasItem::of(items)))?;
    let mut lost = vec![];
    for (i, item) in outputs.into_iter().enumerate() {
        let name = names.get(i).or(names.last()).map_or("output", String::as_str);
        match item {
            KerasItem::Tensor(var, _) => model::output(runner.driver, var, name, None)?,
            KerasItem::Hole => lost.push(name.to_owned()),
            _ => return Err(damaged(format!("The output `{}` is no tensor.", shown(name)))),
        }
    }
    let weights = runner.weights.take().unwrap_or_default().into_iter().map(|var| b.id(var));
    let (weights, kept) = (weights.collect::<Result<_>>()?, runner.states.kept(b)?);
    Ok(Ran { weights, lost, kept, ..Ran::default() })
}

/// What the model reads.
fn ports(network: &KerasNetwork) -> Result<Vec<Port>> {
    if network.is_sequence {
        return Ok(vec![first_port(network)?]);
    }
    let mut leaves = vec![];
    network.inputs.leaves(&mut leaves);
    let port = |leaf: &Argument| {
        let Argument::Place(place) = leaf else {
            return Err(damaged("An input of the model is no layer of it."));
        };
        let layer = network.layers.iter().find(|layer| layer.name == place.layer);
        match layer {
            Some(layer) => port_of(layer),
            None => Err(damaged(format!("The model has no input `{}`.", shown(&place.layer)))),
        }
    };
    leaves.into_iter().map(port).collect()
}

fn port_of(layer: &KerasLayer) -> Result<Port> {
    let name = layer.name.clone();
    for kind in ["sparse", "ragged"] {
        if layer.is(kind) {
            let message =
                format!("The input `{}` is {kind}, which ONNX does not have.", shown(&name));
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        }
    }
    match declared(layer) {
        Some((dtype, shape)) => Ok(Port { name, dtype, shape }),
        None => {
            let message =
                format!("The input `{}` is of a type that ONNX does not have.", shown(&name));
            Err(Diagnostic::new(Code::LayerUnsupported, message))
        }
    }
}

/// The input of a sequence, which may have been built without saying it.
fn first_port(network: &KerasNetwork) -> Result<Port> {
    let Some(first) = network.layers.first() else {
        return Err(Diagnostic::new(Code::SourceSyntax, "The model has no layers."));
    };
    if first.class == "InputLayer" {
        return port_of(first);
    }
    if let Some(inner) = &first.network
        && network.built.is_none()
    {
        let mut inner = ports(inner)?;
        if inner.len() == 1 {
            return Ok(inner.remove(0));
        }
    }
    let (dtype, shape) = match declared(first) {
        Some((dtype, shape)) => (dtype, shape),
        None => (DataType::Float, None),
    };
    let shape = network.built.as_ref().and_then(dims_of).or(shape);
    Ok(Port { name: format!("{}_input", first.name), dtype, shape })
}

/// What outputs are called: by their keys, else by the layers that compute them.
fn output_names(network: &KerasNetwork) -> Vec<String> {
    if network.is_sequence {
        return network.layers.last().map(|layer| layer.name.clone()).into_iter().collect();
    }
    match &network.outputs {
        Argument::Dict(items) if items.iter().all(|(_, a)| matches!(a, Argument::Place(_))) => {
            items.iter().map(|(key, _)| key.clone()).collect()
        }
        outputs => {
            let mut leaves = vec![];
            outputs.leaves(&mut leaves);
            let name = |leaf: &&Argument| match leaf {
                Argument::Place(place) => place.layer.clone(),
                _ => String::new(),
            };
            leaves.iter().map(name).collect()
        }
    }
}
