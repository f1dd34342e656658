//! Variables and tables, which nodes reach by handles.

use super::run::{Item, Runner, Scope};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;

/// What a handle stands for.
#[derive(Debug)]
pub(crate) enum Resource {}

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
