//! Variables, which keep their values between runs of a TFLite model. ONNX has no such thing: a variable is a constant
//! that the first run sets, or a value that each run sets before it reads it.

use super::model::{Model, Operator, SubGraph};
use super::run::{Item, Runner, Scope};
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::lower::Value;
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// What is known of the variables of a model.
#[derive(Debug, Default)]
pub(super) struct Variables {
    /// The value of each at present.
    values: RefCell<HashMap<Rc<str>, Item>>,
    /// Those that graphs other than initial ones set.
    changed: HashSet<String>,
    /// Those that such graphs read.
    read: HashSet<String>,
    /// The variables that tensors of graphs are handles of, by the numbers of both.
    handles: HashMap<(usize, usize), String>,
}

impl Variables {
    pub(super) fn of(model: &Model) -> Variables {
        let initial: HashSet<usize> =
            model.graphs.iter().flat_map(|graph| &graph.operators).filter_map(started).collect();
        let mut found = Variables::default();
        let (mut changed, mut read) = (HashSet::new(), HashSet::new());
        for graph in &model.graphs {
            for operator in &graph.operators {
                if let (Some(name), Some(handle)) = (name_of(operator), operator.outputs.first()) {
                    found.handles.insert((graph.number, *handle), name);
                }
            }
        }
        let all: HashSet<String> = found.handles.values().cloned().collect();
        for graph in model.graphs.iter().filter(|graph| !initial.contains(&graph.number)) {
            for operator in &graph.operators {
                // A handle from outside of the graph may be that of any variable.
                let names = || match found.variable(graph, operator) {
                    Some(name) => HashSet::from([name.clone()]),
                    None => all.clone(),
                };
                match operator.name() {
                    "ASSIGN_VARIABLE" => changed.extend(names()),
                    "READ_VARIABLE" => read.extend(names()),
                    _ => {}
                }
            }
        }
        Variables { changed, read, ..found }
    }

    /// The variable that an operator reads or sets; `None` if its handle comes from outside of the graph.
    fn variable(&self, graph: &SubGraph, operator: &Operator) -> Option<&String> {
        let handle = operator.inputs.first().copied().flatten()?;
        self.handles.get(&(graph.number, handle))
    }

    /// Whether an operator has to run although nothing reads its results.
    pub(super) fn is_effect(&self, graph: &SubGraph, operator: &Operator) -> bool {
        match operator.name() {
            "CALL_ONCE" => true,
            "ASSIGN_VARIABLE" => {
                self.variable(graph, operator).is_none_or(|name| self.read.contains(name))
            }
            _ => false,
        }
    }
}

/// The graph that an operator runs once.
fn started(operator: &Operator) -> Option<usize> {
    let (_, value) = operator.options.iter().find(|(name, _)| *name == "init_subgraph_index")?;
    let Value::Int(index) = value else { return None };
    usize::try_from(*index).ok()
}

/// The name of the variable that an operator gives a handle of.
fn name_of(operator: &Operator) -> Option<String> {
    let text = |name: &str| {
        operator.options.iter().find_map(|(known, value)| match value {
            Value::Text(text) if *known == name => Some(text.as_str()),
            _ => None,
        })
    };
    (operator.name() == "VAR_HANDLE").then(|| {
        let (container, name) = (text("container"), text("shared_name"));
        format!("{}/{}", container.unwrap_or_default(), name.unwrap_or_default())
    })
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
    let refused = |what: String| {
        let found = Diagnostic::new(Code::LayerUnsupported, what);
        runner.driver.report(found.at(scope.layer(called)));
        Ok(Some(vec![Item::Hole; called.outputs.len()]))
    };
    let variables = &runner.variables;
    match called.name() {
        "VAR_HANDLE" => {
            let name = name_of(called).unwrap_or_default();
            Ok(Some(vec![Item::Handle(name.into())]))
        }
        "READ_VARIABLE" => {
            let Some(name) = handle() else { return Ok(None) };
            let known = variables.values.borrow().get(&name).cloned();
            let plain = shown(name.trim_start_matches('/'));
            match known {
                Some(item) => Ok(Some(vec![item])),
                None if variables.changed.contains(&*name) => refused(format!(
                    "The variable `{plain}` is read, and set for the next run: ONNX keeps nothing \
                     between runs."
                )),
                None => refused(format!("Nothing sets the variable `{plain}`, which is read.")),
            }
        }
        "ASSIGN_VARIABLE" => {
            let (Some(name), Some(Some(value))) = (handle(), inputs.get(1)) else {
                return Ok(None);
            };
            let plain = shown(name.trim_start_matches('/'));
            if scope.depth > 0 && !scope.initial && variables.read.contains(&*name) {
                return refused(format!(
                    "The variable `{plain}` is set inside of a condition, loop or call."
                ));
            }
            // What the first run sets does not stay if later runs change it.
            if !scope.initial || !variables.changed.contains(&*name) {
                variables.values.borrow_mut().insert(name, value.clone());
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

#[cfg(test)]
mod tests;
