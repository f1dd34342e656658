//! Operators that write variables, and those that draw of a generator whose state is a variable.

use super::effects;
use super::item::GraphItem;
use super::node;
use super::scope::{GraphRunner, Scope};
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::Result;
use onnxd_plugin_sdk::diagnostics::{Code, shown};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

/// Groups of numbers that a generator passes over for each number that is drawn.
const SKIPPED: i64 = 256;

/// Runs an operator that writes the variable that is its first input.
///
/// # Errors
/// Those of the builder.
pub(crate) fn write<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    inputs: &[GraphItem],
) -> Result<Vec<GraphItem>> {
    let count = node::output_count(node, None);
    let Some(name) = effects::variable(runner, scope, node, 0)? else {
        // Why there is no handle was reported.
        if matches!(inputs.first(), Some(GraphItem::Hole)) {
            return Ok(vec![GraphItem::Hole; count]);
        }
        let message = "The node writes something that is no variable of this graph.";
        return Ok(runner.refuse(scope, node, Code::LayerUnsupported, message));
    };
    let first = inputs.first().filter(|item| matches!(item, GraphItem::Tensor(_)));
    let before = runner.states.value(&name).or_else(|| first.cloned()).unwrap_or(GraphItem::Hole);
    runner.states.wrote(&name, scope.layer(node));
    let (after, given) = match drawn(runner, scope, node, (&before, inputs))? {
        Some(both) => both,
        None => {
            let after = updated(runner, scope, node, &before, inputs);
            (after.clone(), vec![after; count])
        }
    };
    runner.states.set(&name, after);
    Ok(given)
}

fn value(item: Option<&GraphItem>) -> Value {
    match item {
        Some(GraphItem::Tensor(var)) => Value::Var(*var),
        _ => Value::Hole,
    }
}

/// The value of a variable after a write.
fn updated<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    before: &GraphItem,
    inputs: &[GraphItem],
) -> GraphItem {
    let op = node.op.strip_prefix("Resource").unwrap_or(&node.op);
    let by = |op: &str, names: &[&str], values: Vec<Value>| {
        let mut named: Vec<(String, Value)> =
            names.iter().map(|name| (*name).to_owned()).zip(values).collect();
        let masks = node::attributes(node).into_iter();
        named.extend(masks.filter(|(name, _)| name.ends_with("_mask") || name.starts_with("bad_")));
        runner.lower(scope, node, op, vec![], named).pop().unwrap_or(GraphItem::Hole)
    };
    let all = || {
        let rest = inputs.iter().skip(1).map(|item| value(Some(item)));
        [value(Some(before))].into_iter().chain(rest).collect::<Vec<Value>>()
    };
    let scatter = ["tensor", "indices", "updates"];
    match op {
        "AssignVariableOp" | "Assign" => inputs.get(1).cloned().unwrap_or(GraphItem::Hole),
        "AssignAddVariableOp" | "AssignAdd" => by("AddV2", &["x", "y"], all()),
        "AssignSubVariableOp" | "AssignSub" => by("Sub", &["x", "y"], all()),
        "StridedSliceAssign" => {
            by("TensorStridedSliceUpdate", &["input", "begin", "end", "strides", "value"], all())
        }
        "ScatterNdUpdate" => by("TensorScatterUpdate", &scatter, all()),
        "ScatterNdAdd" => by("TensorScatterAdd", &scatter, all()),
        "ScatterNdSub" => by("TensorScatterSub", &scatter, all()),
        "ScatterNdMax" => by("TensorScatterMax", &scatter, all()),
        "ScatterNdMin" => by("TensorScatterMin", &scatter, all()),
        "ScatterUpdate" | "ScatterAdd" | "ScatterSub" | "ScatterMax" | "ScatterMin" => {
            let mut all = all();
            // Each index is one of a row.
            if let Some(Value::Var(indices)) = all.get(1) {
                match runner.builder().unsqueeze(*indices, [-1]) {
                    Ok(indices) => all[1] = Value::Var(indices),
                    Err(found) => runner.driver.report(found.at(scope.layer(node))),
                }
            }
            by(&format!("Tensor{op}"), &scatter, all)
        }
        _ => {
            let message =
                format!("`{}` changes a variable in a way that is not followed.", shown(&node.op));
            runner.driver.report(runner.problem(scope, node, Code::LayerUnsupported, message));
            GraphItem::Hole
        }
    }
}

/// What an operator draws of a generator whose state is a variable: the state afterwards, and its results. `None` for
/// other operators. The state of Philox is its counter, in two numbers, and its key.
fn drawn<'a>(
    runner: &GraphRunner<'a, '_>,
    scope: &Scope<'a>,
    node: &'a NodeDef,
    (before, inputs): (&GraphItem, &[GraphItem]),
) -> Result<Option<(GraphItem, Vec<GraphItem>)>> {
    let b = runner.builder();
    // By the operator without state: where the shape is, and what comes behind it.
    let (op, shape, more): (&str, usize, &[&str]) = match node.op.as_str() {
        "RngReadAndSkip" | "RngSkip" => ("", 2, &[]),
        "StatefulUniform" => ("StatelessRandomUniformV2", 2, &[]),
        "StatefulStandardNormal" => ("StatelessRandomNormalV2", 1, &[]),
        "StatefulStandardNormalV2" => ("StatelessRandomNormalV2", 2, &[]),
        "StatefulUniformFullInt" => ("StatelessRandomUniformFullIntV2", 2, &[]),
        "StatefulUniformInt" => ("StatelessRandomUniformIntV2", 2, &["minval", "maxval"]),
        _ => return Ok(None),
    };
    let count = node::output_count(node, None);
    let holes = || Ok(Some((GraphItem::Hole, vec![GraphItem::Hole; count])));
    let (GraphItem::Tensor(state), Some(GraphItem::Tensor(size))) = (before, inputs.get(shape))
    else {
        return holes();
    };
    let (state, size) = (*state, *size);
    b.in_layer(scope.layer(node), |_| {
        let (count, drawn_numbers) = match op {
            "" => (size, vec![GraphItem::Tensor(state); count]),
            _ => {
                let part = |from: i64, to: i64| b.slice(state, [from], [to]).axes([0]).one();
                let part = |from, to| b.cast(part(from, to)?, DataType::Uint64);
                let algorithm = if shape == 2 { value(inputs.get(1)) } else { Value::Int(1) };
                let mut named = vec![
                    ("shape".to_owned(), Value::Var(size)),
                    ("key".to_owned(), Value::Var(part(2, 3)?)),
                    ("counter".to_owned(), Value::Var(part(0, 2)?)),
                    ("alg".to_owned(), algorithm),
                ];
                let inputs = more.iter().zip(inputs.iter().skip(shape + 1));
                named.extend(inputs.map(|(name, item)| ((*name).to_owned(), value(Some(item)))));
                named
                    .extend(node::attributes(node).into_iter().filter(|(name, _)| name == "dtype"));
                let drawn_numbers = runner.lower(scope, node, op, vec![], named);
                (b.reduce_prod(b.cast(size, DataType::Int64)?).keepdims(0).one()?, drawn_numbers)
            }
        };
        let count = b.cast(count, DataType::Int64)?;
        let skipped = b.mul(count, b.constant(Tensor::vector(vec![SKIPPED, 0, 0])))?;
        Ok(Some((GraphItem::Tensor(b.add(state, skipped)?), drawn_numbers)))
    })
}
