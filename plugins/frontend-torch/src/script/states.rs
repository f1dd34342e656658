//! States that a method of a module keeps between calls: their types, the inputs that they become, and what is known of
//! what a run wrote.

use crate::archive::pickle::Pickled;
use crate::machine::{GraphNumber, Item, Machine, MutableObject, NumberKind, Result};
use onnxd_plugin_sdk::State;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{Tensor, ValueType};
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// A state that is an input of the graph.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct StateType {
    pub(super) ty: ValueType,
    /// Whether the program sets it to another value. Else it writes into the tensor, which may have several names.
    pub(super) is_set: bool,
}

/// States that are inputs of the graph, by their names.
pub(super) type Types = BTreeMap<String, StateType>;

/// Names of one value, and what it is by each.
type StateNames = Vec<(Rc<str>, &'static str)>;

/// What the loader and the run know of states.
#[derive(Default)]
pub(super) struct States {
    /// Those that are inputs of this run.
    pub(super) types: Types,
    /// The inputs that became of them.
    pub(super) inputs: RefCell<Vec<(String, Var)>>,
    /// All names of what was loaded, by its address, and what it is by each.
    pub(super) names: RefCell<HashMap<usize, StateNames>>,
}

/// What a run wrote.
#[derive(Default)]
pub(super) struct WrittenStates {
    pub(super) written: Vec<Written>,
    /// Findings for what no input and output can be.
    pub(super) impossible: Vec<(Written, String)>,
    /// The types that the states have at the end.
    pub(super) types: Types,
    /// Those of `written` that are inputs of this run, by their names, and the names that they have in the graph.
    pub(super) states: Vec<(String, State)>,
    /// How many outputs were added for what was written.
    pub(super) outputs: usize,
}

impl States {
    pub(super) fn with_types(types: Types) -> States {
        States { types, ..States::default() }
    }

    /// Remembers what a value is that was loaded.
    pub(super) fn name(&self, item: &Item, name: &str, what: &'static str) {
        if let Some(place) = MutableObject::from_item(item) {
            let mut names = self.names.borrow_mut();
            let names = names.entry(place.address()).or_default();
            if names.last().is_none_or(|(last, _)| **last != *name) {
                names.push((name.into(), what));
            }
        }
    }

    /// The input that a tensor became, if it is a state of this run.
    pub(super) fn input(
        &self,
        machine: &Machine<'_>,
        name: &str,
        value: &Tensor,
    ) -> Result<Option<Var>> {
        let Some(state) = self.types.get(name) else { return Ok(None) };
        let b = machine.builder();
        let var = b.input(name, state.ty.clone());
        let id = b.id(var)?;
        b.graph_mut().set_initializer(id, Some(value.clone()));
        self.inputs.borrow_mut().push((name.to_owned(), var));
        Ok(Some(var))
    }

    /// As [`States::input`], for a number.
    pub(super) fn number(
        &self,
        machine: &Machine<'_>,
        name: &str,
        from: &Pickled,
    ) -> Result<Option<Item>> {
        let (kind, value) = match from {
            Pickled::Bool(x) => {
                let bytes = vec![u8::from(*x)];
                let kind = NumberKind::Bool;
                (kind, Tensor::from_vec_as(kind.dtype(), vec![], bytes))
            }
            Pickled::Int(x) => (NumberKind::Int, Tensor::scalar(*x)),
            Pickled::Float(x) => (NumberKind::Float, Tensor::scalar(*x as f32)),
            _ => return Ok(None),
        };
        let var = self.input(machine, name, &value)?;
        Ok(var.map(|var| Item::Number(GraphNumber { var, kind })))
    }
}
