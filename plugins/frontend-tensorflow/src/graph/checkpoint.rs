//! The values of a graph's variables, in a checkpoint beside it.

use super::bundle::Bundle;
use super::node;
use super::nodes::Nodes;
use super::restore::{self, CheckpointSlice};
use crate::files::Files;
use crate::wire::proto::{Attr, MetaGraphDef, NodeDef};
use crate::wire::tensor::known_dims;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::Tensor;
use std::collections::HashMap;

/// The values of variables.
pub(crate) struct Checkpoint<'a, 's> {
    /// `None` if the SavedModel has no variables.
    bundle: Option<Bundle<'s>>,
    stored: HashMap<&'a str, CheckpointSlice>,
}

impl<'a, 's> Checkpoint<'a, 's> {
    /// Reads the index `PREFIX.index`, if the graph has variables.
    ///
    /// # Errors
    /// As [`Bundle::open`].
    pub(crate) fn open(
        meta: &'a MetaGraphDef,
        files: &'s Files<'s>,
        prefix: &str,
    ) -> Result<Checkpoint<'a, 's>> {
        let graph = meta.graph_def.as_ref();
        let library = graph.map(node::library).unwrap_or_default();
        let nodes = graph.map_or(&[][..], |graph| &graph.node);
        let inner = library.values().flat_map(|function| &function.node_def);
        let has_variables = nodes.iter().chain(inner).any(|node| is_variable(&node.op));
        let stored = restore::stored(meta, &Nodes::new(nodes), &library);
        // Weights that are missing are missed when they are read.
        let index = format!("{prefix}.index");
        let bundle = match has_variables && (files.has(&index) || !stored.is_empty()) {
            true => Some(Bundle::open(files, prefix)?),
            false => None,
        };
        Ok(Checkpoint { bundle, stored })
    }

    /// The value of the variable that a node makes, as `makers` of the main graph do.
    ///
    /// # Errors
    /// `N0209` if there is none, `N0201` if it is damaged.
    pub(crate) fn value(&self, node: &NodeDef, makers: &[String]) -> Result<Tensor> {
        let Some(bundle) = &self.bundle else { return Err(lacking(node)) };
        let makers = || makers.iter().map(String::as_str);
        let tensor = match makers().find_map(|name| self.stored.get(name)) {
            Some(stored) => bundle.tensor(&stored.key, &stored.slice)?,
            // Checkpoints of TensorFlow 1 have variables by their names.
            None => match shared_name(node).into_iter().chain(makers()).find(|n| bundle.has(n)) {
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

pub(crate) fn is_variable(op: &str) -> bool {
    matches!(op, "VarHandleOp" | "Variable" | "VariableV2")
}

fn shared_name(node: &NodeDef) -> Option<&str> {
    word(node, "shared_name")
}

fn word<'n>(node: &'n NodeDef, attr: &str) -> Option<&'n str> {
    match node::attr(node, attr)? {
        Attr::S(bytes) => std::str::from_utf8(bytes).ok().filter(|word| !word.is_empty()),
        _ => None,
    }
}

/// What tells a variable from others: its shared name, wherever its node is; else its node, in the function that has
/// it.
pub(crate) fn identity(node: &NodeDef, function: Option<&str>) -> String {
    match (shared_name(node), word(node, "container"), function) {
        (Some(shared), None, _) => shared.to_owned(),
        (Some(shared), Some(container), _) => format!("{container}/{shared}"),
        (None, _, None) => node.name.clone(),
        (None, _, Some(function)) => format!("{}@{function}", node.name),
    }
}

/// Whether a tensor is of the type and shape that the node declares.
fn check(node: &NodeDef, tensor: &Tensor) -> Result<()> {
    let dtype = node::dtype(node, "dtype");
    let known = match node::attr(node, "shape") {
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
