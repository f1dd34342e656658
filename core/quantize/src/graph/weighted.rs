//! Operators that multiply by constant weights: `Conv`, `ConvTranspose`, `Gemm`, `MatMul`.

use crate::graph::quantized::MICROSOFT;
use crate::range::weights::is_finite;
use onnxd_diagnostics::refuse;
use onnxd_ir::ops::{Conv, ConvTranspose, Gemm, MatMul};
use onnxd_ir::{At, DataType, Graph, Node, NodeId, Tensor, ValueId};

/// Types of reals for which runtimes have `QuantizeLinear` and `DequantizeLinear`.
pub(crate) const FLOATS: [DataType; 2] = [DataType::Float, DataType::Float16];

/// Why reals of a type other than [`FLOATS`] stay as they are.
pub(crate) fn no_pair(dtype: DataType) -> &'static str {
    match dtype {
        DataType::Double => "QuantizeLinear takes no double",
        DataType::Bfloat16 => "ONNX Runtime has no kernel of QuantizeLinear for bfloat16",
        _ => "its weights are neither of float32 nor of float16",
    }
}

/// The operators of the standard that there are of the kind.
pub(crate) const WEIGHTED_OPS: [&str; 4] = ["Conv", "ConvTranspose", "Gemm", "MatMul"];

/// Whether a node multiplies its first input by its second, which may be weights.
pub(crate) fn is_weighted(node: &Node) -> bool {
    is_attention(node) || node.is_standard() && WEIGHTED_OPS.contains(&node.op.as_str())
}

/// ONNX Runtime's attention with its projections.
pub(crate) fn is_attention(node: &Node) -> bool {
    node.op == "Attention" && node.domain == MICROSOFT
}

/// The inputs of ONNX Runtime's `EmbedLayerNormalization` that are tables, of which that of segments
/// may be missing, and the factors and summands of the normalization.
pub(crate) const EMBEDDING_TABLES: [usize; 5] = [2, 3, 4, 5, 6];

/// Which operator it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WeightedOp {
    /// ONNX Runtime's `Attention`: its projections, whose bias stays in float.
    Attention,
    /// `Conv`.
    Conv,
    /// `ConvTranspose`.
    ConvTranspose,
    /// `Gemm`.
    Gemm,
    /// `MatMul`; a bias is added by another node.
    MatMul,
    /// A normalization, which multiplies each channel by a number; only where params name it.
    Normalization,
}

/// A node that multiplies its first input by weights.
#[derive(Clone, Debug)]
pub struct WeightedNode {
    /// The node.
    pub node: NodeId,
    /// Which operator.
    pub op: WeightedOp,
    /// The activations.
    pub x: ValueId,
    /// The weights, an initializer of `FLOATS`.
    pub w: ValueId,
    /// A constant of the same type that is added for each output channel.
    pub bias: Option<ValueId>,
    /// What it computes.
    pub out: ValueId,
    /// Axis of the weights that runs over output channels; `None` if no axis does.
    pub axis: Option<usize>,
}

impl WeightedNode {
    /// The input of the weights.
    pub const W: usize = 1;
    /// The input of the bias.
    pub const BIAS: usize = 2;

    /// What the node is.
    ///
    /// # Errors
    /// `None` for other operators, else why its weights cannot be quantized.
    pub fn at(graph: &Graph, node: NodeId) -> Result<WeightedNode, Option<&'static str>> {
        let found = parts(graph, node).ok_or(None)?;
        let constant = |v: ValueId| graph.constant(v).filter(|t| FLOATS.contains(&t.dtype()));
        let Some(weights) = constant(found.w) else {
            return Err(Some(match graph.constant(found.w) {
                Some(w) => no_pair(w.dtype()),
                None => "both factors are computed",
            }));
        };
        refuse!(weights.is_empty() => Some("its weights are empty"));
        refuse!(!is_finite(weights) => Some("its weights are not all finite"));
        if let Some(bias) = found.bias {
            let channels = found.channels(graph, weights);
            let fits = |b: &Tensor| channels.is_some_and(|n| spread(b, n)) && is_finite(b);
            refuse!(!constant(bias).is_some_and(fits) =>
                Some("what it adds is not a finite constant for each output channel"));
        }
        Ok(found)
    }

    /// Whether it computes floats even if it multiplies integers, because something is added to them.
    pub(crate) fn computes_floats(&self) -> bool {
        matches!(self.op, WeightedOp::Attention | WeightedOp::MatMul)
    }

    /// Number of output channels.
    fn channels(&self, graph: &Graph, weights: &Tensor) -> Option<usize> {
        let group = match At::<ConvTranspose>::find(graph, self.node) {
            Some(node) => usize::try_from(node.group).ok()?,
            None => 1,
        };
        let axis = match self.op {
            // Of its weights each group has its own, all in one axis.
            WeightedOp::ConvTranspose => 1,
            _ => self.axis?,
        };
        weights.dims().get(axis)?.checked_mul(group)
    }
}

/// Whether a constant holds one number for each of `channels` or one for all.
fn spread(bias: &Tensor, channels: usize) -> bool {
    let last = bias.dims().last().copied().unwrap_or(1);
    bias.len() == last && (last == channels || last == 1)
}

fn parts(graph: &Graph, node: NodeId) -> Option<WeightedNode> {
    let make = |op, x, w, bias, out, axis| WeightedNode { node, op, x, w, bias, out, axis };
    if let Some(c) = At::<Conv>::find(graph, node) {
        return Some(make(WeightedOp::Conv, c.x, c.w, c.b, c.out, Some(0)));
    }
    if let Some(c) = At::<ConvTranspose>::find(graph, node) {
        let axis = (c.group == 1).then_some(1);
        return Some(make(WeightedOp::ConvTranspose, c.x, c.w, c.b, c.out, axis));
    }
    if let Some(g) = At::<Gemm>::find(graph, node) {
        let axis = usize::from(g.transB == 0);
        return Some(make(WeightedOp::Gemm, g.a, g.b, g.c, g.out, Some(axis)));
    }
    // Kernels take scales for the columns of a matrix only.
    let columns = |w: ValueId| graph.constant(w).filter(|w| w.rank() == 2).map(|_| 1);
    if is_attention(&graph[node]) {
        let node = &graph[node];
        let (x, w, out) = (node.input(0)?, node.input(1)?, node.output(0)?);
        return Some(make(WeightedOp::Attention, x, w, None, out, columns(w)));
    }
    let m = At::<MatMul>::find(graph, node)?;
    Some(make(WeightedOp::MatMul, m.a, m.b, None, m.out, columns(m.b)))
}
