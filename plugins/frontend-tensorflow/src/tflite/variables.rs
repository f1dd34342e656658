//! Variables, which keep their values between runs of a TFLite model. A variable that only the first run sets is a
//! constant. What other runs set goes on to the next one, as a state. So do tensors that kernels change in place.

use super::model::{Model, Operator, Tensor as Declared};
use super::quantized;
use super::run::{Item, Runner, Scope};
use crate::states::{Asked, Kept, state};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What is known of the variables of a model.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// The value of each at present.
    values: RefCell<HashMap<Rc<str>, Item>>,
    /// Those that are inputs of the model.
    asked: Asked,
    inputs: RefCell<HashMap<Rc<str>, Var>>,
    /// Those that runs after the first one set, and where.
    written: RefCell<Vec<Written>>,
    /// Their names.
    told: RefCell<HashSet<Rc<str>>>,
    /// Those that are zeros at first because nothing sets them before they are read, and what to say if nothing sets
    /// them behind that either.
    zeros: RefCell<Vec<(Rc<str>, Diagnostic)>>,
    /// The graphs that set variables, themselves or by others.
    setting: HashSet<usize>,
    /// Whether a first run sets variables.
    initial: bool,
}

impl Variables {
    pub(super) fn new(model: &Model, asked: &Asked) -> Variables {
        let mut callers: HashMap<usize, Vec<usize>> = HashMap::new();
        let mut open = vec![];
        for graph in &model.graphs {
            for operator in &graph.operators {
                called(operator).for_each(|inner| {
                    callers.entry(inner).or_default().push(graph.number);
                });
                open.extend((operator.name() == "ASSIGN_VARIABLE").then_some(graph.number));
            }
        }
        let mut setting = HashSet::new();
        while let Some(graph) = open.pop() {
            if setting.insert(graph) {
                open.extend(callers.remove(&graph).unwrap_or_default());
            }
        }
        let operators = model.graphs.iter().flat_map(|graph| &graph.operators);
        let initial = operators.filter_map(started).any(|graph| setting.contains(&graph));
        Variables { asked: asked.clone(), setting, initial, ..Variables::default() }
    }

    /// Whether an operator has to run although nothing reads its results.
    pub(super) fn is_effect(&self, operator: &Operator) -> bool {
        matches!(operator.name(), "CALL_ONCE" | "ASSIGN_VARIABLE")
            || called(operator).any(|graph| self.setting.contains(&graph))
    }

    /// Says what a variable is before the first run.
    fn begin(&self, b: &GraphBuilder, name: Rc<str>, value: Item) -> Result<()> {
        let first = match &value {
            Item::Tensor(var) if self.asked.contains(&*name) => b.constant_of(*var),
            _ => None,
        };
        let value = match first {
            Some(first) => {
                let input = state(b, &name, first)?;
                self.inputs.borrow_mut().insert(name.clone(), input);
                Item::Tensor(input)
            }
            None => value,
        };
        self.values.borrow_mut().insert(name, value);
        Ok(())
    }

    fn write(&self, name: &Rc<str>, value: Item, written: Written) {
        self.values.borrow_mut().insert(name.clone(), value);
        if self.told.borrow_mut().insert(name.clone()) {
            self.written.borrow_mut().push(written);
        }
    }

    /// Findings for variables that are read and that nothing sets.
    pub(super) fn unset(&self) -> Vec<Diagnostic> {
        let (told, zeros) = (self.told.borrow(), self.zeros.take());
        zeros.into_iter().filter(|(name, _)| !told.contains(name)).map(|(_, found)| found).collect()
    }

    /// What was written, and the values at the end as outputs if they are asked for.
    ///
    /// # Errors
    /// Those of the builder.
    pub(super) fn keep(&self, b: &GraphBuilder, kept: &mut Kept) -> Result<()> {
        for written in self.written.borrow().iter() {
            let input = self.inputs.borrow().get(written.name.as_str()).copied();
            let value = self.values.borrow().get(written.name.as_str()).cloned();
            if let (Some(input), Some(Item::Tensor(value))) = (input, value) {
                kept.output(b, &written.name, [input, value])?;
            }
        }
        kept.written.extend(self.written.borrow().iter().cloned());
        Ok(())
    }
}

/// The graphs that an operator runs, each time.
fn called(operator: &Operator) -> impl Iterator<Item = usize> {
    let graphs = operator.options.iter().filter(|(name, _)| {
        let is_one = name.ends_with("subgraph_index") || *name == "subgraph";
        (is_one || *name == BRANCHES) && *name != INITIAL
    });
    let numbers = graphs.flat_map(|(_, value)| match value {
        Value::List(all) => all.as_slice(),
        one => std::slice::from_ref(one),
    });
    numbers.filter_map(|value| match value {
        Value::Int(index) => usize::try_from(*index).ok(),
        _ => None,
    })
}

/// The option that says between which graphs an operator chooses.
pub(super) const BRANCHES: &str = "branch_subgraph_indices";

/// The option that says which graph an operator runs once.
const INITIAL: &str = "init_subgraph_index";

fn started(operator: &Operator) -> Option<usize> {
    let (_, value) = operator.options.iter().find(|(name, _)| *name == INITIAL)?;
    let Value::Int(index) = value else { return None };
    usize::try_from(*index).ok()
}

/// The name of the variable that an operator gives a handle of.
fn name_of(operator: &Operator) -> String {
    let text = |name: &str| {
        let found = operator.options.iter().find_map(|(known, value)| match value {
            Value::Text(text) if *known == name => Some(text.as_str()),
            _ => None,
        });
        found.unwrap_or_default()
    };
    match text("container") {
        "" => text("shared_name").to_owned(),
        container => format!("{container}/{}", text("shared_name")),
    }
}

/// Runs an operator of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the model unusable. What merely cannot be converted is reported, and holes stand for it.
pub(super) fn run<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a Operator,
    inputs: &[Option<Item>],
) -> Result<Option<Vec<Item>>> {
    let handle = || match inputs.first() {
        Some(Some(Item::Handle(name))) => Some(name.clone()),
        _ => None,
    };
    let variables = &runner.variables;
    match called.name() {
        "VAR_HANDLE" => Ok(Some(vec![Item::Handle(name_of(called).into())])),
        "READ_VARIABLE" => {
            let Some(name) = handle() else { return Ok(None) };
            let known = variables.values.borrow().get(&name).cloned();
            match known {
                Some(item) => Ok(Some(vec![item])),
                None => unset(runner, scope, called, &name).map(Some),
            }
        }
        "ASSIGN_VARIABLE" => {
            let (Some(name), Some(Some(value))) = (handle(), inputs.get(1)) else {
                return Ok(None);
            };
            let layer = scope.layer(called);
            let written = Written { what: "variable", name: name.to_string(), layer };
            if runner.choices.get() > 0 {
                let why = "is set inside of a condition or loop";
                let help = "Give the new value as a result of the condition or loop, and set the variable behind it.";
                runner.driver.report(written.impossible(why).help(help));
                return Ok(Some(vec![]));
            }
            match scope.initial {
                true => variables.begin(runner.builder(), name, value.clone())?,
                false => variables.write(&name, value.clone(), written),
            }
            Ok(Some(vec![]))
        }
        "CALL_ONCE" => {
            let graph = started(called).and_then(|index| runner.model.graphs.get(index));
            let Some(graph) = graph else {
                let message = "The graph that sets variables is missing.";
                return Err(Diagnostic::new(Code::SourceSyntax, message));
            };
            let mut inner = scope.inside(graph, called)?;
            inner.initial = true;
            runner.run(&inner, &[])?;
            Ok(Some(vec![]))
        }
        _ => Ok(None),
    }
}

/// A variable that is read before anything sets it. Kernels for microcontrollers begin with zeros, so it is such where
/// calls set it and no first run sets any: where one does, TFLite fails here.
fn unset<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a Operator,
    name: &Rc<str>,
) -> Result<Vec<Item>> {
    let variables = &runner.variables;
    let message = match variables.initial {
        false => format!("Nothing sets the variable `{}`, which is read.", shown(name)),
        true => format!(
            "The variable `{}` is read, and the graph of the first run sets others, not this one.",
            shown(name)
        ),
    };
    let help = "Set the variable where the model sets its others, and convert that to TFLite.";
    let found = Diagnostic::new(Code::LayerUnsupported, message).help(help);
    let found = found.at(scope.layer(called));
    let declared = called.outputs.first().map(|index| &scope.graph.tensors[*index]);
    let Some(declared) = declared.filter(|tensor| !variables.initial && is_known(tensor)) else {
        runner.driver.report(found);
        return Ok(vec![Item::Hole]);
    };
    let dtype = declared.dtype().unwrap_or(DataType::Float);
    let zeros = quantized::zeros(declared, dtype, &runner.room)?;
    let zeros = Item::Tensor(runner.builder().constant(zeros));
    variables.zeros.borrow_mut().push((name.clone(), found));
    if runner.choices.get() > 0 {
        // What is made here is no value of the graph around.
        if variables.asked.contains(&**name) {
            let (name, layer) = (name.to_string(), scope.layer(called));
            let why = "is read inside of a condition or loop before anything sets it";
            let found = Written { what: "variable", name, layer }.impossible(why);
            runner
                .driver
                .report(found.help("Set it in the graph of the first run, or read it before."));
            return Ok(vec![Item::Hole]);
        }
        return Ok(vec![zeros]);
    }
    variables.begin(runner.builder(), name.clone(), zeros)?;
    let value = variables.values.borrow().get(name).cloned();
    Ok(vec![value.unwrap_or(Item::Hole)])
}

/// Whether all sizes of a tensor are known.
fn is_known(tensor: &Declared) -> bool {
    tensor.ranked && tensor.sizes().iter().all(|size| *size >= 0)
}

#[cfg(test)]
mod tests;
