//! Adds the nodes of one cell to the graph: names, constants, casts, and the layers they belong to.

use onnxd_plugin_sdk::diagnostics::Layer;
use onnxd_plugin_sdk::ir::{Attr, DataType, Graph, Node, NodeId, Tensor, ValueId, ValueType};

/// Where types change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Casting {
    /// With `Cast`, as the standard demands.
    Explicit,
    /// Without, as N2D2 does on demand: no runtime accepts such a graph (`ImplicitCasting`).
    Implicit,
    /// All integers are held in float32, so that there is nothing to cast (`FakeQuantization`).
    Fake,
}

/// A graph to which the nodes of one cell after the other are added.
pub(crate) struct Emit {
    pub(crate) graph: Graph,
    pub(crate) casting: Casting,
    /// What the user should know.
    pub(crate) remarks: Vec<String>,
    /// Names of new values start with it.
    pub(crate) prefix: String,
    first_new: usize,
}

impl Emit {
    pub(crate) fn new(graph: Graph, casting: Casting) -> Emit {
        Emit { graph, casting, remarks: Vec::new(), prefix: String::new(), first_new: 0 }
    }

    /// What follows belongs to the cell `name`.
    pub(crate) fn begin(&mut self, name: &str) {
        name.clone_into(&mut self.prefix);
        self.first_new = self.graph.node_bound();
    }

    /// Gives all nodes since [`Emit::begin`] the layers of those that they stand for.
    pub(crate) fn end(&mut self, layers: &[Layer]) {
        for id in self.graph.nodes_from(self.first_new) {
            self.graph.node_mut(id).add_layers(layers.iter().cloned());
        }
    }

    pub(crate) fn fake(&self) -> bool {
        self.casting == Casting::Fake
    }

    /// The type in which integers of type `dtype` are held.
    pub(crate) fn held(&self, dtype: DataType) -> DataType {
        if self.fake() { DataType::Float } else { dtype }
    }

    /// A new value `<cell>_<role>` computed by `op`.
    pub(crate) fn op(&mut self, op: &str, inputs: &[ValueId], role: &str) -> ValueId {
        self.node(Node::new(op, inputs.iter().copied(), []), role)
    }

    /// A new value `<cell>_<role>` computed by `node`.
    pub(crate) fn node(&mut self, mut node: Node, role: &str) -> ValueId {
        let out = self.graph.add_value(&format!("{}_{role}", self.prefix), None);
        if node.name.is_empty() {
            node.name.clone_from(&self.graph[out].name);
        }
        node.outputs = vec![Some(out)];
        self.graph.add_node(node);
        out
    }

    /// `v` as `to`, where casts are written.
    pub(crate) fn cast(&mut self, v: ValueId, from: DataType, to: DataType, role: &str) -> ValueId {
        if self.casting != Casting::Explicit || from == to {
            return v;
        }
        let node = Node::new("Cast", [v], []).with("to", Attr::Int(i64::from(to.number())));
        self.node(node, role)
    }

    /// An initializer `<cell>_<role>`.
    pub(crate) fn constant(&mut self, data: Tensor, role: &str) -> ValueId {
        self.graph.add_initializer(&format!("{}_{role}", self.prefix), data)
    }

    /// Integers as an initializer of type `dtype`: a scalar if all are equal, else one per channel
    /// of a value with `axes` axes behind the channels.
    pub(crate) fn integers(
        &mut self,
        values: &[i64],
        dtype: DataType,
        axes: usize,
        role: &str,
    ) -> ValueId {
        let (dims, values) = spread(values, axes);
        let data = match dtype {
            DataType::Float => Tensor::from_vec(dims, narrowed(&values, |x| x as f32)),
            DataType::Int64 => Tensor::from_vec(dims, values),
            DataType::Int32 => Tensor::from_vec(dims, narrowed(&values, |x| x as i32)),
            DataType::Uint8 => Tensor::from_vec(dims, narrowed(&values, |x| x as u8)),
            _ => Tensor::from_vec(dims, narrowed(&values, |x| x as i8)),
        };
        self.constant(data, role)
    }

    /// As [`Emit::integers`], of float32.
    pub(crate) fn reals(&mut self, values: &[f32], axes: usize, role: &str) -> ValueId {
        let (dims, values) = spread(values, axes);
        self.constant(Tensor::from_vec(dims, values), role)
    }

    /// `v`, of type `dtype`, kept within `(lo, hi)`.
    pub(crate) fn clip(&mut self, v: ValueId, dtype: DataType, (lo, hi): (i64, i64)) -> ValueId {
        let lo = self.integers(&[lo], dtype, 0, "clip_min");
        let hi = self.integers(&[hi], dtype, 0, "clip_max");
        self.op("Clip", &[v, lo, hi], "clip")
    }

    /// Lets the node that computes `v` compute the existing value `out`.
    pub(crate) fn settle(&mut self, v: ValueId, out: ValueId) {
        let new = |id: &NodeId| id.index() >= self.first_new;
        match self.graph.producer(v).filter(new) {
            Some(node) if self.graph.uses(v) == 0 => {
                let name = self.graph[out].name.clone();
                self.graph.set_output(node, 0, out);
                if !matches!(self.graph[node].op.as_str(), "ConvInteger" | "MatMulInteger") {
                    self.graph.node_mut(node).name = name;
                }
            }
            _ => {
                self.graph.add_node(Node::new("Identity", [v], [out]));
            }
        }
    }

    /// Declares the element type of `v`, whose shape stays.
    pub(crate) fn retype(&mut self, v: ValueId, dtype: DataType) {
        let shape = self.graph[v].ty.as_ref().and_then(|t| Some(t.shape()?.to_vec()));
        self.graph[v].ty = Some(ValueType::Tensor { dtype: Some(dtype), shape });
    }

    /// Number of axes behind the channels of `v`, which are axis 1, or the last of one or two.
    pub(crate) fn axes(&self, v: ValueId) -> Option<usize> {
        let rank = self.graph[v].ty.as_ref()?.shape()?.len();
        Some(rank.saturating_sub(2))
    }
}

fn narrowed<T>(values: &[i64], narrow: fn(i64) -> T) -> Vec<T> {
    values.iter().map(|x| narrow(*x)).collect()
}

fn spread<T: Copy + PartialEq>(values: &[T], axes: usize) -> (Vec<usize>, Vec<T>) {
    if values.iter().all(|x| *x == values[0]) {
        return (vec![], vec![values[0]]);
    }
    let dims = std::iter::once(values.len()).chain(std::iter::repeat_n(1, axes)).collect();
    (dims, values.to_vec())
}
