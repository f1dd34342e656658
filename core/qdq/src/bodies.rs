//! Sub-graphs whose weights are constants of the graph around them, as exporters write loops.

use onnxd_ir::{DataType, Graph, NodeId, Origin, Tensor, ValueId};
use std::collections::BTreeMap;

/// Constants that the sub-graphs of a node read, by their ids outside. `outer` are those that the
/// graph itself reads from the one around it.
pub(crate) fn captured_constants(
    g: &Graph,
    id: NodeId,
    outer: &BTreeMap<ValueId, Tensor>,
) -> BTreeMap<ValueId, Tensor> {
    let captures = g[id].subgraphs().flat_map(Graph::captures).map(|(_, outer)| outer);
    let constant = |v: ValueId| match g[v].origin() {
        Origin::Captured(from) => outer.get(&from),
        _ => g.constant(v),
    };
    captures.filter_map(|v| Some((v, constant(v)?.clone()))).collect()
}

/// Gives a node weights of its own graph where they are a constant of the enclosing one; their
/// memory is shared.
pub(crate) fn import_weights(g: &mut Graph, id: NodeId, outer: &BTreeMap<ValueId, Tensor>) {
    let slot = usize::from(!g[id].is("Gather"));
    let Some(v) = g[id].input(slot) else { return };
    let Origin::Captured(from) = g[v].origin() else { return };
    if let Some(data) = outer.get(&from).filter(|data| data.dtype() == DataType::Float) {
        let name = g[v].name.clone();
        let own = g.add_initializer(&name, data.clone());
        g.set_input(id, slot, Some(own));
        g.release(v);
    }
}
