//! Operators on `bfloat16`. Runtimes have few kernels of it: as kernels of TensorFlow do, operators compute in 32 bits
//! and round their results.

use super::item::GraphItem;
use super::node;
use crate::ops::RowContext;
use crate::wire::proto::NodeDef;
use onnxd_plugin_sdk::build::{GraphBuilder, Var};
use onnxd_plugin_sdk::diagnostics::Layer;
use onnxd_plugin_sdk::ir::DataType;
use onnxd_plugin_sdk::lower::{Driver, Lowered, Value};

/// Operators that have kernels for all types.
const ANY_TYPE: [&str; 8] =
    ["ExpandDims", "Rank", "Reshape", "Shape", "ShapeN", "Size", "Squeeze", "Transpose"];

/// Operators whose results have 32 bits whatever they read.
const WIDE: [&str; 5] =
    ["CropAndResize", "ResizeArea", "ResizeBicubic", "ResizeBilinear", "ScaleAndTranslate"];

/// Arguments by position and by name.
type NarrowArguments = (Vec<Value>, Vec<(String, Value)>);

/// Whether an operator computes in `bfloat16`.
pub(crate) fn is_short(node: &NodeDef) -> bool {
    node::dtype(node, "T") == Some(DataType::Bfloat16) && !ANY_TYPE.contains(&node.op.as_str())
}

/// Runs an operator on arguments of 32 bits, and rounds what it gives.
pub(crate) fn widened(
    driver: &Driver<'_, RowContext>,
    layer: Layer,
    node: &NodeDef,
    (arguments, named): NarrowArguments,
    run: impl FnOnce(Vec<Value>, Vec<(String, Value)>) -> Vec<GraphItem>,
) -> Vec<GraphItem> {
    let b = driver.builder();
    let cast = |value: Value| b.in_layer(layer.clone(), |b| each(b, value));
    let arguments: Lowered<Vec<Value>> = arguments.into_iter().map(cast).collect();
    let named = named.into_iter().map(|(name, value)| Ok((name, cast(value)?)));
    let named: Lowered<Vec<(String, Value)>> = named.collect();
    let given = match (arguments, named) {
        (Ok(arguments), Ok(named)) => run(arguments, named),
        (Err(problem), _) | (_, Err(problem)) => {
            driver.report(problem.at(layer));
            return vec![GraphItem::Hole; node::output_count(node, None)];
        }
    };
    // Statistics beside the first result have a type of their own.
    let first_alone = node::dtype(node, "U").is_some();
    let is_short = |at: usize| !WIDE.contains(&node.op.as_str()) && (at == 0 || !first_alone);
    let round = |(at, item): (usize, GraphItem)| match item {
        GraphItem::Tensor(var) if is_short(at) && b.dtype_of(var) == Some(DataType::Float) => {
            let short = b.in_layer(layer.clone(), |b| b.cast(var, DataType::Bfloat16));
            short.map(GraphItem::Tensor).unwrap_or_else(|problem| {
                driver.report(problem.at(layer.clone()));
                GraphItem::Hole
            })
        }
        other => other,
    };
    given.into_iter().enumerate().map(round).collect()
}

/// A value whose tensors of `bfloat16` have 32 bits.
fn each(b: &GraphBuilder, value: Value) -> Lowered<Value> {
    let wide = |var: Var| match b.dtype_of(var) {
        Some(DataType::Bfloat16) => b.cast(var, DataType::Float),
        _ => Ok(var),
    };
    Ok(match value {
        Value::Var(var) => Value::Var(wide(var)?),
        Value::List(items) => {
            Value::List(items.into_iter().map(|item| each(b, item)).collect::<Lowered<_>>()?)
        }
        other => other,
    })
}

#[cfg(test)]
mod tests {
    use crate::graph::fixture::{graph, import, node, placeholder};
    use crate::wire::proto::Attr;
    use onnxd_plugin_sdk::ir::{DataType, ValueId, ValueType};

    const BFLOAT16: i32 = 14;

    #[test]
    fn short_floats_are_added_in_32_bits() {
        let short = |name: &str, sizes: &[i64]| {
            placeholder(name, sizes).attr("dtype", Attr::Type(BFLOAT16))
        };
        let sum = node("y", "AddV2", &["a", "b"]).attr("T", Attr::Type(BFLOAT16));
        let nodes = vec![short("a", &[3, 4]), short("b", &[4]), sum];
        let graph = import(&graph(nodes, vec![])).unwrap().model.graph;
        let (_, sum) = graph.nodes().find(|(_, node)| node.is("Add")).unwrap();
        let of = |id: ValueId| graph[id].ty.as_ref().and_then(ValueType::dtype);
        assert!(sum.reads().all(|id| of(id) == Some(DataType::Float)));
        assert_eq!(of(graph.outputs()[0]), Some(DataType::Bfloat16));
    }
}
