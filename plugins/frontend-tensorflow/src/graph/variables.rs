//! The variables of a graph and their values, which a checkpoint holds.

use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::ir::{Dim, Tensor, ValueType};

/// A variable with its value from the checkpoint.
#[derive(Debug)]
pub(crate) struct Variable {
    /// Its name, which no other variable has.
    pub(crate) name: String,
    pub(super) tensor: Tensor,
    /// Its value in the graph in which the handle was made.
    pub(super) var: Var,
}

/// Finds the value of a variable by its node, and by the nodes of the main graph that make the same one.
pub(super) type Find<'a> = Box<dyn Fn(&NodeDef, &[String]) -> Result<Tensor> + 'a>;

/// The values of variables. A frozen graph has none.
#[derive(Default)]
pub(crate) struct Variables<'a> {
    pub(super) find: Option<Find<'a>>,
}

impl<'a> Variables<'a> {
    pub(crate) fn new(find: impl Fn(&NodeDef, &[String]) -> Result<Tensor> + 'a) -> Variables<'a> {
        Variables { find: Some(Box::new(find)) }
    }
}

/// The type of a constant, for an input that stands for it.
pub(crate) fn type_of(tensor: &Tensor) -> ValueType {
    let sizes: Vec<Dim> = tensor.dims().iter().map(|n| Dim::Known(*n as i64)).collect();
    ValueType::tensor(tensor.dtype(), sizes)
}
