//! Weights that are stored as integers: what moves their real numbers moves the integers, and the axis of the scales
//! with them. So `DequantizeLinear` stands right before the operator that computes.

use onnxd_plugin_sdk::ir::{Attr, Graph, Node, NodeId, Tensor, ValueType};

/// Bytes from which on a tensor is not moved before the model is written.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// Moves `Transpose` and `Reshape` of constants before their `DequantizeLinear`, also in sub-graphs.
pub(super) fn settle(graph: &mut Graph) {
    for id in graph.topological().unwrap_or_default() {
        graph.edit_subgraphs(id, settle);
        if let Some((tensor, axis)) = moved(graph, id) {
            exchange(graph, id, tensor, axis);
        }
    }
}

/// What a node makes of stored weights, and the axis of their scales if they are several.
fn moved(graph: &Graph, id: NodeId) -> Option<(Tensor, Option<usize>)> {
    let node = graph.node(id).filter(|node| node.is_standard())?;
    let source = graph.producer(node.input(0)?).map(|source| &graph[source])?;
    if !source.is("DequantizeLinear") {
        return None;
    }
    let stored = graph.constant(source.input(0)?)?;
    let axis = match graph.constant(source.input(1)?)?.rank() {
        0 => None,
        _ => Some(usize::try_from(source.int("axis", 1)).ok()?),
    };
    match node.op.as_str() {
        "Transpose" => {
            let Attr::Ints(perm) = node.attr("perm")? else { return None };
            let perm = perm.iter().map(|axis| usize::try_from(*axis).ok());
            let perm = perm.collect::<Option<Vec<usize>>>()?;
            let axis = match axis {
                Some(axis) => Some(perm.iter().position(|from| *from == axis)?),
                None => None,
            };
            Some((stored.permuted(&perm).ok()?, axis))
        }
        "Reshape" | "Unsqueeze" | "Squeeze" | "Flatten" => {
            let dims = graph[node.output(0)?].ty.as_ref().and_then(ValueType::dims)?;
            let dims = dims.into_iter().map(|size| usize::try_from(size).ok());
            let dims = dims.collect::<Option<Vec<usize>>>()?;
            let axis = match axis {
                Some(axis) => Some(same_axis(stored.dims(), axis, &dims)?),
                None => None,
            };
            Some((stored.reshaped(dims).ok()?, axis))
        }
        _ => None,
    }
}

/// Where an axis is in other sizes of the same elements.
fn same_axis(from: &[usize], axis: usize, to: &[usize]) -> Option<usize> {
    let before = |dims: &[usize], axis: usize| dims[..axis].iter().product::<usize>();
    let size = *from.get(axis)?;
    (0..to.len()).find(|other| to[*other] == size && before(to, *other) == before(from, axis))
}

/// Puts a `DequantizeLinear` of the moved weights in the place of the node.
fn exchange(graph: &mut Graph, id: NodeId, tensor: Tensor, axis: Option<usize>) {
    let Some((data, out)) = graph[id].input(0).zip(graph[id].output(0)) else { return };
    let Some(source) = graph.producer(data) else { return };
    let mut inputs = graph[source].inputs.clone();
    let Some(Some(stored)) = inputs.first().copied() else { return };
    let gone = graph.remove_node(id);
    let small = tensor.byte_len() < DERIVED_BYTES_MIN;
    let name = graph[stored].name.clone();
    let moved = graph.add_initializer(&name, if small { tensor.held() } else { tensor });
    inputs[0] = Some(moved);
    let mut node = Node::new("DequantizeLinear", [], [out]);
    node.inputs = inputs;
    node.name = gone.name;
    node.layers = gone.layers;
    if let Some(axis) = axis {
        node = node.with("axis", Attr::Int(axis as i64));
    }
    graph.add_node(node);
    if graph.uses(data) == 0 && !graph.is_output(data) {
        graph.remove_node(source);
    }
}

#[cfg(test)]
mod tests;
