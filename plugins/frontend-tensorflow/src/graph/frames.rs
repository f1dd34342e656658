//! Conditions and loops of TensorFlow 1: Switch and Merge, and frames of Enter, Exit, NextIteration and LoopCond.

use super::run::{Item, Runner, Scope};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::Code;

/// Whether a node runs before its inputs do, because not all of them may run.
pub(crate) fn is_lazy(op: &str) -> bool {
    matches!(op, "Exit" | "RefExit" | "Merge" | "RefMerge")
}

/// Runs a node of this family.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    index: usize,
) -> Result<Vec<Item>> {
    let node = &scope.body.nodes[index];
    let message = "Control flow of TensorFlow 1 is not converted.";
    Ok(runner.refuse(scope, node, Code::LayerUnsupported, message))
}
