//! What stands for a tensor of a graph while it runs.

use onnxd_plugin_sdk::build::Var;
use std::rc::Rc;

/// What stands for a tensor of a graph.
#[derive(Clone, Debug)]
pub(crate) enum LiteItem {
    /// As the tensor is stored.
    Tensor(Var),
    /// A handle of a variable.
    Handle(Rc<str>),
    /// What could not be converted; it was reported.
    Hole,
}
