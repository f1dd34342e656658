//! Reals of other types: `DynamicQuantizeLinear` takes float32 only, so that a node of `float16`,
//! `bfloat16` or `double` reads its inputs as that, and what it computes becomes its own type again.
//! Eight bits lose more than either does.

use super::DynamicGraph;
use crate::graph::quantized::dtype_of;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Graph, Node, NodeId, ValueId, ValueType};

/// What a node was before it computed in float32.
pub(crate) struct Before {
    node: NodeId,
    inputs: Vec<(usize, ValueId)>,
    /// Its outputs, and what makes them.
    outputs: Vec<(usize, ValueId, NodeId)>,
}

impl DynamicGraph<'_, '_> {
    /// Lets a node compute in float32; `None` if it does.
    ///
    /// # Errors
    /// That it is not known what it reads.
    pub(crate) fn widen(&mut self, g: &mut Graph, id: NodeId) -> Result<Option<Before>, String> {
        let node = &g[id];
        let mut types = node.inputs.iter().chain(&node.outputs).flatten();
        let real = types.find_map(|v| dtype_of(g, *v).filter(|dtype| dtype.is_float()));
        let Some(real) = real.filter(|dtype| *dtype != DataType::Float) else { return Ok(None) };
        // In sub-graphs types are known of few values; all that weighted operators read and write are alike.
        let product = ["Conv", "Gemm", "MatMul"].contains(&node.op.as_str());
        refuse!(!product && node.inputs.iter().flatten().any(|v| dtype_of(g, *v).is_none()) =>
            "the type of what it reads is not known");
        let is = |v: ValueId| dtype_of(g, v).map_or(product, |dtype| dtype == real);
        let slots = |all: &[Option<ValueId>]| {
            let given = all.iter().enumerate().filter_map(|(slot, v)| Some((slot, (*v)?)));
            given.filter(|(_, v)| is(*v)).collect::<Vec<_>>()
        };
        let (inputs, outs) = (slots(&node.inputs), slots(&node.outputs));
        for (slot, v) in &inputs {
            let wide = self.wide(g, *v);
            g.set_input(id, *slot, Some(wide));
        }
        let mut outputs = Vec::new();
        for (slot, v) in outs {
            let wide = g.add_value(&format!("{}_float32", g[v].name), float_of(g, v));
            g.set_output(id, slot, wide);
            let cast = Node::new("Cast", [wide], [v]).with("to", number(real));
            outputs.push((slot, v, self.beside(g, id, cast)));
        }
        Ok(Some(Before { node: id, inputs, outputs }))
    }

    /// Gives a node back what it read and computed.
    pub(crate) fn narrow(&mut self, g: &mut Graph, before: Before) {
        for (slot, v, cast) in before.outputs {
            g.remove_node(cast);
            g.set_output(before.node, slot, v);
        }
        for (slot, v) in before.inputs {
            g.set_input(before.node, slot, Some(v));
        }
    }

    /// What the report calls a value.
    pub(crate) fn name(&self, g: &Graph, v: ValueId) -> String {
        let narrow = self.wide.iter().find(|(_, wide)| **wide == v).map(|(narrow, _)| *narrow);
        g[narrow.unwrap_or(v)].name.clone()
    }

    /// A value in float32.
    fn wide(&mut self, g: &mut Graph, v: ValueId) -> ValueId {
        if let Some(known) = self.wide.get(&v) {
            return *known;
        }
        let name = format!("{}_float32", g[v].name);
        let constant = g.constant(v).and_then(|t| t.to_reals()?.to_tensor(DataType::Float));
        let wide = match constant {
            Some(data) => {
                self.stale.insert(v);
                g.add_initializer(&name, data)
            }
            None => {
                let ty = float_of(g, v);
                let wide = g.add_value(&name, ty);
                let cast = Node::new("Cast", [v], [wide]).with("to", number(DataType::Float));
                let by = g.producer(v).or_else(|| g.readers(v).first().copied());
                match by {
                    Some(by) => self.beside(g, by, cast),
                    None => g.add_node(cast),
                };
                wide
            }
        };
        self.stale.insert(wide);
        self.wide.insert(v, wide);
        wide
    }

    /// Adds a node that belongs to another.
    fn beside(&self, g: &mut Graph, id: NodeId, mut node: Node) -> NodeId {
        let out = node.output(0).map_or_else(String::new, |v| g[v].name.clone());
        node.name = format!("{out}_Cast");
        node.layers.clone_from(&g[id].layers);
        g.add_node(node)
    }
}

/// A type as `Cast` takes it.
pub(crate) fn number(dtype: DataType) -> Attr {
    Attr::Int(i64::from(dtype.number()))
}

/// The type of a value with elements of float32.
fn float_of(g: &Graph, v: ValueId) -> Option<ValueType> {
    let shape = g[v].shape().map(<[_]>::to_vec);
    Some(ValueType::Tensor { dtype: Some(DataType::Float), shape })
}
