//! The graph: nodes and values in arenas, def-use edges kept in step by the few functions that change them.

use crate::{Attr, Node, NodeId, Op, Origin, SparseTensor, Tensor, Value, ValueId, ValueType};
use std::collections::{BTreeMap, HashMap};
use std::ops::{Index, IndexMut};

/// A graph, a sub-graph, or the body of a function.
///
/// Invariants: every value a node names belongs to this graph; [`Graph::uses`] counts every read by a node of this
/// graph (captures by its sub-graphs included) and every listing as graph output.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The graph's name.
    pub name: String,
    /// Free text.
    pub doc: String,
    /// `metadata_props`.
    pub metadata: Vec<(String, String)>,
    /// Quantization annotations: value, then pairs of parameter key and value name.
    pub annotations: Vec<(ValueId, Vec<(String, String)>)>,
    /// Sparse initializers.
    pub sparse: BTreeMap<ValueId, SparseTensor>,
    values: Vec<Value>,
    nodes: Vec<Option<Node>>,
    inputs: Vec<ValueId>,
    outputs: Vec<ValueId>,
    names: HashMap<String, ValueId>,
    /// In a sub-graph: which values stand for one of the enclosing graph.
    captured: HashMap<ValueId, Vec<ValueId>>,
}

impl Graph {
    /// An empty graph.
    pub fn new(name: impl Into<String>) -> Graph {
        Graph { name: name.into(), ..Graph::default() }
    }

    // ---- values -------------------------------------------------------------------------------------------------

    /// Adds a value named `name`, or a name derived from it if it is taken.
    pub fn add_value(&mut self, name: &str, ty: Option<ValueType>) -> ValueId {
        let name = self.fresh_name(name);
        let id = ValueId(u32::try_from(self.values.len()).expect("fewer than 2^32 values"));
        self.names.insert(name.clone(), id);
        self.values.push(Value::new(name, ty));
        id
    }

    /// Adds a graph input.
    pub fn add_input(&mut self, name: &str, ty: Option<ValueType>) -> ValueId {
        let id = self.add_value(name, ty);
        self.mark_input(id);
        id
    }

    /// Adds an initializer.
    pub fn add_initializer(&mut self, name: &str, data: Tensor) -> ValueId {
        let ty = ValueType::tensor(data.dtype(), data.dims().iter().map(|d| *d as i64));
        let id = self.add_value(name, Some(ty));
        self[id].data = Some(data);
        id
    }

    /// Makes a value that nothing produces a graph input.
    pub fn mark_input(&mut self, id: ValueId) {
        debug_assert_eq!(self[id].origin, Origin::None);
        self[id].origin = Origin::Input;
        self.inputs.push(id);
    }

    /// Takes `id` off the list of inputs; an initializer of that name then is a constant.
    pub fn unmark_input(&mut self, id: ValueId) {
        if self[id].origin == Origin::Input {
            self[id].origin = Origin::None;
            self.inputs.retain(|i| *i != id);
        }
    }

    /// As [`Graph::unmark_input`], for thousands at once.
    pub fn unmark_inputs(&mut self, ids: &[ValueId]) {
        for id in ids {
            if self[*id].origin == Origin::Input {
                self[*id].origin = Origin::None;
            }
        }
        let inputs = std::mem::take(&mut self.inputs).into_iter();
        self.inputs = inputs.filter(|v| self[*v].origin == Origin::Input).collect();
    }

    /// Lists `id` as a graph output.
    pub fn mark_output(&mut self, id: ValueId) {
        self.outputs.push(id);
        self[id].listed += 1;
    }

    /// Gives a value its initializer.
    pub fn set_initializer(&mut self, id: ValueId, data: Option<Tensor>) {
        self[id].data = data;
    }

    /// In a sub-graph: the local stand-in for value `outer` of the enclosing graph, called `name` there.
    pub fn capture(&mut self, outer: ValueId, name: &str, ty: Option<ValueType>) -> ValueId {
        if let Some(inner) = self.captured.get(&outer).and_then(|inner| inner.first()) {
            return *inner;
        }
        let id = self.add_capture(outer, name);
        self[id].ty = ty;
        id
    }

    /// As [`Graph::capture`], for a value that is known not to be captured yet: takes no search.
    pub(crate) fn add_capture(&mut self, outer: ValueId, name: &str) -> ValueId {
        let id = self.add_value(name, None);
        self[id].origin = Origin::Captured(outer);
        self.captured.entry(outer).or_default().push(id);
        id
    }

    /// In a sub-graph: ends the capture of a value that nothing reads any more.
    pub fn release(&mut self, id: ValueId) {
        let Origin::Captured(outer) = self[id].origin else { return };
        if self.uses(id) > 0 {
            return;
        }
        self[id].origin = Origin::None;
        if let Some(inner) = self.captured.get_mut(&outer) {
            inner.retain(|v| *v != id);
        }
    }

    /// In a sub-graph: makes its captures inputs, so that it stands alone. Gives their names and what they stood for.
    pub fn close(&mut self) -> Vec<(String, ValueId)> {
        let captures: Vec<(ValueId, ValueId)> = self.captures().collect();
        self.captured.clear();
        let close = |(own, outer): (ValueId, ValueId)| {
            self[own].origin = Origin::None;
            self.mark_input(own);
            (self[own].name.clone(), outer)
        };
        captures.into_iter().map(close).collect()
    }

    /// Removes those of `values` that nothing reads any more: the data of constants, captures, and the
    /// nodes that compute the others.
    pub fn drop_unread(&mut self, values: impl IntoIterator<Item = ValueId>) {
        for v in values {
            if self.uses(v) > 0 {
                continue;
            }
            match self.producer(v) {
                Some(node) => drop(self.remove_node(node)),
                None => {
                    self.set_initializer(v, None);
                    self.release(v);
                }
            }
        }
    }

    /// What stood for value `from` of the enclosing graph stands for `to`.
    fn capture_instead(&mut self, from: ValueId, to: ValueId) {
        let inner = self.captured.remove(&from).unwrap_or_default();
        for id in &inner {
            self[*id].origin = Origin::Captured(to);
        }
        self.captured.entry(to).or_default().extend(inner);
    }

    /// In a sub-graph: changes what its captured values stand for.
    pub(crate) fn recapture(&mut self, outer: impl Fn(ValueId) -> ValueId) {
        let all = std::mem::take(&mut self.captured).into_iter();
        // What was released leaves an empty list behind.
        for (old, inner) in all.filter(|(_, inner)| !inner.is_empty()) {
            let new = outer(old);
            for id in &inner {
                self[*id].origin = Origin::Captured(new);
            }
            let all = self.captured.entry(new).or_default();
            all.extend(inner);
            all.sort_unstable();
        }
    }

    /// In a sub-graph: what it captures, as (own id, id in the enclosing graph).
    pub fn captures(&self) -> impl Iterator<Item = (ValueId, ValueId)> + '_ {
        self.value_ids().filter_map(|v| match self[v].origin {
            Origin::Captured(outer) => Some((v, outer)),
            _ => None,
        })
    }

    /// Graph inputs in order.
    pub fn inputs(&self) -> &[ValueId] {
        &self.inputs
    }

    /// Graph outputs in order.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// Replaces the list of outputs.
    pub fn set_outputs(&mut self, outputs: Vec<ValueId>) {
        for old in std::mem::replace(&mut self.outputs, outputs) {
            self[old].listed -= 1;
        }
        for at in 0..self.outputs.len() {
            let id = self.outputs[at];
            self[id].listed += 1;
        }
    }

    /// All value ids, also of values nothing reads any more.
    pub fn value_ids(&self) -> impl ExactSizeIterator<Item = ValueId> + use<> {
        self.values_from(0)
    }

    /// Ids of the values that were added since there were `bound` of them.
    pub fn values_from(
        &self,
        bound: usize,
    ) -> impl ExactSizeIterator<Item = ValueId> + Clone + use<> {
        (bound as u32..self.values.len() as u32).map(ValueId)
    }

    /// The value called `name`.
    pub fn value_named(&self, name: &str) -> Option<ValueId> {
        self.names.get(name).copied()
    }

    /// Renames a value; the new name must be free.
    pub fn rename(&mut self, id: ValueId, name: &str) {
        debug_assert!(!self.names.contains_key(name));
        let old = std::mem::replace(&mut self[id].name, name.to_owned());
        self.names.remove(&old);
        self.names.insert(name.to_owned(), id);
    }

    /// The value as a constant: an initializer that no caller can override, or the output of a `Constant` node.
    pub fn constant(&self, id: ValueId) -> Option<&Tensor> {
        let value = &self[id];
        match value.origin {
            Origin::None => value.data.as_ref(),
            Origin::Node(node, 0) => match self[node].attr("value") {
                Some(Attr::Tensor(t)) if self[node].is("Constant") => Some(t),
                _ => None,
            },
            _ => None,
        }
    }

    /// How often the value is read by nodes (sub-graphs included) plus how often it is listed as graph output.
    pub fn uses(&self, id: ValueId) -> usize {
        self.readers(id).len() + self[id].listed
    }

    /// Nodes that read the value, once per read.
    pub fn readers(&self, id: ValueId) -> &[NodeId] {
        self[id].readers.as_slice()
    }

    /// Whether the value is listed as a graph output.
    pub fn is_output(&self, id: ValueId) -> bool {
        self[id].listed > 0
    }

    /// The node that produces the value.
    pub fn producer(&self, id: ValueId) -> Option<NodeId> {
        match self[id].origin {
            Origin::Node(node, _) => Some(node),
            _ => None,
        }
    }

    // ---- nodes --------------------------------------------------------------------------------------------------

    /// Adds a node. Its outputs must be values that nothing produces yet.
    pub fn add_node(&mut self, node: Node) -> NodeId {
        let id = NodeId(u32::try_from(self.nodes.len()).expect("fewer than 2^32 nodes"));
        for (slot, output) in node.outputs.iter().enumerate() {
            if let Some(v) = *output {
                debug_assert_eq!(self[v].origin, Origin::None, "{} has a producer", self[v].name);
                self[v].origin = Origin::Node(id, slot);
            }
        }
        let reads: Vec<ValueId> = node.reads().collect();
        for v in reads {
            self[v].readers.push(id);
        }
        self.nodes.push(Some(node));
        id
    }

    /// Adds one operator whose single output gets a name made from `name`; returns that output.
    pub fn add<O: Op>(&mut self, name: &str, op: O) -> ValueId {
        let out = self.add_value(name, None);
        self.add_node(op.into_node(out));
        out
    }

    /// Removes a node and returns it; its outputs are then produced by nothing.
    ///
    /// # Panics
    /// If it was removed before.
    pub fn remove_node(&mut self, id: NodeId) -> Node {
        let node = self.nodes[id.index()].take().expect("a node is removed once");
        for v in node.outputs.iter().flatten() {
            self[*v].origin = Origin::None;
        }
        let reads: Vec<ValueId> = node.reads().collect();
        for v in reads {
            self.forget_read(v, id);
        }
        node
    }

    /// Makes input `slot` of a node read `to`.
    pub fn set_input(&mut self, id: NodeId, slot: usize, to: Option<ValueId>) {
        if let Some(old) = self[id].inputs[slot] {
            self.forget_read(old, id);
        }
        self.node_mut(id).inputs[slot] = to;
        if let Some(v) = to {
            self[v].readers.push(id);
        }
    }

    /// Replaces all inputs of a node.
    pub fn set_inputs(&mut self, id: NodeId, inputs: Vec<Option<ValueId>>) {
        for v in &inputs {
            if let Some(v) = *v {
                self[v].readers.push(id);
            }
        }
        for v in std::mem::replace(&mut self.node_mut(id).inputs, inputs).into_iter().flatten() {
            self.forget_read(v, id);
        }
    }

    /// Replaces all outputs of a node; the new ones must be values that nothing produces yet.
    pub fn set_node_outputs(&mut self, id: NodeId, outputs: Vec<Option<ValueId>>) {
        for v in std::mem::take(&mut self.node_mut(id).outputs).into_iter().flatten() {
            self[v].origin = Origin::None;
        }
        for (slot, v) in outputs.iter().enumerate() {
            if let Some(v) = *v {
                debug_assert_eq!(self[v].origin, Origin::None, "{} has a producer", self[v].name);
                self[v].origin = Origin::Node(id, slot);
            }
        }
        self.node_mut(id).outputs = outputs;
    }

    /// Makes output `slot` of a node produce `to`, a value that nothing produces yet.
    pub fn set_output(&mut self, id: NodeId, slot: usize, to: ValueId) {
        debug_assert_eq!(self[to].origin, Origin::None, "{} has a producer", self[to].name);
        if let Some(old) = self[id].outputs[slot] {
            self[old].origin = Origin::None;
        }
        self.node_mut(id).outputs[slot] = Some(to);
        self[to].origin = Origin::Node(id, slot);
    }

    /// Everything that read `from` reads `to` from now on: nodes, sub-graphs, graph outputs.
    pub fn replace_uses(&mut self, from: ValueId, to: ValueId) {
        if from == to {
            return;
        }
        let mut readers = self[from].readers.take();
        for id in &readers {
            self[to].readers.push(*id);
        }
        readers.sort_unstable();
        readers.dedup();
        for id in readers {
            let node = self.node_mut(id);
            for input in &mut node.inputs {
                if *input == Some(from) {
                    *input = Some(to);
                }
            }
            for graph in node.attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut()) {
                graph.capture_instead(from, to);
            }
        }
        let listed = std::mem::take(&mut self[from].listed);
        if listed > 0 {
            self[to].listed += listed;
            self.outputs.iter_mut().filter(|o| **o == from).for_each(|o| *o = to);
        }
    }

    /// Calls `f` for all sub-graphs and then for this graph; `opset` holds in all of them.
    pub fn with_subgraphs_mut(&mut self, opset: i64, f: &mut dyn FnMut(&mut Graph, i64)) {
        let outer = self.nodes().filter(|(_, n)| n.subgraphs().next().is_some());
        for id in outer.map(|(id, _)| id).collect::<Vec<_>>() {
            self.edit_subgraphs(id, |inner| inner.with_subgraphs_mut(opset, f));
        }
        f(self, opset);
    }

    /// Changes the sub-graphs of a node in place; what they capture afterwards is counted anew.
    pub fn edit_subgraphs(&mut self, id: NodeId, mut edit: impl FnMut(&mut Graph)) {
        let mut node = self.nodes[id.index()].take().expect("the node exists");
        for v in node.reads().collect::<Vec<_>>() {
            self.forget_read(v, id);
        }
        node.attrs.iter_mut().flat_map(|(_, a)| a.graphs_mut()).for_each(&mut edit);
        for v in node.reads().collect::<Vec<_>>() {
            self[v].readers.push(id);
        }
        self.nodes[id.index()] = Some(node);
    }

    /// Changes attributes, names or metadata of a node in place. Inputs, outputs and sub-graphs must stay as they are.
    pub fn node_mut(&mut self, id: NodeId) -> &mut Node {
        self.nodes[id.index()].as_mut().expect("the node exists")
    }

    /// The node, unless it was removed.
    pub fn node(&self, id: NodeId) -> Option<&Node> {
        self.nodes.get(id.index()).and_then(Option::as_ref)
    }

    /// Nodes in the order of insertion.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> + '_ {
        self.nodes.iter().enumerate().filter_map(|(i, n)| Some((NodeId(i as u32), n.as_ref()?)))
    }

    /// Ids of the nodes in the order of insertion.
    pub fn node_ids(&self) -> Vec<NodeId> {
        self.nodes().map(|(id, _)| id).collect()
    }

    /// Ids of the nodes that were added since [`Graph::node_bound`] was `bound`.
    pub fn nodes_from(&self, bound: usize) -> Vec<NodeId> {
        let ids = (bound..self.nodes.len()).map(|i| NodeId(i as u32));
        ids.filter(|id| self.node(*id).is_some()).collect()
    }

    /// Number of nodes.
    pub fn node_count(&self) -> usize {
        self.nodes.iter().flatten().count()
    }

    /// Number of places that node ids index, removed nodes included.
    pub fn node_bound(&self) -> usize {
        self.nodes.len()
    }

    fn forget_read(&mut self, v: ValueId, id: NodeId) {
        self[v].readers.remove(id);
    }
}

impl Index<ValueId> for Graph {
    type Output = Value;
    fn index(&self, id: ValueId) -> &Value {
        &self.values[id.index()]
    }
}

impl IndexMut<ValueId> for Graph {
    fn index_mut(&mut self, id: ValueId) -> &mut Value {
        &mut self.values[id.index()]
    }
}

impl Index<NodeId> for Graph {
    type Output = Node;
    fn index(&self, id: NodeId) -> &Node {
        self.nodes[id.index()].as_ref().expect("the node exists")
    }
}

#[cfg(test)]
#[path = "graph_tests.rs"]
mod tests;
