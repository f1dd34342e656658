//! Nodes and constants of pairs of `QuantizeLinear` and `DequantizeLinear`, and the graph that gets them.

use crate::graph::quantized::dtype_of;
use crate::graph::weighted::FLOATS;
use crate::range::weights::finite;
use crate::range::{Scale, integers};
use crate::report::{Report, name_of};
use onnxd_ir::{Attr, DataType, Graph, Layers, Node, NodeId, Reals, Tensor, ValueId, ValueType};
use std::collections::BTreeMap;

/// A graph that gets its pairs.
pub(crate) struct Placer<'g> {
    pub(crate) graph: &'g mut Graph,
    pub(crate) done: Report,
    /// How values are quantized.
    pub(crate) scales: BTreeMap<ValueId, Scale>,
    /// Scale and zero point as initializers, by the value that they were made for.
    pub(crate) parameters: BTreeMap<ValueId, (ValueId, ValueId)>,
    /// What the report says about ranges.
    pub(crate) method: &'g str,
    /// Names of nodes as the float graph has them: those without one are called by their outputs,
    /// which change.
    pub(crate) names: BTreeMap<NodeId, String>,
}

/// Adds `QuantizeLinear` or `DequantizeLinear` from one value to another, called after `name`.
pub(crate) fn add_linear(
    graph: &mut Graph,
    (op, from, to): (&str, ValueId, ValueId),
    (scale, zero): (ValueId, Option<ValueId>),
    axis: Option<i64>,
    (name, layers): (&str, &Layers),
) {
    let mut node = Node::new(op, [from, scale], [to]);
    node.inputs.extend(zero.map(Some));
    if let Some(axis) = axis {
        node = node.with("axis", Attr::Int(axis));
    }
    node.name = format!("{name}_{op}");
    node.layers.add(layers);
    graph.add_node(node);
}

/// A scale as a constant.
fn step(scale: Scale, dtype: DataType) -> Tensor {
    let step = Reals::scalar(scale.scale).to_tensor(dtype);
    step.unwrap_or_else(|| Tensor::scalar(scale.scale as f32))
}

/// The type of the reals of a value, which is that of its scale.
pub(crate) fn real_type(graph: &Graph, v: ValueId) -> DataType {
    dtype_of(graph, v).filter(|dtype| FLOATS.contains(dtype)).unwrap_or(DataType::Float)
}

/// A step as float16 holds it; smaller ones would lose too many digits, or all.
pub(crate) fn half_step(step: f64) -> f64 {
    const LEAST: f64 = 1.0 / (1 << 20) as f64;
    let half = Reals::scalar(step.max(LEAST)).to_tensor(DataType::Float16);
    let half = half.and_then(|t| t.to_reals()).map(|r| r.values[0]);
    half.filter(|s| s.is_finite()).unwrap_or(step)
}

impl Placer<'_> {
    /// What the report calls a node.
    pub(crate) fn name(&self, node: NodeId) -> String {
        let name = || name_of(self.graph, &self.graph[node]);
        self.names.get(&node).cloned().unwrap_or_else(name)
    }

    /// The initializers of a scale.
    pub(crate) fn parameters(&mut self, provider: ValueId, scale: Scale) -> (ValueId, ValueId) {
        if let Some(known) = self.parameters.get(&provider) {
            return *known;
        }
        let name = self.graph[provider].name.clone();
        let step = step(scale, real_type(self.graph, provider));
        let zero = integers(scale.dtype, &[], &[scale.zero_point]);
        let zero = zero.unwrap_or_else(|| Tensor::scalar(0u8));
        let step = self.graph.add_initializer(&format!("{name}_scale"), step);
        let zero = self.graph.add_initializer(&format!("{name}_zero_point"), zero);
        self.parameters.insert(provider, (step, zero));
        (step, zero)
    }

    /// `v` rounded to integers and back, as `out` or a new value.
    pub(crate) fn pair(
        &mut self,
        v: ValueId,
        (scale, zero): (ValueId, ValueId),
        out: Option<ValueId>,
        name: &str,
    ) -> ValueId {
        let layers = self.layers(v);
        let shape = self.graph[v].shape().map(<[_]>::to_vec);
        let dtype = self.graph.constant(zero).map(Tensor::dtype);
        let integers = ValueType::Tensor { dtype, shape };
        let integers = self.graph.add_value(&format!("{name}_quantized"), Some(integers));
        let quantize = ("QuantizeLinear", v, integers);
        add_linear(self.graph, quantize, (scale, Some(zero)), None, (name, &layers));
        let back = out.unwrap_or_else(|| {
            let ty = self.graph[v].ty.clone();
            self.graph.add_value(&format!("{name}_dequantized"), ty)
        });
        self.dequantize(integers, (scale, Some(zero)), None, (back, name), &layers);
        back
    }

    /// Adds a `DequantizeLinear` that computes `out`.
    pub(crate) fn dequantize(
        &mut self,
        x: ValueId,
        (scale, zero): (ValueId, Option<ValueId>),
        axis: Option<usize>,
        (out, name): (ValueId, &str),
        layers: &Layers,
    ) {
        // The standard's default is left out.
        let axis = axis.filter(|axis| *axis != 1).map(|axis| axis as i64);
        add_linear(self.graph, ("DequantizeLinear", x, out), (scale, zero), axis, (name, layers));
    }

    /// A constant as integers and back.
    pub(crate) fn constant(
        &mut self,
        name: &str,
        constant: &Tensor,
        scale: Scale,
    ) -> Option<ValueId> {
        let values: Vec<i64> = finite(constant).ok()?.iter().map(|x| scale.quantize(*x)).collect();
        let data = integers(scale.dtype, constant.dims(), &values)?;
        let zero = integers(scale.dtype, &[], &[scale.zero_point])?;
        let x = self.graph.add_initializer(&format!("{name}_quantized"), data);
        let step = step(scale, constant.dtype());
        let step = self.graph.add_initializer(&format!("{name}_scale"), step);
        let zero = self.graph.add_initializer(&format!("{name}_zero_point"), zero);
        let out = self.graph.add_value(&format!("{name}_dequantized"), None);
        self.dequantize(x, (step, Some(zero)), None, (out, name), &Layers::default());
        Some(out)
    }

    /// The layers of who computes a value, else of its first reader.
    fn layers(&self, v: ValueId) -> Layers {
        let by = self.graph.producer(v).or_else(|| self.graph.readers(v).first().copied());
        by.map(|id| self.graph[id].layers.clone()).unwrap_or_default()
    }
}
