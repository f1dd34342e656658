//! A node on integers while an operator on floats is made of it.

use crate::emit::placer::add_linear;
use crate::graph::quantized::{
    QuantizedValue, Why, dequantize_source, floats, is_linear, name, quantized_by, rank_of,
};
use onnxd_ir::{Graph, Node, NodeId, Tensor, ValueId};

/// The scale and zero point with which `v` was made.
pub(crate) fn made_of(graph: &Graph, v: ValueId) -> Result<QuantizedValue, Why> {
    let node = graph.producer(v).map(|id| &graph[id]);
    let node = node.filter(|node| is_linear(node, "QuantizeLinear"));
    let node = node.ok_or_else(|| format!("the scale of {} is not known", name(graph, v)))?;
    quantized_by(graph, node)
}

/// What stands for a node on integers.
pub(crate) struct Float {
    /// The operator on floats, without outputs.
    pub(crate) node: Node,
    /// Scale and zero point of the integers that are made of its first `count` outputs.
    pub(crate) made: Option<(ValueId, Option<ValueId>)>,
    pub(crate) count: usize,
    /// Nodes behind the one on integers for which it stands too; the last computes the result.
    pub(crate) instead: Option<Vec<NodeId>>,
}

/// A node on integers that may become one on floats.
pub(crate) struct UnfoldContext<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) opset: i64,
    pub(crate) node: Node,
}

impl UnfoldContext<'_> {
    /// Input `i`, which must be there.
    pub(crate) fn given(&self, i: usize) -> Result<ValueId, Why> {
        self.node.input(i).ok_or_else(|| format!("it has no input {i}"))
    }

    /// Name of the first output.
    pub(crate) fn out(&self) -> String {
        self.node.output(0).map_or(String::new(), |v| self.graph[v].name.clone())
    }

    pub(crate) fn rank(&self, v: ValueId) -> Result<usize, Why> {
        let unknown = || format!("the rank of {} is not known", name(self.graph, v));
        rank_of(self.graph, v).ok_or_else(unknown)
    }

    /// Demands that an axis of `v` has `size` elements.
    pub(crate) fn sized(&self, v: ValueId, axis: usize, size: usize) -> Result<(), Why> {
        let declared = || {
            let dim = self.graph[v].shape()?.get(axis)?.known();
            dim.and_then(|n| usize::try_from(n).ok())
        };
        let constant = self.graph.constant(v).map(|t| t.dims()[axis]);
        match constant.or_else(declared) {
            Some(n) if n == size => Ok(()),
            _ => Err(format!("{} does not have {size} elements", name(self.graph, v))),
        }
    }

    /// The scale and zero point with which input `i` was made, one for all.
    pub(crate) fn quantized_value(&self, i: usize) -> Result<QuantizedValue, Why> {
        self.quantized_value_of(self.given(i)?)
    }

    /// As [`UnfoldContext::quantized_value`], of a value.
    pub(crate) fn quantized_value_of(&self, v: ValueId) -> Result<QuantizedValue, Why> {
        made_of(self.graph, v)?.per_tensor(self.graph)
    }

    /// The reals of an input, told where it, its scale and its zero point are. Where there are
    /// several scales, they belong to `axis`.
    pub(crate) fn real(&mut self, at: [usize; 3], axis: Option<i64>) -> Result<ValueId, Why> {
        let (q, scale) = (self.given(at[0])?, self.given(at[1])?);
        let several = match self.graph.constant(scale) {
            Some(s) if s.len() > 1 && (axis.is_none() || s.rank() != 1) => {
                return Err(format!("{} has several scales", name(self.graph, q)));
            }
            Some(s) => s.len() > 1,
            None => false,
        };
        let mut zero = self.node.input(at[2]);
        if several && zero.is_some_and(|z| self.graph.constant(z).is_some_and(|z| z.len() == 1)) {
            zero = self.repeated(zero, scale)?;
        }
        Ok(self.real_of(q, scale, zero, axis.filter(|_| several)))
    }

    /// The reals of `q`: those that are there, or new ones.
    pub(crate) fn real_of(
        &mut self,
        q: ValueId,
        scale: ValueId,
        zero: Option<ValueId>,
        axis: Option<i64>,
    ) -> ValueId {
        let equal = |a: Option<ValueId>, b: Option<ValueId>| {
            let data = |v: Option<ValueId>| v.and_then(|v| self.graph.constant(v));
            a == b || (data(a).is_some() && data(a) == data(b))
        };
        let fits = |id: &&NodeId| {
            let out = self.graph[**id].output(0);
            out.and_then(|v| dequantize_source(self.graph, v).ok()).is_some_and(|quantized_value| {
                quantized_value.q == q
                    && quantized_value.axis == axis
                    && equal(Some(quantized_value.scale), Some(scale))
                    && equal(quantized_value.zero, zero)
            })
        };
        if let Some(there) = self.graph.readers(q).iter().find(fits) {
            return self.graph[*there].outputs[0].expect("it was read");
        }
        let name = self.graph[q].name.clone();
        let real = self.graph.add_value(&format!("{name}_dequantized"), None);
        let dequantize = ("DequantizeLinear", q, real);
        add_linear(self.graph, dequantize, (scale, zero), axis, (&name, &self.node.layers));
        real
    }

    /// A zero point for each of several scales.
    pub(crate) fn repeated(
        &mut self,
        zero: Option<ValueId>,
        scale: ValueId,
    ) -> Result<Option<ValueId>, Why> {
        let Some(zero) = zero else { return Ok(None) };
        let count = floats(self.graph, scale)?.len();
        let one = self.graph.constant(zero);
        let all = one.and_then(|one| {
            let bytes = one.bytes().repeat(count).into();
            Tensor::new(one.dtype(), vec![count], bytes).ok()
        });
        let all = all.ok_or_else(|| format!("{} is not a constant", name(self.graph, zero)))?;
        let name = format!("{}_repeated", self.graph[zero].name);
        Ok(Some(self.graph.add_initializer(&name, all)))
    }

    /// `op` with this node's attributes except those that `drop` names. Scale and zero point of the
    /// result are the inputs `to`; without them it is float.
    pub(crate) fn float(
        &mut self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        drop: &[&str],
        to: [usize; 2],
    ) -> Result<Float, Why> {
        let mut float = self.plain(op, inputs);
        float.node.attrs = self.attrs(drop);
        float.made = self.node.input(to[0]).map(|scale| (scale, self.node.input(to[1])));
        Ok(float)
    }

    /// `op` with this node's attributes, whose first `count` results are quantized like `x`.
    pub(crate) fn moved(
        &mut self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        x: &QuantizedValue,
        count: usize,
    ) -> Result<Float, Why> {
        let mut float = self.plain(op, inputs);
        (float.made, float.count) = (Some((x.scale, x.zero)), count);
        Ok(float)
    }

    /// `op` with this node's attributes and a result in float.
    pub(crate) fn plain(&self, op: &str, mut inputs: Vec<Option<ValueId>>) -> Float {
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        let mut node = Node { inputs, ..Node::new(op, [], []) };
        node.attrs = self.attrs(&[]);
        node.doc.clone_from(&self.node.doc);
        node.metadata.clone_from(&self.node.metadata);
        Float { node, made: None, count: 1, instead: None }
    }

    fn attrs(&self, drop: &[&str]) -> Vec<(String, onnxd_ir::Attr)> {
        let kept = self.node.attrs.iter().filter(|(name, _)| !drop.contains(&name.as_str()));
        kept.cloned().collect()
    }

    /// Adds a node in front of the one that computes the result; returns what it computes.
    pub(crate) fn inner(&mut self, mut node: Node, role: &str) -> ValueId {
        let out = self.graph.add_value(&format!("{}_{role}", self.out()), None);
        node.name = self.graph[out].name.clone();
        node.outputs = vec![Some(out)];
        node.layers.add(&self.node.layers);
        self.graph.add_node(node);
        out
    }
}
