//! Variables, which keep their values between runs of a TFLite model. A variable that only the first run sets is a
//! constant. What other runs set goes on to the next one, as a state. So do tensors that kernels change in place.

use super::item::LiteItem;
use super::model::{LiteOperator, Model};
use crate::states::{Asked, KeptStates, state};
use onnxd_plugin_sdk::build::{GraphBuilder, Result, Var};
use onnxd_plugin_sdk::diagnostics::Diagnostic;
use onnxd_plugin_sdk::lower::Value;
use onnxd_plugin_sdk::states::Written;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What is known of the variables of a model.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// The value of each at present.
    pub(super) values: RefCell<HashMap<Rc<str>, LiteItem>>,
    /// Those that are inputs of the model.
    pub(super) asked: Asked,
    inputs: RefCell<HashMap<Rc<str>, Var>>,
    /// Those that runs after the first one set, and where.
    written: RefCell<Vec<Written>>,
    /// Their names.
    told: RefCell<HashSet<Rc<str>>>,
    /// Those that are zeros at first because nothing sets them before they are read, and what to say if nothing sets
    /// them behind that either.
    pub(super) zeros: RefCell<Vec<(Rc<str>, Diagnostic)>>,
    /// The graphs that set variables, themselves or by others.
    setting: HashSet<usize>,
    /// Whether a first run sets variables.
    pub(super) initial: bool,
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
    pub(super) fn is_effect(&self, operator: &LiteOperator) -> bool {
        matches!(operator.name(), "CALL_ONCE" | "ASSIGN_VARIABLE")
            || called(operator).any(|graph| self.setting.contains(&graph))
    }

    /// Says what a variable is before the first run.
    pub(super) fn begin(&self, b: &GraphBuilder, name: Rc<str>, value: LiteItem) -> Result<()> {
        let first = match &value {
            LiteItem::Tensor(var) if self.asked.contains(&*name) => b.constant_of(*var),
            _ => None,
        };
        let value = match first {
            Some(first) => {
                let input = state(b, &name, first)?;
                self.inputs.borrow_mut().insert(name.clone(), input);
                LiteItem::Tensor(input)
            }
            None => value,
        };
        self.values.borrow_mut().insert(name, value);
        Ok(())
    }

    pub(super) fn write(&self, name: &Rc<str>, value: LiteItem, written: Written) {
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
    pub(super) fn keep(&self, b: &GraphBuilder, kept: &mut KeptStates) -> Result<()> {
        for written in self.written.borrow().iter() {
            let input = self.inputs.borrow().get(written.name.as_str()).copied();
            let value = self.values.borrow().get(written.name.as_str()).cloned();
            if let (Some(input), Some(LiteItem::Tensor(value))) = (input, value) {
                kept.output(b, &written.name, [input, value])?;
            }
        }
        kept.written.extend(self.written.borrow().iter().cloned());
        Ok(())
    }
}

/// The graphs that an operator runs, each time.
fn called(operator: &LiteOperator) -> impl Iterator<Item = usize> {
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

/// The graph that an operator runs once.
pub(super) fn started(operator: &LiteOperator) -> Option<usize> {
    let (_, value) = operator.options.iter().find(|(name, _)| *name == INITIAL)?;
    let Value::Int(index) = value else { return None };
    usize::try_from(*index).ok()
}

#[cfg(test)]
mod tests;
