//! Variables, which nodes reach by handles. A variable that nothing writes is a constant.

use super::node;
use super::scope::{GraphRunner, Scope};
use super::variables::Variable;
use super::{assign, item::GraphItem};
use crate::wire::proto::NodeDef;
use bytes::Bytes;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;
use std::rc::Rc;

/// Runs a node of this family; `None` if it is of another one.
///
/// # Errors
/// What makes the graph unusable. What merely cannot be converted is reported, and holes stand for it.
pub(crate) fn run<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Option<Vec<GraphItem>>> {
    let (op, first) = (node.op.as_str(), inputs.first());
    let given = match (op, first) {
        ("VarHandleOp", _) => made(runner, scope, node)?,
        ("Variable" | "VariableV2", _) => match made(runner, scope, node)?.pop() {
            Some(GraphItem::Resource(resource)) => vec![GraphItem::Tensor(resource.var)],
            _ => vec![GraphItem::Hole],
        },
        ("VarIsInitializedOp" | "IsVariableInitialized", _) => {
            let yes = Tensor::new(DataType::Bool, vec![], Bytes::from_static(&[1]));
            vec![GraphItem::Tensor(runner.builder().constant(yes.expect("one byte")))]
        }
        ("ReadVariableOp", Some(GraphItem::Resource(resource))) => vec![read(runner, resource)],
        // Freezing leaves nodes in functions that read a variable which is a constant by now.
        ("ReadVariableOp", Some(GraphItem::Tensor(_))) => inputs.to_vec(),
        ("ResourceGather" | "ResourceGatherNd" | "VariableShape", Some(GraphItem::Tensor(_))) => {
            of_value(runner, scope, node, inputs)
        }
        // Why there is no handle was reported.
        ("ReadVariableOp" | "ResourceGather" | "ResourceGatherNd", Some(GraphItem::Hole)) => {
            vec![GraphItem::Hole]
        }
        (
            "ResourceGather" | "ResourceGatherNd" | "VariableShape",
            Some(GraphItem::Resource(from)),
        ) => {
            let mut inputs = inputs.to_vec();
            inputs[0] = read(runner, from);
            of_value(runner, scope, node, &inputs)
        }
        _ if node::is_write(op) => assign::write(runner, scope, node, inputs)?,
        _ => return Ok(None),
    };
    Ok(Some(given))
}

/// The handle of a variable.
fn made<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
) -> Result<Vec<GraphItem>> {
    let Some(find) = &runner.variables.find else {
        let message = format!("The graph is not frozen: `{}` is a variable.", shown(&node.name));
        let help = "Convert the SavedModel, or the `.meta` file with its checkpoint.";
        runner.driver.report(runner.problem(scope, node, Code::WeightsMissing, message).help(help));
        return Ok(vec![GraphItem::Hole]);
    };
    let name = runner.states.name(scope.function, node);
    let tensor = match find(node, runner.states.makers(scope.function, node)) {
        Ok(tensor) => tensor,
        Err(found) => {
            runner.driver.report(found.at(scope.layer(node)));
            return Ok(vec![GraphItem::Hole]);
        }
    };
    let var = match runner.states.input(runner.builder(), &name, &tensor)? {
        Some(input) => input,
        None => runner.weight(&name, tensor.clone()),
    };
    runner.states.begin(&name, var);
    let variable = Variable { name, tensor, var };
    Ok(vec![GraphItem::Resource(Rc::new(variable))])
}

/// The value of a variable when a node reads it.
fn read(runner: &GraphRunner<'_, '_>, variable: &Variable) -> GraphItem {
    let b = runner.builder();
    match runner.states.read(runner.driver, &variable.name, GraphItem::Tensor(variable.var)) {
        // The handle was made inside of a condition that is over.
        GraphItem::Tensor(var) if b.id(var).is_err() => {
            GraphItem::Tensor(b.parameter(&variable.name, variable.tensor.clone()))
        }
        item => item,
    }
}

/// What reads an element of a variable, as an operator that reads its value.
fn of_value<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Vec<GraphItem> {
    let value = |item: Option<&GraphItem>| match item {
        Some(GraphItem::Tensor(var)) => Value::Var(*var),
        _ => Value::Hole,
    };
    let named = |name: &str, value: Value| (name.to_owned(), value);
    let int = |name: &str| Value::Int(node::int(node, name).unwrap_or(0));
    let (op, mut named) = match node.op.as_str() {
        "ResourceGather" => {
            let batch = int("batch_dims");
            let more = vec![named("axis", batch.clone()), named("batch_dims", batch)];
            ("GatherV2", [vec![named("params", value(inputs.first()))], more].concat())
        }
        "ResourceGatherNd" => ("GatherNd", vec![named("params", value(inputs.first()))]),
        _ => ("Shape", vec![named("input", value(inputs.first()))]),
    };
    match op {
        "Shape" => {
            named.extend(node::attributes(node).into_iter().filter(|(k, _)| k == "out_type"));
        }
        "GatherNd" => {
            let policy = node::attributes(node).into_iter();
            named.extend(policy.filter(|(name, _)| name == "bad_indices_policy"));
            named.push(("indices".to_owned(), value(inputs.get(1))));
        }
        _ => named.push(("indices".to_owned(), value(inputs.get(1)))),
    }
    runner.lower(scope, node, op, vec![], named)
}
