//! Integers and the reals that they stand for, as `QuantizeLinear` and `DequantizeLinear` say it.

use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Graph, Node, NodeId, Origin, Tensor, ValueId};

/// Why something stays as it is, in words for the report.
pub(crate) type Why = String;

/// The domain of ONNX Runtime's operators.
pub(crate) const MICROSOFT: &str = "com.microsoft";

/// Integers with their scale and zero point.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuantizedValue {
    /// The integers.
    pub(crate) q: ValueId,
    /// Their type.
    pub(crate) dtype: DataType,
    /// Real value of a step.
    pub(crate) scale: ValueId,
    /// The integer that means zero; absent if it is 0.
    pub(crate) zero: Option<ValueId>,
    /// The axis along which scales differ, as the attribute says it; `None` for one scale.
    pub(crate) axis: Option<i64>,
}

/// Whether `node` is operator `op`, of the standard or in ONNX Runtime's version of it.
pub(crate) fn is_linear(node: &Node, op: &str) -> bool {
    node.op == op && (node.is_standard() || node.domain == MICROSOFT)
}

/// Name of a value, quoted for a reason.
pub(crate) fn name(graph: &Graph, v: ValueId) -> String {
    format!("`{}`", graph[v].name)
}

/// What `v` was made of by `DequantizeLinear`, to `float`.
pub(crate) fn dequantize_source(graph: &Graph, v: ValueId) -> Result<QuantizedValue, Why> {
    let node = graph.producer(v).map(|id| &graph[id]);
    let node = node.filter(|node| is_linear(node, "DequantizeLinear"));
    let node = node.ok_or_else(|| format!("{} is not dequantized", name(graph, v)))?;
    value_of(graph, node, node.input(0))
}

/// The integers that `node`, a `QuantizeLinear`, makes of `float`.
pub(crate) fn quantized_by(graph: &Graph, node: &Node) -> Result<QuantizedValue, Why> {
    value_of(graph, node, node.output(0))
}

/// The integers that are made of `v`, which nothing else may read.
pub(crate) fn quantize_target(graph: &Graph, v: ValueId) -> Result<QuantizedValue, Why> {
    let is = |id: &&NodeId| {
        let node = &graph[**id];
        is_linear(node, "QuantizeLinear") && node.input(0) == Some(v)
    };
    let Some(reader) = graph.readers(v).iter().find(is) else {
        return Err(format!("{} stays in float", name(graph, v)));
    };
    refuse!(graph.uses(v) > 1 => "{} is read in float too", name(graph, v));
    quantized_by(graph, &graph[*reader])
}

fn value_of(graph: &Graph, node: &Node, q: Option<ValueId>) -> Result<QuantizedValue, Why> {
    let (Some(q), Some(scale)) = (q, node.input(1)) else {
        return Err(format!("{} has no scale", node.op));
    };
    let zero = node.input(2);
    let float = i64::from(DataType::Float.number());
    let plain = node.int("block_size", 0) == 0
        && [0, float].contains(&node.int("precision", 0))
        && (node.op == "QuantizeLinear" || [0, float].contains(&node.int("output_dtype", 0)));
    refuse!(!plain => "{} has a scale for each block, or other types", name(graph, q));
    let dtype = [Some(q), zero].into_iter().flatten().find_map(|v| dtype_of(graph, v));
    let dtype = dtype.or((node.op == "QuantizeLinear").then_some(DataType::Uint8));
    let dtype = dtype.ok_or_else(|| format!("the type of {} is not known", name(graph, q)))?;
    let axis = match graph.constant(scale) {
        Some(s) if s.dtype() != DataType::Float => {
            return Err(format!("the scale {} is not of type float", name(graph, scale)));
        }
        Some(s) if s.len() == 1 => None,
        Some(_) => Some(node.int("axis", 1)),
        None if is_dynamic(graph, scale) => None,
        None => return Err(format!("the scale {} is not a constant", name(graph, scale))),
    };
    let positive = |s: &Tensor| s.as_slice::<f32>().is_some_and(|s| s.iter().all(|s| *s > 0.0));
    refuse!(graph.constant(scale).is_some_and(|s| !positive(s)) =>
        "the scale {} is not above 0", name(graph, scale));
    let known = |z: ValueId| graph.constant(z).is_some() || is_dynamic(graph, z);
    refuse!(let Some(z) = zero.filter(|z| !known(*z)) => "the zero point {} is not a constant", name(graph, z));
    Ok(QuantizedValue { q, dtype, scale, zero, axis })
}

/// Element type, as far as known.
pub(crate) fn dtype_of(graph: &Graph, v: ValueId) -> Option<DataType> {
    graph.constant(v).map(Tensor::dtype).or_else(|| graph[v].dtype())
}

/// Number of axes, as far as known.
pub(crate) fn rank_of(graph: &Graph, v: ValueId) -> Option<usize> {
    graph.constant(v).map(Tensor::rank).or_else(|| Some(graph[v].shape()?.len()))
}

/// Whether `v` is a scale or zero point that `DynamicQuantizeLinear` finds while the model runs.
pub(crate) fn is_dynamic(graph: &Graph, v: ValueId) -> bool {
    match graph[v].origin() {
        Origin::Node(node, slot) => slot > 0 && graph[node].is("DynamicQuantizeLinear"),
        _ => false,
    }
}

/// The elements of a constant of type `float`.
pub(crate) fn floats(graph: &Graph, v: ValueId) -> Result<Vec<f32>, Why> {
    let found = graph.constant(v).and_then(|t| Some(t.as_slice::<f32>()?.into_owned()));
    found.ok_or_else(|| format!("{} is not a constant of type float", name(graph, v)))
}

impl QuantizedValue {
    /// The scale of all.
    pub(crate) fn scale_value(&self, graph: &Graph) -> Result<f32, Why> {
        let found = floats(graph, self.scale)?;
        let only = found.first().filter(|_| self.axis.is_none());
        only.copied().ok_or_else(|| format!("{} has several scales", name(graph, self.q)))
    }

    /// The zero points, as many as scales, or none if all are 0.
    pub(crate) fn zero_points(&self, graph: &Graph) -> Result<Vec<i64>, Why> {
        let Some(zero) = self.zero else { return Ok(vec![]) };
        let found = graph.constant(zero).and_then(Tensor::to_i64s);
        found.ok_or_else(|| format!("the zero point {} is not a constant", name(graph, zero)))
    }

    /// The zero point of all.
    pub(crate) fn zero_point(&self, graph: &Graph) -> Result<i64, Why> {
        Ok(self.zero_points(graph)?.first().copied().unwrap_or(0))
    }

    /// Demands one scale for all.
    pub(crate) fn per_tensor(self, graph: &Graph) -> Result<QuantizedValue, Why> {
        match self.axis {
            None => Ok(self),
            Some(_) => Err(format!("{} has a scale for each channel", name(graph, self.q))),
        }
    }

    /// Demands an 8-bit type.
    pub(crate) fn eight_bit(self, graph: &Graph) -> Result<QuantizedValue, Why> {
        match self.dtype {
            DataType::Uint8 | DataType::Int8 => Ok(self),
            other => Err(format!("{} is {other}: kernels take 8 bits", name(graph, self.q))),
        }
    }

    /// Demands that scales differ along `axis` only, counted from the end if negative, or not.
    pub(crate) fn along(self, graph: &Graph, axis: i64) -> Result<QuantizedValue, Why> {
        let Some(found) = self.axis else { return Ok(self) };
        let rank = rank_of(graph, self.q).and_then(|rank| i64::try_from(rank).ok());
        let at = |axis: i64| if axis < 0 { axis + rank.unwrap_or(0) } else { axis };
        let known = rank.is_some() || found.is_negative() == axis.is_negative();
        match known && at(found) == at(axis) {
            true => Ok(self),
            false => Err(format!("{} has scales along axis {found}", name(graph, self.q))),
        }
    }

    /// Whether both have one scale and zero point, and the same ones.
    pub(crate) fn same(&self, other: &QuantizedValue, graph: &Graph) -> bool {
        let scales = || Some((self.scale_value(graph).ok()?, other.scale_value(graph).ok()?));
        let zeros = || Some((self.zero_point(graph).ok()?, other.zero_point(graph).ok()?));
        let alike = |a: Option<ValueId>, b: Option<ValueId>| a.is_some() && a == b;
        self.dtype == other.dtype
            && self.axis.is_none()
            && other.axis.is_none()
            && (self.scale == other.scale || scales().is_some_and(|(a, b)| a == b))
            && (alike(self.zero, other.zero) || zeros().is_some_and(|(a, b)| a == b))
    }
}

/// Removes the producers of `pending` whose outputs nothing reads, and then theirs; returns them.
pub(crate) fn sweep(graph: &mut Graph, mut pending: Vec<ValueId>) -> Vec<Node> {
    let mut gone = Vec::new();
    while let Some(v) = pending.pop() {
        let Some(id) = graph.producer(v) else { continue };
        if graph[id].outputs.iter().flatten().all(|v| graph.uses(*v) == 0) {
            let node = graph.remove_node(id);
            pending.extend(node.reads());
            gone.push(node);
        }
    }
    gone
}

/// Calls `f` for all sub-graphs of a graph, inner ones first, and then for the graph itself.
pub(crate) fn each_graph(graph: &mut Graph, f: &mut dyn FnMut(&mut Graph)) {
    let inner = |(id, node): (NodeId, &Node)| node.subgraphs().next().map(|_| id);
    for id in graph.nodes().filter_map(inner).collect::<Vec<_>>() {
        graph.edit_subgraphs(id, |inner| each_graph(inner, f));
    }
    f(graph);
}
