//! SavedModels: a graph with signatures, and its variables in a checkpoint beside it.

use super::bundle::Bundle;
use super::frozen;
use super::network::{self, Network, Port, type_of};
use super::node::Library;
use super::resources::Variables;
use super::restore::{self, Stored};
use super::run::Body;
use crate::files::Files;
use crate::params;
use crate::wire::proto::{Attr, MetaGraphDef, NodeDef, SavedModel, SignatureDef, TensorInfo};
use crate::wire::tensor::{dims_of, known_dims};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::{ExportOptions, Imported};
use prost::Message;
use std::collections::HashMap;

/// The network of a SavedModel.
pub(crate) const NETWORK: &str = "saved_model.pb";
/// The checkpoint beside it.
pub(crate) const CHECKPOINT: &str = "variables/variables";
/// The signature that counts where there are several.
const SIGNATURE: &str = "serving_default";

/// What of a SavedModel is converted.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) signature: Option<String>,
    pub(crate) tag: String,
    /// Tensors of the graph in place of a signature's.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl Choice {
    pub(crate) fn of(params: &params::Source) -> Choice {
        let (inputs, outputs) = (params.inputs(), params.outputs());
        Choice { signature: params.signature(), tag: params.tag(), inputs, outputs }
    }
}

/// Reads a SavedModel.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    files: &Files<'_>,
    choice: &Choice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let saved = SavedModel::decode(files.read(NETWORK)?).map_err(|e| {
        Diagnostic::new(Code::SourceSyntax, format!("The file is no SavedModel: {e}."))
    })?;
    import_saved(&saved, files, choice, options)
}

/// As [`import`], of the decoded file.
pub(crate) fn import_saved(
    saved: &SavedModel,
    files: &Files<'_>,
    choice: &Choice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let meta = graph_of(saved, &choice.tag)?;
    let Some(graph) = &meta.graph_def else {
        return Err(Diagnostic::new(Code::SourceSyntax, "The SavedModel has no graph.").into());
    };
    let mut network = match choice.outputs.is_empty() {
        true => {
            let signature = signature(meta, choice.signature.as_deref())?;
            let (inputs, outputs) = (ports(&signature.inputs)?, ports(&signature.outputs)?);
            let (variables, metadata) = (Variables::default(), vec![]);
            Network { graph, inputs, outputs, variables, metadata }
        }
        false => frozen::network(graph, &choice.inputs, &choice.outputs)?,
    };
    let checkpoint = Checkpoint::open(meta, files)?;
    network.variables = Variables::new(move |node| checkpoint.value(node));
    network::import(network, options)
}

/// The graph with a tag, or the only one.
fn graph_of<'s>(saved: &'s SavedModel, tag: &str) -> Result<&'s MetaGraphDef> {
    let tags = |meta: &'s MetaGraphDef| meta.meta_info_def.iter().flat_map(|info| &info.tags);
    let mut tagged = saved.meta_graphs.iter().filter(|meta| tags(meta).any(|found| found == tag));
    // Tags beside the one that is asked for are for other machines.
    let fewest = tagged.by_ref().min_by_key(|meta| tags(meta).count());
    match (fewest, saved.meta_graphs.as_slice()) {
        (Some(meta), _) | (None, [meta]) => Ok(meta),
        (None, []) => Err(Diagnostic::new(Code::SourceSyntax, "The SavedModel has no graph.")),
        (None, several) => {
            let all: Vec<String> = several
                .iter()
                .map(|meta| tags(meta).cloned().collect::<Vec<_>>().join(" + "))
                .collect();
            let message = format!("The SavedModel has no graph with the tag `{}`.", shown(tag));
            let help = format!("Set `source.tag` to one of: {}.", shown(&all.join(", ")));
            Err(Diagnostic::new(Code::ParamsBadValue, message).help(help))
        }
    }
}

/// The signature that is asked for, else the default one, else the only one.
fn signature<'m>(meta: &'m MetaGraphDef, wanted: Option<&str>) -> Result<&'m SignatureDef> {
    let mut all: Vec<(&String, &SignatureDef)> = meta
        .signature_def
        .iter()
        .filter(|(name, signature)| {
            wanted == Some(name)
                || !name.starts_with("__saved_model") && !signature.outputs.is_empty()
        })
        .collect();
    all.sort_by_key(|(name, _)| *name);
    let name = wanted.unwrap_or(SIGNATURE);
    if let Some((_, signature)) = all.iter().find(|(found, _)| *found == name) {
        return Ok(signature);
    }
    match (wanted, all.as_slice()) {
        (None, [(_, signature)]) => Ok(signature),
        (_, []) => {
            let message = "The SavedModel has no signature.";
            let help = "Save it with `signatures=`, or name its outputs with `source.outputs`.";
            Err(Diagnostic::new(Code::LayerUnsupported, message).help(help))
        }
        _ => {
            let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
            let message = format!("The SavedModel has no signature `{}`.", shown(name));
            let help = format!("Set `source.signature` to one of: {}.", shown(&names.join(", ")));
            Err(Diagnostic::new(Code::ParamsBadValue, message).help(help))
        }
    }
}

/// What a signature takes or gives, sorted as people count: `output_2` comes before `output_10`.
fn ports(infos: &HashMap<String, TensorInfo>) -> Result<Vec<Port>> {
    let mut all: Vec<(&String, &TensorInfo)> = infos.iter().collect();
    all.sort_by_cached_key(|(name, _)| (natural(name), name.as_str()));
    let port = |(name, info): (&String, &TensorInfo)| {
        if info.name.is_empty() {
            let message = format!("`{}` is sparse or ragged, not one tensor.", shown(name));
            return Err(Diagnostic::new(Code::LayerUnsupported, message));
        }
        let shape = info.tensor_shape.as_ref().and_then(dims_of);
        let ty = type_of(info.dtype, shape);
        Ok(Port { name: name.clone(), place: info.name.clone(), ty })
    };
    all.into_iter().map(port).collect()
}

/// Words and numbers of a name: numbers are compared by their length first.
fn natural(name: &str) -> Vec<(usize, String)> {
    let mut parts: Vec<(usize, String)> = vec![];
    let mut digits = None;
    for c in name.chars() {
        if digits != Some(c.is_ascii_digit()) {
            parts.push((0, String::new()));
            digits = Some(c.is_ascii_digit());
        }
        let Some((length, text)) = parts.last_mut() else { continue };
        text.push(c);
        *length += usize::from(c.is_ascii_digit());
    }
    parts
}

/// The values of variables.
struct Checkpoint<'a, 's> {
    /// `None` if the SavedModel has no variables.
    bundle: Option<Bundle<'s>>,
    stored: HashMap<&'a str, Stored>,
}

impl<'a, 's> Checkpoint<'a, 's> {
    fn open(meta: &'a MetaGraphDef, files: &'s Files<'s>) -> Result<Checkpoint<'a, 's>> {
        let graph = meta.graph_def.iter();
        let functions = graph.clone().flat_map(|graph| &graph.library).flat_map(|l| &l.function);
        let library: Library<'a> =
            functions.filter_map(|f| Some((f.signature.as_ref()?.name.as_str(), f))).collect();
        let nodes: &[NodeDef] = graph.map(|graph| graph.node.as_slice()).next().unwrap_or_default();
        let has_variables = nodes.iter().any(is_variable);
        let stored = restore::stored(meta, &Body::new(nodes), &library);
        // Weights that are missing are missed when they are read.
        let index = format!("{CHECKPOINT}.index");
        let bundle = match has_variables && (files.has(&index) || !stored.is_empty()) {
            true => Some(Bundle::open(files, CHECKPOINT)?),
            false => None,
        };
        Ok(Checkpoint { bundle, stored })
    }

    /// The value of the variable that a node makes.
    fn value(&self, node: &NodeDef) -> Result<Tensor> {
        let Some(bundle) = &self.bundle else { return Err(lacking(node)) };
        let tensor = match self.stored.get(node.name.as_str()) {
            Some(stored) => bundle.tensor(&stored.key, &stored.slice)?,
            // Checkpoints of TensorFlow 1 have variables by their names.
            None => match [shared_name(node), Some(node.name.as_str())]
                .into_iter()
                .flatten()
                .find(|name| bundle.has(name))
            {
                Some(name) => bundle.tensor(name, "")?,
                None => return Err(lacking(node)),
            },
        };
        check(node, &tensor)?;
        Ok(tensor)
    }
}

fn lacking(node: &NodeDef) -> Diagnostic {
    let name = shown(&node.name);
    let message = format!("The checkpoint has no value for the variable `{name}`.");
    Diagnostic::new(Code::WeightsMissing, message)
}

pub(crate) fn is_variable(node: &NodeDef) -> bool {
    matches!(node.op.as_str(), "VarHandleOp" | "Variable" | "VariableV2")
}

fn shared_name(node: &NodeDef) -> Option<&str> {
    match node.attr.get("shared_name")?.value.as_ref()? {
        Attr::S(bytes) => std::str::from_utf8(bytes).ok().filter(|name| !name.is_empty()),
        _ => None,
    }
}

/// Whether a tensor is of the type and shape that the node declares.
fn check(node: &NodeDef, tensor: &Tensor) -> Result<()> {
    let attr = |name: &str| node.attr.get(name).and_then(|attr| attr.value.as_ref());
    let dtype = match attr("dtype") {
        Some(Attr::Type(number)) => crate::wire::dtype::of(*number),
        _ => None,
    };
    let known = match attr("shape") {
        Some(Attr::Shape(shape)) => known_dims(Some(shape)).ok(),
        _ => None,
    };
    let fits = dtype.is_none_or(|dtype| dtype == tensor.dtype())
        && known.is_none_or(|dims| dims == tensor.dims());
    match fits {
        true => Ok(()),
        false => {
            let (name, dtype, dims) = (shown(&node.name), tensor.dtype(), tensor.dims());
            let message = format!(
                "The checkpoint has {dtype}{dims:?} for `{name}`, which is another type or shape."
            );
            Err(Diagnostic::new(Code::SourceSyntax, message))
        }
    }
}

#[cfg(test)]
mod tests;
