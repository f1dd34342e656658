//! The arguments of rows: inputs by their names, options, and what `operators.txt` adds.

use super::kept;
use super::model::{self, SubGraph};
use super::operators::{DerivedArgument, Many, OperatorRow};
use super::options::ACTIVATION;
use super::scope::LiteRunner;
use crate::graph::node;
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic};
use onnxd_plugin_sdk::lower::Value;

/// Operators of a graph that a row may tell by their names.
const BODY_MAX: usize = 16;

/// What a row gets.
#[derive(Debug, Default)]
pub(crate) struct RowArguments {
    pub(crate) named: Vec<(String, Value)>,
    /// The activation that is applied to the result.
    pub(crate) activation: Option<String>,
}

/// The arguments of the node `called` of a graph, with `inputs` as its values.
///
/// # Errors
/// `N0201` for a node with more inputs than its operator has.
pub(crate) fn arguments(
    runner: &LiteRunner<'_, '_>,
    graph: &SubGraph,
    called: &model::LiteOperator,
    operator: &OperatorRow,
    inputs: Vec<Value>,
) -> Result<RowArguments, Diagnostic> {
    let mut row_arguments = RowArguments::default();
    for (name, value) in inputs_of(operator, inputs)? {
        row_arguments.set(name, value);
    }
    for (option, value) in &called.options {
        let renamed = operator.renamed.iter().find(|(old, _)| old == option);
        let value = match option.ends_with("subgraph_index") {
            true => operators_of(runner, value),
            false => value.clone(),
        };
        match (renamed, value) {
            (Some((_, None)), _) => {}
            (Some((_, Some(name))), value) => row_arguments.set(name, value),
            (None, Value::Text(word)) if *option == ACTIVATION => {
                row_arguments.activation = (word != "NONE").then_some(word);
            }
            (None, value) => row_arguments.set(option, value),
        }
    }
    if let Some(stored) = kept::between_steps(graph, called) {
        row_arguments.set("stored", stored.into());
    }
    if operator.keeps_states() && model::states(graph, called).next().is_some() {
        row_arguments.set("keeps", Value::Bool(runner.states.is_asked()));
    }
    for (name, given) in &operator.more {
        row_arguments.set(name, more(graph, called, *given));
    }
    if let Some(same) = operator.same_as {
        row_arguments.complete(same);
    }
    Ok(row_arguments)
}

impl RowArguments {
    fn set(&mut self, name: &str, value: Value) {
        self.named.push((name.to_owned(), value));
    }

    /// Adds the defaults of TensorFlow's operator for attributes that TFLite does not have.
    fn complete(&mut self, op: &str) {
        let node = NodeDef { op: op.to_owned(), ..NodeDef::default() };
        for (name, value) in node::attributes(&node) {
            if value != Value::None && self.named.iter().all(|(known, _)| *known != name) {
                self.named.push((name, value));
            }
        }
    }
}

fn inputs_of(
    operator: &OperatorRow,
    inputs: Vec<Value>,
) -> Result<Vec<(&'static str, Value)>, Diagnostic> {
    let count = inputs.len();
    let mut inputs = inputs.into_iter();
    let mut found = vec![];
    for input in &operator.inputs {
        let value = match input.many {
            Many::Rest => Value::List(inputs.by_ref().collect()),
            Many::One | Many::Maybe => inputs.next().unwrap_or(Value::None),
        };
        found.push((input.name, value));
    }
    if inputs.any(|value| value != Value::None) {
        let (name, most) = (operator.name, operator.inputs.len());
        let message = format!("The node has {count} inputs; {name} has {most}.");
        return Err(Diagnostic::new(Code::SourceSyntax, message));
    }
    Ok(found)
}

fn more(graph: &SubGraph, called: &model::LiteOperator, given: DerivedArgument) -> Value {
    let first = called.outputs.first().and_then(|index| graph.tensors.get(*index));
    match (given, first) {
        (DerivedArgument::Type, Some(tensor)) => Value::Int(tensor.number.into()),
        (DerivedArgument::Shape, Some(tensor)) if tensor.ranked => tensor.sizes().into(),
        (DerivedArgument::Type | DerivedArgument::Shape, _) => Value::None,
        (DerivedArgument::Word("true"), _) => Value::Bool(true),
        (DerivedArgument::Word("false"), _) => Value::Bool(false),
        (DerivedArgument::Word(word), _) => {
            word.parse().map_or_else(|_| Value::from(word), Value::Int)
        }
    }
}

/// The names of a graph's operators, with spaces between.
fn operators_of(runner: &LiteRunner<'_, '_>, index: &Value) -> Value {
    let Value::Int(index) = index else { return Value::None };
    let graph = usize::try_from(*index).ok().and_then(|index| runner.model.graphs.get(index));
    let Some(graph) = graph.filter(|graph| graph.operators.len() <= BODY_MAX) else {
        return Value::None;
    };
    let names = graph.operators.iter().map(model::LiteOperator::name);
    Value::Text(names.collect::<Vec<_>>().join(" "))
}
