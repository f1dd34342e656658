//! Lists of tensors: TensorList and TensorArray.

use super::run::{Item, Runner, Scope};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;

/// A list of tensors.
#[derive(Debug)]
pub(crate) struct List {}

/// Runs a node of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    _runner: &Runner<'a, '_>,
    _scope: &Scope<'a>,
    _node: &'a NodeDef,
    _inputs: &[Item],
) -> Result<Option<Vec<Item>>> {
    Ok(None)
}
