//! SavedModels: a graph with signatures, and its variables in a checkpoint beside it.

use super::checkpoint::Checkpoint;
use super::frozen;
use super::network::{self, GraphNetwork, Port, type_of};
use super::variables::Variables;
use crate::files::{self, Files, NETWORK, TEXT};
use crate::params;
use crate::wire::proto::{GraphDef, MetaGraphDef, NodeDef, SavedModel, SignatureDef, TensorInfo};
use crate::wire::tensor::dims_of;
use crate::wire::text;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, shown};
use onnxd_plugin_sdk::{ExportOptions, Imported};
use prost::Message;
use std::collections::HashMap;

/// The checkpoint beside the network.
pub(crate) const CHECKPOINT: &str = "variables/variables";
/// The ending of the graph beside a checkpoint of TensorFlow 1.
pub(crate) const META: &str = ".meta";
/// The tag that counts where there are several graphs.
const TAG: &str = "serve";
/// The signature that counts where there are several.
const SIGNATURE: &str = "serving_default";

/// What of a SavedModel is converted.
#[derive(Debug, Default)]
pub(crate) struct SavedModelChoice {
    pub(crate) signature: Option<String>,
    pub(crate) tag: Option<String>,
    /// Tensors of the graph in place of a signature's.
    pub(crate) inputs: Vec<String>,
    pub(crate) outputs: Vec<String>,
}

impl SavedModelChoice {
    pub(crate) fn from_params(params: &params::Source) -> SavedModelChoice {
        let (inputs, outputs) = (params.inputs(), params.outputs());
        SavedModelChoice { signature: params.signature(), tag: None, inputs, outputs }
    }

    /// As [`SavedModelChoice::from_params`], of a file that may have several graphs.
    pub(crate) fn of_tagged(params: &params::Source) -> SavedModelChoice {
        SavedModelChoice { tag: params.tag(), ..SavedModelChoice::from_params(params) }
    }
}

/// The content of a SavedModel, or its outline.
///
/// # Errors
/// `N0103` if there is none; as [`decoded`].
pub(crate) fn read<M: Message + Default>(files: &Files<'_>) -> Result<M> {
    let network = if files.has(NETWORK) { NETWORK } else { TEXT };
    decoded(files.read(network)?, network == TEXT)
}

/// Reads a SavedModel.
///
/// # Errors
/// Everything that is wrong with it or cannot be said in ONNX.
pub(crate) fn import(
    files: &Files<'_>,
    choice: &SavedModelChoice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    import_saved(&read(files)?, files, choice, options)
}

/// A SavedModel of its bytes or text, or its outline.
///
/// # Errors
/// `N0201` if it is none.
pub(crate) fn decoded<M: Message + Default>(bytes: Bytes, is_text: bool) -> Result<M> {
    let bytes = if is_text { text::encoded(&bytes, "SavedModel")?.into() } else { bytes };
    files::decoded(bytes, "SavedModel")
}

/// As [`import`], of the decoded file.
pub(crate) fn import_saved(
    saved: &SavedModel,
    files: &Files<'_>,
    choice: &SavedModelChoice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    import_graph(graph_of(saved, choice.tag.as_deref())?, (files, CHECKPOINT), choice, options)
}

/// Reads the graph `PREFIX.meta` with the checkpoint `PREFIX` of TensorFlow 1.
///
/// # Errors
/// As [`import`].
pub(crate) fn import_checkpoint(
    files: &Files<'_>,
    prefix: &str,
    choice: &SavedModelChoice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let meta: MetaGraphDef =
        files::decoded(files.read(&format!("{prefix}{META}"))?, "graph of a checkpoint")?;
    import_graph(&meta, (files, prefix), choice, options)
}

/// Runs a graph with its checkpoint: the files, and what their names begin with.
fn import_graph(
    meta: &MetaGraphDef,
    (files, prefix): (&Files<'_>, &str),
    choice: &SavedModelChoice,
    options: &ExportOptions,
) -> std::result::Result<Imported, Diagnostics> {
    let Some(graph) = &meta.graph_def else {
        return Err(Diagnostic::new(Code::SourceSyntax, "The file has no graph.").into());
    };
    let mut network = network(meta, graph, choice)?;
    let checkpoint = Checkpoint::open(meta, files, prefix)?;
    network.variables = Variables::new(move |node, makers| checkpoint.value(node, makers));
    let imported = network::import(&network, options);
    match choice.outputs.is_empty() && is_unsigned(meta, choice) {
        true => imported.map_err(|found| frozen::guessed(graph, found)),
        false => imported,
    }
}

/// Whether nothing says what goes in and comes out.
fn is_unsigned(meta: &MetaGraphDef, choice: &SavedModelChoice) -> bool {
    let has_signature = !meta.signature_def.is_empty() || choice.signature.is_some();
    !has_signature && meta.meta_info_def.as_ref().is_none_or(|info| info.tags.is_empty())
}

/// What goes in and comes out: as the params say, else as a signature says. A graph of a checkpoint may have none.
fn network<'m>(
    meta: &'m MetaGraphDef,
    graph: &'m GraphDef,
    choice: &SavedModelChoice,
) -> Result<GraphNetwork<'m>> {
    if !choice.outputs.is_empty() {
        if choice.signature.is_some() {
            let message = "`source.signature` and `source.outputs` both say what comes out.";
            return Err(Diagnostic::new(Code::ParamsBadValue, message).help("Set one of them."));
        }
        return frozen::network(graph, &choice.inputs, &choice.outputs);
    }
    if is_unsigned(meta, choice) {
        refuse_training(graph)?;
        let mut network = frozen::network(graph, &choice.inputs, &[])?;
        // Placeholders of the loss, such as labels, are still there.
        network.inputs = frozen::needed(graph, network.inputs, &network.outputs);
        return Ok(network);
    }
    let signature = signature(meta, choice.signature.as_deref())?;
    let inputs = match choice.inputs.as_slice() {
        [] => ports(&signature.inputs)?,
        places => frozen::named(graph, "source.inputs", places)?,
    };
    let outputs = ports(&signature.outputs)?;
    let (variables, metadata) = (Variables::default(), vec![]);
    Ok(GraphNetwork { graph, inputs, outputs, variables, metadata })
}

/// In a graph that trains, what nothing reads is the loss and the steps, not the results.
fn refuse_training(graph: &GraphDef) -> Result<()> {
    let trains = |op: &str| {
        ["Apply", "ResourceApply", "SparseApply", "ResourceSparseApply"]
            .iter()
            .any(|begin| op.starts_with(begin))
    };
    let Some(node) = graph.node.iter().find(|node| trains(&node.op)) else { return Ok(()) };
    let message = format!(
        "The graph trains its variables (`{}`), so it does not tell what its results are.",
        shown(&node.name)
    );
    let results = results(graph);
    let help = match results.is_empty() {
        true => "Name the nodes of its results with `source.outputs`.".to_owned(),
        false => format!(
            "Name the nodes of its results with `source.outputs`; they may be among `{}`.",
            shown(&results.join("`, `"))
        ),
    };
    Err(Diagnostic::new(Code::LayerParameter, message).help(help))
}

/// Nodes that a graph that trains may have for its results: the last ones of operators that most often give them.
fn results(graph: &GraphDef) -> Vec<&str> {
    const RESULTS: [&str; 9] = [
        "Softmax", "LogSoftmax", "Sigmoid", "Tanh", "ArgMax", "TopKV2", "BiasAdd", "MatMul", "Add",
    ];
    const NAMED_MAX: usize = 8;
    let is_result = |node: &&NodeDef| {
        let is_training = ["gradients/", "save/", "train"].iter().any(|p| node.name.starts_with(p));
        RESULTS.contains(&node.op.as_str()) && !is_training && !node.name.contains("Initializer")
    };
    let found = graph.node.iter().rev().filter(is_result).map(|node| node.name.as_str());
    found.take(NAMED_MAX).collect()
}

/// The graph with a tag; without one that for serving, or the only one.
fn graph_of<'s>(saved: &'s SavedModel, wanted: Option<&str>) -> Result<&'s MetaGraphDef> {
    let tag = wanted.unwrap_or(TAG);
    let tags = |meta: &'s MetaGraphDef| meta.meta_info_def.iter().flat_map(|info| &info.tags);
    let mut tagged = saved.meta_graphs.iter().filter(|meta| tags(meta).any(|found| found == tag));
    // Tags beside the one that is asked for are for other machines.
    let fewest = tagged.by_ref().min_by_key(|meta| tags(meta).count());
    match (fewest, saved.meta_graphs.as_slice()) {
        (Some(meta), _) => Ok(meta),
        (None, [meta]) if wanted.is_none() => Ok(meta),
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

#[cfg(test)]
mod tests;
