//! What calls of layers share: the runner of a model, and what a layer is called with. `run` runs models and layers.

use super::hdf5::Hdf5;
use super::layer::KerasLayer;
use super::values::{KerasItem, problem};
use crate::ops::RowContext;
use crate::states::States;
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer as Place};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Driver, Lower};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

/// What a layer is called with.
#[derive(Clone, Debug, Default)]
pub(crate) struct CallArgs {
    pub(crate) positional: Vec<KerasItem>,
    pub(crate) named: Vec<(String, KerasItem)>,
}

impl CallArgs {
    /// A call with one argument.
    pub(crate) fn one(item: KerasItem) -> CallArgs {
        CallArgs { positional: vec![item], named: vec![] }
    }

    /// An argument by its place or its name.
    pub(crate) fn get(&self, at: usize, name: &str) -> Option<&KerasItem> {
        self.positional.get(at).or_else(|| self.name(name))
    }

    /// An argument by its name.
    pub(crate) fn name(&self, name: &str) -> Option<&KerasItem> {
        self.named.iter().find(|(found, _)| found == name).map(|(_, item)| item)
    }

    /// What the layer is called on.
    pub(crate) fn first(&self) -> Option<&KerasItem> {
        self.positional.first().or_else(|| self.named.first().map(|(_, item)| item))
    }

    pub(crate) fn items(&self) -> impl Iterator<Item = &KerasItem> {
        self.positional.iter().chain(self.named.iter().map(|(_, item)| item))
    }
}

/// A layer that a runner calls, with the names of the models around it.
#[derive(Clone, Copy)]
pub(crate) struct Called<'c, 'r, 's> {
    pub(crate) runner: &'c KerasRunner<'r, 's>,
    pub(crate) layer: &'c KerasLayer,
    pub(crate) path: &'c str,
}

impl<'r, 's> Called<'_, 'r, 's> {
    pub(crate) fn builder(&self) -> &'r Lower<'s, RowContext> {
        self.runner.builder()
    }

    /// What findings and nodes name.
    pub(crate) fn place(&self) -> Place {
        Place::new(self.path, self.layer.class.clone())
    }

    pub(crate) fn weights(&self) -> Result<Vec<Var>> {
        self.runner.weights_of(self.layer, self.path)
    }

    /// Calls a layer that this one holds.
    ///
    /// # Errors
    /// As [`KerasRunner::call`].
    pub(crate) fn inner(&self, layer: &KerasLayer, given: CallArgs) -> Result<Vec<KerasItem>> {
        self.runner.call(layer, self.path, given)
    }

    pub(crate) fn problem(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        problem(self.path, &self.layer.class, code, message)
    }
}

/// What all layers that run share.
pub(crate) struct KerasRunner<'r, 's> {
    pub(crate) driver: &'r Driver<'s, RowContext>,
    pub(crate) file: &'r Hdf5,
    pub(crate) is_keras2: bool,
    /// Weights that the graph has, by their places and the types that they became of.
    pub(super) held: RefCell<HashMap<(String, Option<DataType>), Var>>,
    /// Weights that became inputs; `None` if they are constants.
    pub(super) weights: RefCell<Option<Vec<Var>>>,
    /// What layers keep from one call to the next.
    pub(super) states: States,
    /// Layers that were refused.
    pub(super) refused: RefCell<HashSet<String>>,
    /// Names that outputs of the graph will have.
    pub(super) outputs: RefCell<HashSet<String>>,
    /// Whether the model is called as in training.
    pub(super) training: Cell<bool>,
    /// Calls that ran so far.
    pub(super) ran: Cell<usize>,
}

impl<'r, 's> KerasRunner<'r, 's> {
    pub(crate) fn new(
        driver: &'r Driver<'s, RowContext>,
        file: &'r Hdf5,
        is_keras2: bool,
        (weights, states): (Option<Vec<Var>>, States),
    ) -> KerasRunner<'r, 's> {
        let (held, refused, outputs, training, ran) = Default::default();
        let weights = RefCell::new(weights);
        KerasRunner {
            driver,
            file,
            is_keras2,
            held,
            weights,
            states,
            refused,
            outputs,
            training,
            ran,
        }
    }

    pub(crate) fn builder(&self) -> &'r Lower<'s, RowContext> {
        self.driver.builder()
    }
}
