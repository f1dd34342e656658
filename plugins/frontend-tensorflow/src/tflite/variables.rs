//! Variables, which keep their values between runs of a TFLite model. A variable that only the first run sets is a
//! constant. What other runs set goes on to the next one, as a state. So do tensors that kernels change in place.

use super::model::{Model, Operator, SubGraph, Tensor as Declared};
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
    /// The graphs that set variables, themselves or by others.
    setting: HashSet<usize>,
}

impl Variables {
    pub(super) fn new(model: &Model, asked: &Asked) -> Variables {
        let mut setting = HashSet::new();
        loop {
            let sets = |operator: &Operator| {
                operator.name() == "ASSIGN_VARIABLE"
                    || called(operator).any(|graph| setting.contains(&graph))
            };
            let all = model.graphs.iter().filter(|graph| graph.operators.iter().any(sets));
            let all: HashSet<usize> = all.map(|graph| graph.number).collect();
            if all.len() == setting.len() {
                break;
            }
            setting = all;
        }
        Variables { asked: asked.clone(), setting, ..Variables::default() }
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
        let mut all = self.written.borrow_mut();
        if !all.iter().any(|known| known.name == written.name) {
            all.push(written);
        }
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
        (name.ends_with("subgraph_index") || *name == "subgraph") && *name != INITIAL
    });
    graphs.filter_map(|(_, value)| match value {
        Value::Int(index) => usize::try_from(*index).ok(),
        _ => None,
    })
}

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
            if scope.initial {
                variables.begin(runner.builder(), name, value.clone())?;
                return Ok(Some(vec![]));
            }
            let layer = scope.layer(called);
            let written = Written { what: "variable", name: name.to_string(), layer };
            if runner.choices.get() > 0 {
                let why = "is set inside of a condition or loop";
                runner.driver.report(written.impossible(why));
                return Ok(Some(vec![]));
            }
            variables.write(&name, value.clone(), written);
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

/// A variable that is read, and that no first run sets: kernels for microcontrollers begin with zeros.
fn unset<'a>(
    runner: &Runner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a Operator,
    name: &Rc<str>,
) -> Result<Vec<Item>> {
    let declared = called.outputs.first().map(|index| &scope.graph.tensors[*index]);
    let is_set = runner.variables.setting.iter().any(|graph| sets(runner.model, *graph));
    let (Some(declared), true) = (declared.filter(|tensor| is_known(tensor)), is_set) else {
        let message = format!("Nothing sets the variable `{}`, which is read.", shown(name));
        let found = Diagnostic::new(Code::LayerUnsupported, message);
        runner.driver.report(found.at(scope.layer(called)));
        return Ok(vec![Item::Hole]);
    };
    let dtype = declared.dtype().unwrap_or(DataType::Float);
    let zeros = quantized::zeros(declared, dtype, &runner.room)?;
    let zeros = Item::Tensor(runner.builder().constant(zeros));
    runner.variables.begin(runner.builder(), name.clone(), zeros)?;
    let value = runner.variables.values.borrow().get(name).cloned();
    Ok(vec![value.unwrap_or(Item::Hole)])
}

fn sets(model: &Model, number: usize) -> bool {
    let graph: Option<&SubGraph> = model.graphs.iter().find(|graph| graph.number == number);
    let initial: HashSet<usize> =
        model.graphs.iter().flat_map(|graph| &graph.operators).filter_map(started).collect();
    graph.is_some_and(|graph| !initial.contains(&graph.number))
}

/// Whether all sizes of a tensor are known.
fn is_known(tensor: &Declared) -> bool {
    tensor.ranked && tensor.sizes().iter().all(|size| *size >= 0)
}

#[cfg(test)]
mod tests;
