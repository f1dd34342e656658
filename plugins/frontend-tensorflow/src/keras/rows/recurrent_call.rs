//! What recurrent layers are called with, and what their configurations say.

use super::activation::{OLD_HARD_SIGMOID, named, relu};
use crate::keras::layer::KerasLayer;
use crate::keras::runner::{CallArgs, KerasRunner};
use crate::keras::values::KerasItem;
use crate::ops::activation::leaky;
use crate::ops::recurrent::Activation;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::{self, refuse};
use onnxd_plugin_sdk::lower::{Lowered, Value};

/// What a layer is called on, its initial states and its mask.
pub(crate) struct RecurrentCall {
    pub(crate) x: Var,
    pub(crate) initial: Vec<Var>,
    pub(crate) mask: Option<Var>,
}

impl RecurrentCall {
    /// Reads a call. States stand behind the sequence in a list, or are an argument of their own.
    ///
    /// # Errors
    /// `N0204` if there is no tensor.
    pub(crate) fn from_given(b: &GraphBuilder, given: &CallArgs) -> Lowered<RecurrentCall> {
        let tensors = |item: Option<&KerasItem>| -> Vec<Var> {
            item.map(|item| item.leaves().into_iter().filter_map(KerasItem::tensor).collect())
                .unwrap_or_default()
        };
        let mut all = tensors(given.first());
        refuse!(all.is_empty() => b.wrong("The layer is called on no tensor."));
        let x = all.remove(0);
        let states = given.name("initial_state").or_else(|| given.positional.get(1));
        let initial = if all.is_empty() { tensors(states) } else { all };
        let mask = tensors(given.name("mask").or_else(|| given.positional.get(2)));
        Ok(RecurrentCall { x, initial, mask: mask.first().copied() })
    }
}

/// States that outlive a call, of layers that cannot have them as inputs and outputs.
pub(crate) fn refuse_stateful(b: &GraphBuilder, layer: &KerasLayer) -> Lowered<()> {
    if !layer.is("stateful") {
        return Ok(());
    }
    let message = "The layer keeps its states from one call to the next (`stateful`).";
    let help = "Give the states as `initial_state`, and take them with `return_state`.";
    Err(b.unsupported(message).help(help))
}

/// The activation that a configuration names, or has as a layer.
pub(crate) fn activation(
    runner: &KerasRunner<'_, '_>,
    layer: &KerasLayer,
    key: &str,
) -> Activation {
    if let Some(part) = layer.part(key) {
        return activation_layer(part);
    }
    let name = match runner.activation(layer, key) {
        Some(Value::Text(name)) => name,
        _ => "linear".to_owned(),
    };
    let onnx = Some(match name.as_str() {
        "tanh" => ("Tanh", None, None),
        "sigmoid" => ("Sigmoid", None, None),
        "relu" => ("Relu", None, None),
        "linear" => ("Affine", Some(1.0), Some(0.0)),
        "hard_sigmoid" => ("HardSigmoid", Some(1.0 / 6.0), Some(0.5)),
        OLD_HARD_SIGMOID => ("HardSigmoid", Some(0.2), Some(0.5)),
        "elu" => ("Elu", Some(1.0), None),
        "leaky_relu" => ("LeakyRelu", Some(0.2), None),
        "softsign" => ("Softsign", None, None),
        "softplus" => ("Softplus", None, None),
        _ => ("", None, None),
    });
    let onnx = onnx.filter(|(name, ..)| !name.is_empty());
    Activation { onnx, apply: Box::new(move |b, x| named(b, &name, x)) }
}

/// A layer that cells have as their activation; those with weights are refused.
fn activation_layer(part: &KerasLayer) -> Activation {
    let slope = part.real("negative_slope").or(part.real("alpha"));
    let (max, threshold) = (part.real("max_value"), part.real("threshold").unwrap_or(0.0));
    match part.class.as_str() {
        "LeakyReLU" => {
            let slope = slope.unwrap_or(0.3);
            let onnx = Some(("LeakyRelu", Some(slope as f32), None));
            Activation { onnx, apply: Box::new(move |b, x| leaky(b, x, slope)) }
        }
        "ReLU" => {
            let slope = slope.unwrap_or(0.0);
            let apply = move |b: &GraphBuilder, x| relu(b, x, max, slope, threshold);
            Activation { onnx: None, apply: Box::new(apply) }
        }
        other => {
            let name = other.to_owned();
            let refuse = move |b: &GraphBuilder, _: Var| {
                let name = diagnostics::shown(&name);
                let message =
                    format!("The layer `{name}` as the activation of a cell is not converted.");
                Err(b.unsupported(message))
            };
            Activation { onnx: None, apply: Box::new(refuse) }
        }
    }
}
