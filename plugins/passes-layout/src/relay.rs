//! Lets nodes work in the other layout, and puts Transposes where the layouts meet.

use crate::agnostic::{Relaid, dequantized};
use crate::order::{AxisOrder, perm};
use onnxd_plugin_sdk::ir::{Attr, Graph, Layers, Node, NodeId, Tensor, ValueId, ValueType};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of a constant from which on it is derived and not held.
const DERIVED_BYTES_MIN: usize = 64 << 10;

/// Nodes that change to the other layout.
pub(crate) struct Moved {
    /// Axis `i` of the old layout is axis `order[i]` of the other.
    pub(crate) order: AxisOrder,
    pub(crate) back: AxisOrder,
    pub(crate) nodes: BTreeMap<NodeId, Relaid>,
    /// Transposes that read a value in the old layout.
    pub(crate) forward: BTreeSet<NodeId>,
}

/// A change of a graph in progress.
struct Relay<'g> {
    graph: &'g mut Graph,
    plan: &'g Moved,
    /// Values of the old layout, and what stands for them in the other.
    relaid: BTreeMap<ValueId, ValueId>,
}

impl Moved {
    pub(crate) fn apply(self, graph: &mut Graph) {
        let mut relay = Relay { graph, plan: &self, relaid: BTreeMap::new() };
        let computed: Vec<(NodeId, ValueId)> = self
            .nodes
            .iter()
            .filter(|(_, relaid)| relaid.outputs)
            .flat_map(|(id, _)| relay.graph[*id].outputs.iter().flatten().map(|v| (*id, *v)))
            .collect();
        let asked: Vec<bool> = computed.iter().map(|(_, v)| relay.is_asked(*v)).collect();
        for ((id, v), asked) in computed.iter().zip(&asked) {
            relay.name_other(*id, *v, *asked);
        }
        for (id, relaid) in &self.nodes {
            relay.change(*id, relaid);
        }
        for ((id, v), _) in computed.iter().zip(&asked).filter(|(_, asked)| **asked) {
            let layers = relay.graph[*id].layers.clone();
            relay.transpose(relay.relaid[v], *v, &self.order, layers);
        }
    }
}

impl Relay<'_> {
    /// Whether `v`, which a node computes in the other layout from now on, is read in the old one.
    fn is_asked(&self, v: ValueId) -> bool {
        let reads = |id: &NodeId| match perm(self.graph, &self.graph[*id]) {
            Some(_) => self.plan.forward.contains(id),
            None => !self.plan.nodes.contains_key(id),
        };
        self.graph.is_output(v) || self.graph.readers(v).iter().any(reads)
    }

    /// Finds the value that stands for `v` in the other layout: what a Transpose made of it, or a new one. Transposes
    /// that read `v` go or read that instead, where nothing else asks for `v`.
    fn name_other(&mut self, computed_by: NodeId, v: ValueId, asked: bool) {
        let transposes = self.transposes_of(v);
        let other = transposes.iter().find(|(_, perm, _)| *perm == self.plan.back);
        let other = other.map(|(_, _, out)| *out).unwrap_or_else(|| self.add_relaid(v));
        self.relaid.insert(v, other);
        for (id, perm, out) in transposes {
            let is_back = perm == self.plan.back;
            if is_back && (out == other || !self.graph.is_output(out)) {
                self.graph.replace_uses(out, other);
                let gone = self.graph.remove_node(id);
                self.graph.node_mut(computed_by).layers.add(&gone.layers);
            } else if !asked {
                let both = perm.iter().map(|axis| self.plan.order[*axis] as i64).collect();
                self.graph.set_input(id, 0, Some(other));
                set_attr(self.graph.node_mut(id), "perm", Attr::Ints(both));
            }
        }
    }

    /// Transposes that read `v` in any layout, with what they compute.
    fn transposes_of(&self, v: ValueId) -> Vec<(NodeId, AxisOrder, ValueId)> {
        let readers = self.graph.readers(v).iter().filter(|id| !self.plan.forward.contains(id));
        let found = readers.filter_map(|id| {
            let node = &self.graph[*id];
            Some((*id, perm(self.graph, node)?, node.output(0)?))
        });
        found.collect()
    }

    fn add_relaid(&mut self, v: ValueId) -> ValueId {
        let name = format!("{}_relaid", self.graph[v].name);
        self.graph.add_value(&name, None)
    }

    /// Lets the node read and compute what it does in the other layout.
    fn change(&mut self, id: NodeId, relaid: &Relaid) {
        let mut inputs = self.graph[id].inputs.clone();
        for i in &relaid.inputs {
            inputs[*i] = inputs[*i].map(|v| self.other(id, v));
        }
        for i in &relaid.constants {
            inputs[*i] = inputs[*i].map(|v| self.other_constant(v));
        }
        for (i, list) in &relaid.integers {
            inputs.resize(inputs.len().max(i + 1), None);
            inputs[*i] = Some(self.integers(id, inputs[*i], list));
        }
        let read = self.graph[id].inputs.clone();
        self.graph.set_inputs(id, inputs);
        if relaid.outputs {
            let outputs = self.graph[id].outputs.iter().map(|v| v.map(|v| self.relaid[&v]));
            let outputs = outputs.collect();
            self.graph.set_node_outputs(id, outputs);
        }
        for (name, attr) in &relaid.attrs {
            set_attr(self.graph.node_mut(id), name, attr.clone());
        }
        for v in read.into_iter().flatten() {
            self.drop_unread(id, v);
        }
    }

    /// What stands for `v` in the other layout, for node `id` to read.
    fn other(&mut self, id: NodeId, v: ValueId) -> ValueId {
        if let Some(known) = self.relaid.get(&v) {
            return *known;
        }
        let producer = self.graph.producer(v).map(|producer| &self.graph[producer]);
        let source =
            producer.filter(|node| perm(self.graph, node).as_ref() == Some(&self.plan.order));
        let other = match source.and_then(|node| node.input(0)) {
            Some(data) => data,
            None => self.transposed(id, v),
        };
        self.relaid.insert(v, other);
        other
    }

    /// A Transpose of a value that others compute: one that is there already, or a new one.
    fn transposed(&mut self, id: NodeId, v: ValueId) -> ValueId {
        let there = self.graph.readers(v).iter().find_map(|reader| {
            let node = &self.graph[*reader];
            node.output(0).filter(|_| perm(self.graph, node).as_ref() == Some(&self.plan.back))
        });
        there.unwrap_or_else(|| {
            let other = self.add_relaid(v);
            let layers = self.graph[id].layers.clone();
            self.transpose(v, other, &self.plan.back, layers);
            other
        })
    }

    fn transpose(&mut self, from: ValueId, to: ValueId, order: &AxisOrder, layers: Layers) {
        let perm = order.iter().map(|axis| *axis as i64).collect();
        let node = Node::new("Transpose", [from], [to]).with("perm", Attr::Ints(perm));
        self.graph.add_node(Node { layers, ..node });
    }

    /// Removes the Transpose, or the dequantization of a constant, that computes `v` if nothing reads it any more. Node
    /// `id` has its layers.
    fn drop_unread(&mut self, id: NodeId, v: ValueId) {
        let Some(producer) = self.graph.producer(v) else { return };
        let replaced = self.graph[producer].is("Transpose") || dequantized(self.graph, v).is_some();
        if replaced && self.graph.uses(v) == 0 {
            let gone = self.graph.remove_node(producer);
            self.graph.node_mut(id).layers.add(&gone.layers);
        }
    }

    /// A constant that broadcasts, with all its axes in the other order.
    fn other_constant(&mut self, v: ValueId) -> ValueId {
        if let Some(known) = self.relaid.get(&v) {
            return *known;
        }
        let Some(constant) = self.graph.constant(v) else { return self.other_dequantized(v) };
        let mut dims = vec![1; self.plan.order.len() - constant.rank()];
        dims.extend(constant.dims());
        let moved = constant.reshaped(dims).and_then(|full| full.permuted(&self.plan.back));
        let moved: Tensor = moved.expect("as many elements, and each axis once");
        let small = moved.byte_len() < DERIVED_BYTES_MIN;
        let moved = if small { moved.held() } else { moved };
        let name = format!("{}_relaid", self.graph[v].name);
        let other = match constant.len() {
            1 => v,
            _ => self.graph.add_initializer(&name, moved),
        };
        self.relaid.insert(v, other);
        other
    }

    /// The same of a constant that is dequantized.
    fn other_dequantized(&mut self, v: ValueId) -> ValueId {
        let node = dequantized(self.graph, v).expect("a constant is one while its readers change");
        let mut node = Node { name: String::new(), ..node.clone() };
        let data = node.input(0).expect("it was found by that");
        let other_data = self.other_constant(data);
        if other_data == data {
            return v;
        }
        let other = self.add_relaid(v);
        let dtype = self.graph[v].ty.as_ref().and_then(ValueType::dtype);
        let sizes = self.graph.constant(other_data).map(|data| data.dims().to_vec());
        self.graph[other].ty = dtype.zip(sizes).map(|(dtype, sizes)| {
            ValueType::tensor(dtype, sizes.into_iter().map(|size| size as i64))
        });
        node.inputs[0] = Some(other_data);
        node.outputs = vec![Some(other)];
        self.graph.add_node(node);
        self.relaid.insert(v, other);
        other
    }

    /// A constant input of node `id` that says otherwise than `old`.
    fn integers(&mut self, id: NodeId, old: Option<ValueId>, list: &[i64]) -> ValueId {
        let as_i32 =
            old.and_then(|v| self.graph.constant(v)).is_some_and(|t| t.dtype().bits() == 32);
        let tensor = match as_i32 {
            true => Tensor::vector(list.iter().map(|i| *i as i32).collect()),
            false => Tensor::vector(list.to_vec()),
        };
        let named = old.or(self.graph[id].output(0)).or(self.graph[id].input(0));
        let name = named.map_or("axes", |v| self.graph[v].name.as_str());
        let name = format!("{name}_relaid");
        self.graph.add_initializer(&name, tensor)
    }
}

fn set_attr(node: &mut Node, name: &str, to: Attr) {
    node.attrs.retain(|(n, _)| n != name);
    node.attrs.push((name.into(), to));
}
