//! Orders of axes, and the Transposes that change them.

use onnxd_plugin_sdk::ir::{Attr, Graph, Node, ValueId, ValueType};

/// An order of axes: axis `i` of what is there now is axis `order[i]` of the other layout.
pub(crate) type AxisOrder = Vec<usize>;

/// The number of axes of a tensor.
pub(crate) fn rank(graph: &Graph, v: ValueId) -> Option<usize> {
    graph[v].ty.as_ref().and_then(ValueType::shape).map(<[_]>::len)
}

/// The axes of a Transpose that come first, second, ...
pub(crate) fn perm(graph: &Graph, node: &Node) -> Option<AxisOrder> {
    let data = node.input(0).filter(|_| node.is("Transpose"))?;
    match node.attr("perm") {
        Some(Attr::Ints(perm)) => perm.iter().map(|axis| usize::try_from(*axis).ok()).collect(),
        Some(_) => None,
        None => Some((0..rank(graph, data)?).rev().collect()),
    }
}

/// The order that undoes `perm`.
pub(crate) fn inverse(perm: &AxisOrder) -> AxisOrder {
    let mut axes: AxisOrder = (0..perm.len()).collect();
    axes.sort_by_key(|axis| perm[*axis]);
    axes
}
