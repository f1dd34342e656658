//! A node between quantized values while an operator on integers is made of it.

use crate::graph::quantized::{
    MICROSOFT, QuantizedValue, Why, dequantize_source, name, quantize_target,
};
use crate::range::weights::flipped;
use onnxd_ir::runtime::beyond_16_bits;
use onnxd_ir::{Attr, DataType, Graph, Node, Tensor, ValueId};

/// What became of a model's nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Folded {
    /// Nodes that changed form: name, operator before, operator after.
    pub folded: Vec<(String, String, String)>,
    /// Nodes between quantized values that stay as they are, and why.
    pub left: Vec<(String, String)>,
}

/// What an operator on integers adds to the name of the one it stands for.
pub(crate) const SUFFIX: &str = "_quant";

/// A node that may become one on integers.
pub(crate) struct FoldContext<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) opset: i64,
    pub(crate) node: Node,
    /// Whether products are to be exact on every processor.
    pub(crate) exact: bool,
}

impl FoldContext<'_> {
    /// The 8-bit integers that input `i` is made of, with a scale for each channel or one.
    pub(crate) fn weight(&self, i: usize) -> Result<QuantizedValue, Why> {
        let v = self.node.input(i).ok_or_else(|| format!("it has no input {i}"))?;
        dequantize_source(self.graph, v)?.eight_bit(self.graph)
    }

    /// The 8-bit integers that input `i` is made of, with one scale.
    pub(crate) fn input(&self, i: usize) -> Result<QuantizedValue, Why> {
        self.weight(i)?.per_tensor(self.graph)
    }

    /// The 8-bit integers that are made of output `i`, with one scale.
    pub(crate) fn output(&self, i: usize) -> Result<QuantizedValue, Why> {
        let v = self.node.output(i).ok_or_else(|| format!("it has no output {i}"))?;
        quantize_target(self.graph, v)?.eight_bit(self.graph)?.per_tensor(self.graph)
    }

    /// Demands that all are of one type, as kernels do.
    pub(crate) fn alike(&self, all: &[QuantizedValue]) -> Result<(), Why> {
        match all.iter().find(|c| c.dtype != all[0].dtype) {
            None => Ok(()),
            Some(other) => Err(format!(
                "{} is {} and {} is {}: kernels take one type",
                name(self.graph, all[0].q),
                all[0].dtype,
                name(self.graph, other.q),
                other.dtype
            )),
        }
    }

    /// Integers, scale and zero point as inputs: scalars if there is one scale.
    pub(crate) fn triple(&mut self, value: &QuantizedValue) -> [Option<ValueId>; 3] {
        [Some(value.q), Some(self.scale(value)), Some(self.zero(value))]
    }

    /// Scale and zero point as inputs.
    pub(crate) fn pair(&mut self, value: &QuantizedValue) -> [Option<ValueId>; 2] {
        [Some(self.scale(value)), Some(self.zero(value))]
    }

    pub(crate) fn scale(&mut self, value: &QuantizedValue) -> ValueId {
        self.scalar(value.scale, value)
    }

    pub(crate) fn zero(&mut self, value: &QuantizedValue) -> ValueId {
        if let Some(zero) = value.zero {
            return self.scalar(zero, value);
        }
        let dims = match self.graph.constant(value.scale) {
            Some(scale) if value.axis.is_some() => scale.dims().to_vec(),
            _ => vec![],
        };
        let count = dims.iter().product();
        let zeros = match value.dtype {
            DataType::Int8 => Tensor::from_vec(dims, vec![0i8; count]),
            _ => Tensor::from_vec(dims, vec![0u8; count]),
        };
        let name = format!("{}_zero_point", self.graph[value.q].name);
        self.shared(&name, zeros)
    }

    /// The weights `w` such that products with `x` are exact on the processors that are asked for, see
    /// [`beyond_16_bits`].
    pub(crate) fn exact(&mut self, x: &QuantizedValue, w: QuantizedValue) -> QuantizedValue {
        let data = self.graph.constant(w.q).filter(|data| beyond_16_bits(data)).and_then(flipped);
        let above = self.exact && x.dtype == DataType::Uint8;
        let Some(data) = data.filter(|_| above) else { return w };
        let zero = self.zero(&w);
        let Some(zeros) = self.graph.constant(zero).and_then(flipped) else { return w };
        let names = [w.q, zero].map(|v| format!("{}_uint8", self.graph[v].name));
        let [q, zero] = [(&names[0], data), (&names[1], zeros)].map(|(n, t)| self.shared(n, t));
        QuantizedValue { q, dtype: DataType::Uint8, zero: Some(zero), ..w }
    }

    /// A scale or zero point without axes, if it is one for all.
    fn scalar(&mut self, v: ValueId, value: &QuantizedValue) -> ValueId {
        let flat = match self.graph.constant(v) {
            Some(t) if value.axis.is_none() && t.rank() > 0 => t.reshaped(vec![]).ok(),
            _ => None,
        };
        let name = format!("{}_scalar", self.graph[v].name);
        flat.map_or(v, |t| self.shared(&name, t))
    }

    /// The initializer `name` if it holds the same, or a new one.
    pub(crate) fn shared(&mut self, name: &str, data: Tensor) -> ValueId {
        let found = self.graph.value_named(name);
        match found.filter(|v| self.graph.constant(*v) == Some(&data)) {
            Some(v) => v,
            None => self.graph.add_initializer(name, data),
        }
    }

    /// The node that stands for this one: operator, inputs, and this one's attributes without
    /// those that `drop` names.
    pub(crate) fn made(
        &self,
        (domain, op): (&str, &str),
        inputs: Vec<Option<ValueId>>,
        output: ValueId,
        drop: &[&str],
    ) -> Node {
        let mut node = Node { domain: domain.into(), inputs, ..Node::new(op, [], [output]) };
        let attrs = self.node.attrs.iter().filter(|(name, _)| !drop.contains(&name.as_str()));
        node.attrs = attrs.cloned().collect();
        while node.inputs.last() == Some(&None) {
            node.inputs.pop();
        }
        node
    }

    /// [`FoldContext::made`] of an operator of ONNX Runtime, with further attributes.
    pub(crate) fn microsoft(
        &self,
        op: &str,
        inputs: Vec<Option<ValueId>>,
        output: ValueId,
        attrs: &[(&str, i64)],
    ) -> Node {
        let names: Vec<&str> = attrs.iter().map(|(name, _)| *name).collect();
        let node = self.made((MICROSOFT, op), inputs, output, &names);
        attrs.iter().fold(node, |node, (name, n)| node.with(*name, Attr::Int(*n)))
    }
}
