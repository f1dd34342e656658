//! Nodes that stand in for one of the float graph.

use onnxd_ir::{Graph, Node, NodeId, Tensor, ValueId};

/// Takes a node out of the graph and writes others in its place; they get its name and layers.
pub(crate) struct Emit<'g> {
    pub(crate) graph: &'g mut Graph,
    stale: Node,
    base: String,
}

impl<'g> Emit<'g> {
    /// Removes `id`. Its first output is then to be computed by [`Emit::last`].
    pub(crate) fn replace(graph: &'g mut Graph, id: NodeId) -> Emit<'g> {
        let base = graph[id].output(0).map_or_else(String::new, |v| graph[v].name.clone());
        let stale = graph.remove_node(id);
        Emit { graph, stale, base }
    }

    /// A new initializer.
    pub(crate) fn constant(&mut self, role: &str, data: Tensor) -> ValueId {
        self.graph.add_initializer(&format!("{}_{role}", self.base), data)
    }

    /// A new value, computed by `op` from `inputs`.
    pub(crate) fn op(&mut self, op: &str, inputs: &[ValueId], role: &str) -> ValueId {
        self.node(Node::new(op, inputs.iter().copied(), []), role)
    }

    /// As [`Emit::op`], for a node that lacks outputs only.
    pub(crate) fn node(&mut self, mut node: Node, role: &str) -> ValueId {
        let out = self.graph.add_value(&format!("{}_{role}", self.base), None);
        node.outputs = vec![Some(out)];
        node.name = match self.stale.name.as_str() {
            "" => String::new(),
            name => format!("{name}_{role}"),
        };
        node.layers.clone_from(&self.stale.layers);
        self.graph.add_node(node);
        out
    }

    /// `node` computes what the stale node did.
    pub(crate) fn last(self, mut node: Node) {
        node.outputs = self.stale.outputs;
        node.name = self.stale.name;
        node.layers = self.stale.layers;
        self.graph.add_node(node);
    }
}

/// Takes the data of constants that nothing reads any more out of the model.
pub(crate) fn drop_unread(graph: &mut Graph, constants: impl IntoIterator<Item = ValueId>) {
    for v in constants {
        if graph.uses(v) > 0 {
            continue;
        }
        match graph.producer(v) {
            Some(node) => drop(graph.remove_node(node)),
            None => {
                graph.set_initializer(v, None);
                graph.release(v);
            }
        }
    }
}
