//! A network that is a TFLite model: which of its graphs, what goes in, what comes out, and the run between.

use super::item::LiteItem;
use super::model::{self, Model, Tensor};
use super::scope::{LiteRunner, Scope};
use super::table;
use super::types::dim;
use crate::model::{NetworkFormat, Ran};
use crate::ops::RowContext;
use crate::states;
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, refuse, shown};
use onnxd_plugin_sdk::ir::{DataType, ValueType};
use onnxd_plugin_sdk::lower::Driver;
use onnxd_plugin_sdk::{ExportOptions, Imported};
use std::collections::HashMap;

/// The signature that counts where there are several.
const SIGNATURE: &str = "serving_default";

/// The first version in which integers of 16 bits are quantized.
const QUANTIZES_INT16: i64 = 21;

const READER: NetworkFormat = NetworkFormat { name: "tflite", table };

/// What the params ask of a TFLite model, beside how it is written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Asked<'p> {
    /// The signature.
    pub(crate) signature: Option<&'p str>,
    /// Whether they name the version of ONNX's operators.
    pub(crate) opset_is_set: bool,
    /// Whether the result is quantized, so that weights that are quantized alone are quantized anew.
    pub(crate) quantized: bool,
}

/// Reads a model.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    bytes: &Bytes,
    asked: Asked<'_>,
    options: &mut ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let model = model::read(bytes)?;
    if !asked.opset_is_set && has_int16(&model) {
        options.opset = options.opset.max(QUANTIZES_INT16);
    }
    let ports = Ports::from_model(&model, asked.signature)?;
    // A quantizer takes a model with integers as one that is quantized already.
    let floats = asked.quantized && !model.is_quantized();
    crate::model::import(&READER, options, |driver, asked| {
        let (count, ran) = run(&model, &ports, driver, (options, floats, asked))?;
        let mut metadata = model.facts.clone();
        if count > 0 {
            // TFLite quantizes what such weights are multiplied by, so its results differ a little.
            let kept = if floats { "floats" } else { "integers" };
            let fact = format!("{count}, as {kept}: activations are not quantized");
            metadata.push(("source.integer_weights".to_owned(), fact));
        }
        Ok(Ran { metadata, ..ran })
    })
}

/// Whether activations are quantized to 16 bits.
fn has_int16(model: &Model) -> bool {
    let tensors = model.graphs.iter().flat_map(|graph| &graph.tensors);
    tensors
        .filter(|tensor| tensor.quantization.is_some() && !tensor.variable)
        .any(|tensor| tensor.dtype() == Some(DataType::Int16))
}

/// The graph that is converted, and the names and numbers of the tensors that go in and come out.
struct Ports {
    graph: usize,
    inputs: Vec<(String, usize)>,
    outputs: Vec<(String, usize)>,
}

impl Ports {
    /// As a signature names them: the one that is asked for, else the default one, else the only one. They are in the
    /// order of the graph. Without signatures, those of the first graph under their own names.
    fn from_model(model: &Model, wanted: Option<&str>) -> Result<Ports> {
        let find = |key: &str| model.signatures.iter().find(|signature| signature.key == key);
        let used_signature = match (wanted, model.signatures.as_slice()) {
            (Some(key), _) => Some(find(key).ok_or_else(|| choose(model, Some(key)))?),
            (None, []) => None,
            (None, [one]) => Some(one),
            (None, _) => Some(find(SIGNATURE).ok_or_else(|| choose(model, None))?),
        };
        let mut ports = match used_signature {
            Some(used_signature) => Ports {
                graph: used_signature.graph,
                inputs: used_signature.inputs.clone(),
                outputs: used_signature.outputs.clone(),
            },
            None => Ports { graph: 0, inputs: vec![], outputs: vec![] },
        };
        let graph = model.graphs.get(ports.graph).ok_or_else(|| {
            Diagnostic::new(Code::SourceSyntax, "The file has no graph of operators.")
        })?;
        let named = |all: &[usize]| -> Vec<(String, usize)> {
            all.iter().map(|index| (plain(&graph.tensors[*index].name), *index)).collect()
        };
        if used_signature.is_none() {
            (ports.inputs, ports.outputs) = (named(&graph.inputs), named(&graph.outputs));
        }
        let sort = |ports: &mut Vec<(String, usize)>, order: &[usize]| {
            let places: HashMap<usize, usize> = order
                .iter()
                .rev()
                .enumerate()
                .map(|(at, index)| (*index, order.len() - at))
                .collect();
            ports.sort_by_key(|(_, index)| places.get(index).copied().unwrap_or(usize::MAX));
        };
        sort(&mut ports.inputs, &graph.inputs);
        sort(&mut ports.outputs, &graph.outputs);
        refuse!(ports.outputs.is_empty() => Diagnostic::new(Code::SourceSyntax, "The network has no outputs."));
        let mut taken = HashMap::new();
        for (name, _) in ports.inputs.iter_mut().chain(&mut ports.outputs) {
            *name = states::fresh(if name.is_empty() { "tensor" } else { name }, &mut taken);
        }
        Ok(ports)
    }
}

/// The name of a tensor without what TensorFlow's exporters add to it.
fn plain(name: &str) -> String {
    name.strip_suffix(":0").unwrap_or(name).to_owned()
}

fn choose(model: &Model, wanted: Option<&str>) -> Diagnostic {
    let message = match wanted {
        Some(key) => format!("The model has no signature `{}`.", shown(key)),
        None => format!("The model has several signatures, and none is `{SIGNATURE}`."),
    };
    let all: Vec<&str> = model.signatures.iter().map(|found| found.key.as_str()).collect();
    let help = match all.is_empty() {
        true => "Leave `source.signature` unset: the model has no signatures.".to_owned(),
        false => format!("Set `source.signature` to one of: {}.", shown(&all.join(", "))),
    };
    Diagnostic::new(Code::ParamsBadValue, message).help(help)
}

/// Builds the graph; tells how many weights are quantized alone. Those become floats, if that is asked for.
fn run(
    model: &Model,
    ports: &Ports,
    driver: &Driver<'_, RowContext>,
    (options, floats, asked): (&ExportOptions, bool, &states::Asked),
) -> Result<(usize, Ran)> {
    let b = driver.builder();
    b.reserve(ports.outputs.iter().map(|(name, _)| name.clone()));
    states::reserve(b, asked);
    let graph = &model.graphs[ports.graph];
    let runner = LiteRunner::new(driver, model, (floats, asked));
    let scope = Scope::new(graph, String::new());
    let of = |(name, index): &(String, usize)| (name.clone(), graph.tensors[*index].dtype());
    let inputs: Vec<(String, Option<DataType>)> = ports.inputs.iter().map(of).collect();
    let inputs: Vec<_> = inputs.iter().map(|(name, dtype)| (name.as_str(), *dtype)).collect();
    let fixed = crate::model::fixed(b, options, &inputs)?;
    let mut at = 0;
    for ((name, index), fixed) in ports.inputs.iter().zip(fixed) {
        if let Some(var) = fixed {
            scope.set(*index, LiteItem::Tensor(var));
            continue;
        }
        let ty = input_type(options, at, name, &graph.tensors[*index])?;
        let var = b.input(name, ty);
        let item = match graph.tensors[*index].dtype() {
            Some(DataType::Complex64 | DataType::Complex128) => {
                let message = format!("The input `{}` is complex.", shown(name));
                driver.report(Diagnostic::new(Code::LayerUnsupported, message));
                LiteItem::Hole
            }
            _ => LiteItem::Tensor(var),
        };
        scope.set(*index, item);
        at += 1;
    }
    let wanted: Vec<usize> = ports.outputs.iter().map(|(_, index)| *index).collect();
    runner.run(&scope, &wanted)?;
    let mut lost = vec![];
    for (name, index) in &ports.outputs {
        let declared = graph.tensors[*index].dtype();
        match runner.item(&scope, *index)? {
            LiteItem::Tensor(var) => crate::model::output(driver, var, name, declared)?,
            LiteItem::Hole => lost.push(name.clone()),
            LiteItem::Handle(_) => crate::model::no_tensor(driver, name, "a variable or table"),
        }
    }
    runner.variables.unset().into_iter().for_each(|found| driver.report(found));
    let mut kept = runner.states.kept(b)?;
    runner.variables.keep(b, &mut kept)?;
    Ok((runner.alone.get(), Ran { lost, kept, ..Ran::default() }))
}

/// The type of an input as the file declares it, and sizes as the params say them.
fn input_type(
    options: &ExportOptions,
    at: usize,
    name: &str,
    tensor: &Tensor,
) -> Result<ValueType> {
    let dtype = tensor.dtype();
    let is_said = |dtype| options.input(at, name, dtype).shape().is_some();
    let is_open = !tensor.ranked && dtype.is_some_and(is_said);
    let sizes = || tensor.sizes().into_iter().map(dim).collect();
    crate::model::input_type(options, at, name, (dtype, (!is_open).then(sizes)))
}

#[cfg(test)]
mod tests;
