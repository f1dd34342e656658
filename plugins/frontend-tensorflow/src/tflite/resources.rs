//! Operators on variables, which they reach by handles.

use super::item::LiteItem;
use super::model::{LiteOperator, Tensor as Declared};
use super::quantized;
use super::scope::{LiteRunner, Scope};
use super::variables::started;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, shown};
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::Value;
use onnxd_plugin_sdk::states::Written;
use std::rc::Rc;

/// The name of the variable that an operator gives a handle of.
fn name_of(operator: &LiteOperator) -> String {
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
    runner: &LiteRunner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a LiteOperator,
    inputs: &[Option<LiteItem>],
) -> Result<Option<Vec<LiteItem>>> {
    let handle = || match inputs.first() {
        Some(Some(LiteItem::Handle(name))) => Some(name.clone()),
        _ => None,
    };
    let variables = &runner.variables;
    match called.name() {
        "VAR_HANDLE" => Ok(Some(vec![LiteItem::Handle(name_of(called).into())])),
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
    runner: &LiteRunner<'a, '_>,
    scope: &Scope<'a>,
    called: &'a LiteOperator,
    name: &Rc<str>,
) -> Result<Vec<LiteItem>> {
    let variables = &runner.variables;
    let message = match variables.initial {
        false => format!("Nothing sets the variable `{}`, which is read.", shown(name)),
        true => format!(
            "The variable `{}` is read, and the graph of the first run sets others, not this one.",
            shown(name)
        ),
    };
    let help = "Set the variable where the model sets its others, and convert that to TFLite.";
    let problem = Diagnostic::new(Code::LayerUnsupported, message).help(help);
    let problem = problem.at(scope.layer(called));
    let declared = called.outputs.first().map(|index| &scope.graph.tensors[*index]);
    let Some(declared) = declared.filter(|tensor| !variables.initial && is_known(tensor)) else {
        runner.driver.report(problem);
        return Ok(vec![LiteItem::Hole]);
    };
    let dtype = declared.dtype().unwrap_or(DataType::Float);
    let zeros = quantized::zeros(declared, dtype, &runner.room)?;
    let zeros = LiteItem::Tensor(runner.builder().constant(zeros));
    variables.zeros.borrow_mut().push((name.clone(), problem));
    if runner.choices.get() > 0 {
        // What is made here is no value of the graph around.
        if variables.asked.contains(&**name) {
            let (name, layer) = (name.to_string(), scope.layer(called));
            let why = "is read inside of a condition or loop before anything sets it";
            let problem = Written { what: "variable", name, layer }.impossible(why);
            runner
                .driver
                .report(problem.help("Set it in the graph of the first run, or read it before."));
            return Ok(vec![LiteItem::Hole]);
        }
        return Ok(vec![zeros]);
    }
    variables.begin(runner.builder(), name.clone(), zeros)?;
    let value = variables.values.borrow().get(name).cloned();
    Ok(vec![value.unwrap_or(LiteItem::Hole)])
}

/// Whether all sizes of a tensor are known.
fn is_known(tensor: &Declared) -> bool {
    tensor.ranked && tensor.sizes().iter().all(|size| *size >= 0)
}
