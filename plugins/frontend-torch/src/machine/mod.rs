//! Runs a program on the values of a graph. What Python computes with numbers, lists and objects is computed at once;
//! what is computed with tensors becomes nodes. So calls are inlined, attributes are constants, and conditions that do
//! not depend on tensors are decided.

mod alias;
mod arguments;
mod branch;
mod call;
mod complex;
mod containers;
mod decide;
mod extent;
mod form;
mod indices;
mod item;
mod journal;
mod kinds;
mod numbers;
mod paths;
mod python;
mod query;
mod repeat;
mod sequences;

pub(crate) use arguments::default_item;
pub(crate) use item::{Elements, GraphNumber, Instance, Item, NumberKind};
pub(crate) use journal::MutableObject;
pub(crate) use paths::Variables;
pub(crate) use python::{equal, shown_item};
pub(crate) use repeat::{Turn, Turns};

use crate::aten::RowContext;
use crate::diag::{Code, Diagnostic, Layer};
use journal::Journal;
use onnxd_plugin_sdk::build::Var;
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Tensor, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Lower};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};

pub(crate) type Result<T> = std::result::Result<T, Diagnostic>;

/// Calls inside each other that a program may have.
const CALLS_MAX: usize = 100;

/// Expressions, statements and calls inside each other while a program runs.
const DEPTH_MAX: usize = 500;

/// Conditions inside each other that depend on tensors. Loops count for more, as each is tried several times.
const GRAPHS_MAX: usize = 48;
const LOOP_WEIGHT: usize = 4;

/// Work that a program may make: statements that run, operators, and items of lists that are copied.
const WORK_MAX: u64 = 40_000_000;

/// What an operator counts as work.
const OPERATOR_WORK: usize = 200;

/// What a call of any kind counts as work, and how many bytes of text that it gets count as one more.
const CALL_WORK: usize = 4;
const TEXT_BYTES: usize = 16;

/// How the message of an exception of the program begins.
const RAISES: &str = "The program raises an exception: ";

/// The finding for a value that no other finding explains.
const UNKNOWN: &str = "The program needs a value that is not known.";

/// Builds the graph of a program by running it.
pub(crate) struct Machine<'s> {
    pub(crate) driver: Driver<'s, RowContext>,
    journal: RefCell<Journal>,
    version: Cell<u64>,
    /// Modules whose methods run at present, the innermost last.
    layers: RefCell<Vec<Layer>>,
    /// Numbers of the graph that are never negative.
    sizes: RefCell<HashSet<Var>>,
    /// Conditions that hold where an optional value is None, with what says that it is there.
    absent: RefCell<HashMap<Var, Var>>,
    depth: Cell<usize>,
    /// Weight of the conditions and loops that are open.
    graphs: Cell<usize>,
    work: Cell<u64>,
    /// How many results the next operator gives, if nothing declares it.
    pub(crate) results: Cell<usize>,
    /// Whether the source declares what operators give.
    pub(crate) declares: Cell<bool>,
    /// Parameters and buffers, where they are inputs of the graph.
    weights: Option<RefCell<Vec<Var>>>,
    /// Inputs whose element type is supposed, with their numbers.
    supposed: RefCell<HashMap<Var, usize>>,
    /// The input that was supposed to be no index, and is one.
    pub(crate) index: Cell<Option<usize>>,
    trial: decide::Trial,
}

impl<'s> Machine<'s> {
    pub(crate) fn new(driver: Driver<'s, RowContext>) -> Machine<'s> {
        Machine {
            driver,
            journal: RefCell::default(),
            version: Cell::new(0),
            layers: RefCell::default(),
            sizes: RefCell::default(),
            absent: RefCell::default(),
            depth: Cell::new(0),
            graphs: Cell::new(0),
            work: Cell::new(0),
            results: Cell::new(1),
            declares: Cell::new(false),
            weights: None,
            supposed: RefCell::default(),
            index: Cell::new(None),
            trial: decide::Trial::default(),
        }
    }

    /// Makes inputs of the parameters and buffers.
    #[must_use]
    pub(crate) fn without_weights(self, without: bool) -> Machine<'s> {
        Machine { weights: without.then(RefCell::default), ..self }
    }

    /// The graph, and what users should know.
    ///
    /// # Errors
    /// Everything that could not be converted.
    pub(crate) fn finish(
        self,
    ) -> std::result::Result<(Graph, Vec<Diagnostic>), crate::diag::Diagnostics> {
        let weights = self.weights.map(RefCell::into_inner).unwrap_or_default();
        let weights = weights.into_iter().map(|var| self.driver.builder().id(var));
        let weights = weights.collect::<Result<Vec<_>>>()?;
        let (mut graph, mut notes) = self.driver.finish().map_err(|mut found| {
            // Those that say more explain it.
            if found.0.iter().any(|found| found.message != UNKNOWN) {
                found.0.retain(|found| found.message != UNKNOWN);
            }
            found
        })?;
        let mut told: HashSet<Diagnostic> = HashSet::new();
        notes.retain(|note| told.insert(note.clone()));
        // They come after the user's inputs, as far as something reads them.
        graph.unmark_inputs(&weights);
        for id in weights {
            if graph.uses(id) > 0 {
                graph.mark_input(id);
            }
        }
        Ok((graph, notes))
    }

    /// Brings the parameters and buffers that are inputs into another order.
    pub(crate) fn sort_weights(&self, place: impl Fn(&str) -> usize) {
        if let Some(weights) = &self.weights {
            let name = |var: &Var| self.builder().name_of(*var);
            weights.borrow_mut().sort_by_cached_key(|var| place(&name(var)));
        }
    }

    /// A parameter or buffer of the module.
    pub(crate) fn weight(&self, name: &str, tensor: Tensor) -> Var {
        let b = self.builder();
        let Some(weights) = &self.weights else { return b.parameter(name, tensor) };
        let sizes: Vec<Dim> = tensor.dims().iter().map(|n| Dim::Known(*n as i64)).collect();
        let var = b.input(name, ValueType::tensor(tensor.dtype(), sizes));
        weights.borrow_mut().push(var);
        var
    }

    pub(crate) fn builder(&self) -> &Lower<'s, RowContext> {
        self.driver.builder()
    }

    fn next_version(&self) -> u64 {
        self.version.set(self.version.get() + 1);
        self.version.get()
    }

    /// Runs `f` inside a module or function.
    ///
    /// # Errors
    /// Those of `f`; `N0213` if calls are nested too deeply.
    pub(crate) fn inside<T>(&self, layer: Layer, f: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.layers.borrow().len() >= CALLS_MAX {
            let message = format!("More than {CALLS_MAX} calls are inside each other.");
            return Err(self.problem(Code::SourceLimit, message));
        }
        self.layers.borrow_mut().push(layer);
        let done = f();
        self.layers.borrow_mut().pop();
        done
    }

    /// Runs a part of an expression or statement.
    ///
    /// # Errors
    /// Those of `f`; `N0213` if parts are nested too deeply.
    pub(crate) fn nested<T>(&self, f: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.depth.get() >= DEPTH_MAX {
            let message =
                format!("More than {DEPTH_MAX} expressions and calls are inside each other.");
            return Err(self.problem(Code::SourceLimit, message));
        }
        self.depth.set(self.depth.get() + 1);
        let done = f();
        self.depth.set(self.depth.get() - 1);
        done
    }

    /// Runs a condition or loop that becomes a node with graphs of its own.
    ///
    /// # Errors
    /// Those of `f`; `N0213` if too many are inside each other, as `weight` counts.
    fn within_graphs<T>(&self, weight: usize, f: impl FnOnce() -> Result<T>) -> Result<T> {
        if self.graphs.get() + weight > GRAPHS_MAX {
            let message =
                "Too many conditions and loops that depend on tensors are inside each other.";
            return Err(self.problem(Code::SourceLimit, message));
        }
        self.graphs.set(self.graphs.get() + weight);
        let done = f();
        self.graphs.set(self.graphs.get() - weight);
        done
    }

    /// Counts work, so that no program runs for ever.
    ///
    /// # Errors
    /// `N0213` if it is too much.
    pub(crate) fn work(&self, amount: usize) -> Result<()> {
        self.work.set(self.work.get().saturating_add(amount as u64));
        match self.work.get() {
            ..=WORK_MAX => Ok(()),
            _ => Err(self.problem(Code::SourceLimit, "The program runs for too long.")),
        }
    }

    /// How much work the program has made.
    pub(crate) fn worked(&self) -> u64 {
        self.work.get()
    }

    /// Says at which place of the source the program is.
    pub(crate) fn at(&self, place: impl FnOnce() -> String) {
        if let Some(layer) = self.layers.borrow_mut().last_mut() {
            layer.place = place();
        }
    }

    /// The layer that runs at present.
    pub(crate) fn layer(&self) -> Layer {
        self.layers.borrow().last().cloned().unwrap_or_default()
    }

    /// A finding at the layer that runs at present.
    pub(crate) fn problem(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::new(code, message).at(self.layer())
    }

    /// A tensor or number as a value of the present graph.
    ///
    /// # Errors
    /// `N0203` if it is something else.
    pub(crate) fn var_of(&self, item: &Item) -> Result<Var> {
        let b = self.builder();
        Ok(match item {
            Item::Tensor(view) => self.read(view)?,
            Item::Number(number) => number.var,
            Item::Int(x) => b.constant(Tensor::scalar(*x)),
            Item::Float(x) => b.constant(Tensor::scalar(*x as f32)),
            Item::Bool(x) => {
                let bytes = vec![u8::from(*x)];
                let scalar = Tensor::new(DataType::Bool, vec![], bytes.into());
                b.constant(scalar.expect("one byte is a bool"))
            }
            Item::Maybe(_, item) => self.var_of(item)?,
            Item::Hole => b.placeholder(None),
            other => {
                let message = format!("A tensor is needed, found {}.", other.what());
                return Err(self.problem(Code::LayerUnsupported, message));
            }
        })
    }

    /// A number as a value of the present graph, of the type of `kind`.
    ///
    /// # Errors
    /// `N0203` if it is none.
    pub(crate) fn number_var(&self, item: &Item, kind: NumberKind) -> Result<Var> {
        let var = self.var_of(item)?;
        let b = self.builder();
        let var = match b.rank_of(var) {
            Some(0) => var,
            _ => b.reshape(var, Vec::<i64>::new()).one()?,
        };
        b.cast(var, kind.dtype())
    }

    /// Says that the program raises an exception on the path that runs.
    pub(crate) fn raise(&self, message: &str) -> Diagnostic {
        let message = format!("{RAISES}{}", crate::diag::shown(message));
        self.problem(Code::LayerParameter, message)
    }

    /// Says that a path is left out as it ends with an exception: the model cannot raise it.
    fn left_out(&self, why: &Diagnostic) {
        let exception = why.message.strip_prefix(RAISES).unwrap_or(&why.message);
        let message =
            format!("The model goes on where the program raises an exception: {exception}");
        let layer = why.layer.clone().unwrap_or_else(|| self.layer());
        let help = "Check what the exception checks before the model runs.";
        let note = Diagnostic::new(Code::LayerParameterIgnored, message).at(layer).help(help);
        self.builder().note(note);
    }

    /// Stands for a value that no finding explains: with it, no model is written.
    pub(crate) fn hole(&self) -> Item {
        self.driver.report(self.problem(Code::LayerUnsupported, UNKNOWN));
        Item::Hole
    }
}

/// Whether an error is an exception of the program.
pub(crate) fn is_raised(why: &Diagnostic) -> bool {
    why.message.starts_with(RAISES)
}
