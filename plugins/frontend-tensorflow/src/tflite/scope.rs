//! What runs: a graph or one call of it, with what stands for its tensors, and what all of them share. `dispatch` runs
//! the operators themselves.

use super::constant::UNFOLDED_BYTES_MAX;
use super::item::LiteItem;
use super::model::{LiteOperator, Model, SubGraph, Tensor as Declared};
use super::variables::Variables;
use crate::ops::RowContext;
use crate::states::{Asked, States};
use onnxd_plugin_sdk::build::{Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Layer};
use onnxd_plugin_sdk::lower::{Driver, Lower};
use std::cell::{Cell, RefCell};
use std::collections::HashMap;

/// Bytes of a tensor's name that are kept.
const NAME_BYTES_MAX: usize = 256;

/// Graphs that run inside each other.
const DEPTH_MAX: usize = 32;

/// A graph that runs, or one call of it.
pub(crate) struct Scope<'a> {
    pub(crate) graph: &'a SubGraph,
    pub(super) items: RefCell<HashMap<usize, LiteItem>>,
    /// The real numbers of quantized tensors.
    pub(super) real: RefCell<HashMap<(usize, bool), Var>>,
    /// What names of its nodes start with: empty, or ends with `/`.
    pub(crate) path: String,
    /// How many graphs run around it.
    pub(super) depth: usize,
    /// Whether it sets variables before the first run.
    pub(super) initial: bool,
}

impl<'a> Scope<'a> {
    pub(crate) fn new(graph: &'a SubGraph, path: String) -> Scope<'a> {
        let (items, real, depth, initial) = Default::default();
        Scope { graph, items, real, path, depth, initial }
    }

    /// A graph that an operator of this one runs.
    ///
    /// # Errors
    /// `N0213` if too many graphs run inside each other.
    pub(super) fn inside(&self, graph: &'a SubGraph, called: &LiteOperator) -> Result<Scope<'a>> {
        if self.depth >= DEPTH_MAX {
            let message = format!("More than {DEPTH_MAX} graphs run inside each other.");
            return Err(Diagnostic::new(Code::SourceLimit, message).at(self.layer(called)));
        }
        let path = match graph.name.as_str() {
            "" => format!("{}/", self.layer(called).name),
            name => format!("{}{}/", self.path, shortened(name)),
        };
        let (items, real) = Default::default();
        Ok(Scope { graph, items, real, path, depth: self.depth + 1, initial: self.initial })
    }

    /// Says what a tensor is from now on.
    pub(crate) fn set(&self, index: usize, item: LiteItem) {
        self.items.borrow_mut().insert(index, item);
        for alone in [false, true] {
            self.real.borrow_mut().remove(&(index, alone));
        }
    }

    /// The name of a tensor in the model that is built.
    pub(super) fn name(&self, index: usize) -> String {
        let name = self.graph.tensors[index].name.as_str();
        // Names of tensors that several layers were merged into are joined.
        let name = name.split(';').next().unwrap_or(name);
        format!("{}{}", self.path, shortened(name))
    }

    pub(crate) fn layer(&self, operator: &LiteOperator) -> Layer {
        // What sets a variable has no output, and what it sets it to is its last input.
        let last = operator.inputs.iter().rev().flatten().next();
        let name = operator.outputs.first().or(last).map(|index| self.name(*index));
        Layer::new(name.unwrap_or_else(|| self.path.clone()), operator.name())
    }
}

/// What all graphs that run share.
pub(crate) struct LiteRunner<'a, 's> {
    pub(crate) driver: &'a Driver<'s, RowContext>,
    pub(crate) model: &'a Model,
    pub(super) variables: Variables,
    /// Tensors that kernels change in place.
    pub(super) states: States,
    /// Conditions and loops around what runs.
    pub(super) choices: Cell<usize>,
    /// Loops among them.
    pub(super) loops: Cell<usize>,
    /// Operators that ran so far.
    pub(super) ran: Cell<usize>,
    /// Bytes that constants may still take beside the file.
    pub(super) room: Cell<usize>,
    /// Whether weights that are quantized alone become floats at once.
    pub(super) floats: bool,
    /// How many weights are quantized alone.
    pub(super) alone: Cell<usize>,
}

impl<'a, 's> LiteRunner<'a, 's> {
    /// `floats` tells whether weights that are quantized alone become floats at once, `asked` which states are inputs.
    pub(crate) fn new(
        driver: &'a Driver<'s, RowContext>,
        model: &'a Model,
        (floats, asked): (bool, &Asked),
    ) -> LiteRunner<'a, 's> {
        let (variables, states) = (Variables::new(model, asked), States::new(asked));
        let (choices, loops, ran, alone) = Default::default();
        let room = Cell::new(UNFOLDED_BYTES_MAX);
        LiteRunner { driver, model, variables, states, choices, loops, ran, room, floats, alone }
    }

    pub(crate) fn builder(&self) -> &'a Lower<'s, RowContext> {
        self.driver.builder()
    }

    /// What was counted so far: weights that are quantized alone, bytes that are left, variables that are zeros.
    pub(super) fn counts(&self) -> [usize; 3] {
        [self.alone.get(), self.room.get(), self.variables.zeros.borrow().len()]
    }

    /// Goes back to these counts, because what was counted since is thrown away.
    pub(super) fn count_again(&self, [alone, room, zeros]: [usize; 3]) {
        self.alone.set(alone);
        self.room.set(room);
        self.variables.zeros.borrow_mut().truncate(zeros);
    }

    pub(super) fn in_layer<R>(
        &self,
        scope: &Scope<'a>,
        called: &LiteOperator,
        f: impl FnOnce() -> R,
    ) -> R {
        self.builder().in_layer(scope.layer(called), |_| f())
    }
}

pub(super) fn declared<'a>(scope: &Scope<'a>, index: usize) -> &'a Declared {
    &scope.graph.tensors[index]
}

/// The beginning of a long name.
fn shortened(name: &str) -> &str {
    let end = name.char_indices().map(|(at, _)| at).find(|at| *at >= NAME_BYTES_MAX);
    end.map_or(name, |end| &name[..end])
}
