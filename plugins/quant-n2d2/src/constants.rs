//! Constants of a graph as real numbers, and new ones of them.

use onnxd_plugin_sdk::ir::{Graph, Reals, Tensor, ValueId};

/// The float elements of a constant.
pub(crate) fn reals(graph: &Graph, v: ValueId) -> Option<Reals> {
    graph.constant(v).filter(|t| t.dtype().is_float()).and_then(Tensor::to_reals)
}

/// A new constant of the type of `like`.
pub(crate) fn constant(
    graph: &mut Graph,
    name: &str,
    like: ValueId,
    data: &Reals,
) -> Option<ValueId> {
    let dtype = graph.constant(like)?.dtype();
    let data = data.to_tensor(dtype)?;
    Some(graph.add_initializer(name, data))
}
