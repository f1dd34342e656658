//! Which operators work on any order of axes, and what changes of them with the order.

use crate::order::{AxisOrder, rank};
use onnxd_plugin_sdk::ir::{Attr, Graph, Node, NodeId, Tensor, ValueId};

/// The first version in which operands broadcast by rank and Softmax works along one axis.
const BROADCASTS: i64 = 7;
const SOFTMAX_ALONG_ONE: i64 = 13;

/// Operators of one element at a time, whose further inputs are scalars.
const UNARY: &[&str] = &[
    "Abs", "Acos", "Acosh", "Asin", "Asinh", "Atan", "Atanh", "Cast", "Ceil", "Celu", "Clip",
    "Cos", "Cosh", "DequantizeLinear", "Elu", "Erf", "Exp", "Floor", "Gelu", "HardSigmoid",
    "HardSwish", "Identity", "IsInf", "IsNaN", "LeakyRelu", "Log", "Mish", "Neg", "Not",
    "QuantizeLinear", "Reciprocal", "Relu", "Round", "Selu", "Shrink", "Sigmoid", "Sign", "Sin",
    "Sinh", "Softplus", "Softsign", "Sqrt", "Tan", "Tanh", "ThresholdedRelu",
];

/// Operators whose operands broadcast.
const BROADCASTING: &[&str] = &[
    "Add", "And", "Div", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Max",
    "Mean", "Min", "Mod", "Mul", "Or", "PRelu", "Pow", "Sub", "Sum", "Where", "Xor",
];

const REDUCTIONS: &[&str] = &[
    "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax", "ReduceMean",
    "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare",
];

/// What changes of a node when its values get the other layout.
#[derive(Default)]
pub(crate) struct Relaid {
    /// Inputs in the other layout.
    pub(crate) inputs: Vec<usize>,
    /// Constant inputs that broadcast.
    pub(crate) constants: Vec<usize>,
    /// Whether the outputs have the other layout. Else they have none.
    pub(crate) outputs: bool,
    pub(crate) attrs: Vec<(&'static str, Attr)>,
    /// Constant inputs of integers, by position.
    pub(crate) integers: Vec<(usize, Vec<i64>)>,
}

/// What `node` is in the other layout of its first input, which has as many axes as `order`; `None` if it is bound to
/// the layout that it has.
pub(crate) fn relaid(graph: &Graph, id: NodeId, opset: i64, order: &AxisOrder) -> Option<Relaid> {
    let node = LayoutNode { graph, node: &graph[id], order };
    let op = node.node.op.as_str();
    if !node.node.is_standard() || opset < BROADCASTS || node.node.subgraphs().next().is_some() {
        return None;
    }
    if UNARY.contains(&op) {
        let scalars = node.node.inputs.iter().skip(1).flatten();
        let alike = node.has_rank(node.node.input(0)?);
        let plain = scalars.into_iter().all(|v| rank(graph, *v) == Some(0));
        return (alike && plain).then(|| Relaid {
            inputs: vec![0],
            outputs: true,
            ..Relaid::default()
        });
    }
    if BROADCASTING.contains(&op) {
        return node.broadcasting();
    }
    if REDUCTIONS.contains(&op) {
        return node.reduction();
    }
    if op == "Concat" {
        return node.concat();
    }
    if !node.has_rank(node.node.input(0)?) {
        return None;
    }
    match op {
        "Softmax" | "LogSoftmax" if opset >= SOFTMAX_ALONG_ONE => node.softmax(),
        "Split" => node.along("axis", 0),
        "BatchNormalization" if order.get(1) == Some(&1) => node.alone(vec![], vec![]),
        "Slice" => node.slice(),
        "Pad" => node.pad(),
        _ => None,
    }
}

/// The constant that `v` is, or is dequantized from.
pub(crate) fn constant_of(graph: &Graph, v: ValueId) -> Option<&Tensor> {
    let dequantized = || graph.constant(dequantized(graph, v)?.input(0)?);
    graph.constant(v).or_else(dequantized)
}

/// The node that dequantizes a constant to `v`, by one scale.
pub(crate) fn dequantized(graph: &Graph, v: ValueId) -> Option<&Node> {
    let node = &graph[graph.producer(v)?];
    let mut scales = node.inputs.iter().skip(1).flatten();
    let known = node.is_standard() && node.is("DequantizeLinear");
    let one = known && scales.all(|v| rank(graph, *v) == Some(0));
    (one && graph.constant(node.input(0)?).is_some()).then_some(node)
}

struct LayoutNode<'a> {
    graph: &'a Graph,
    node: &'a Node,
    order: &'a AxisOrder,
}

impl LayoutNode<'_> {
    fn has_rank(&self, v: ValueId) -> bool {
        self.graph.constant(v).is_none() && rank(self.graph, v) == Some(self.order.len())
    }

    /// Where an axis is in the other layout.
    fn moved(&self, axis: i64) -> Option<i64> {
        let rank = self.order.len() as i64;
        let axis = usize::try_from(if axis < 0 { axis + rank } else { axis }).ok()?;
        self.order.get(axis).map(|axis| *axis as i64)
    }

    #[allow(clippy::unnecessary_wraps)]
    fn alone(
        &self,
        attrs: Vec<(&'static str, Attr)>,
        integers: Vec<(usize, Vec<i64>)>,
    ) -> Option<Relaid> {
        Some(Relaid { inputs: vec![0], outputs: true, attrs, integers, ..Relaid::default() })
    }

    /// The axis is an attribute.
    fn along(&self, name: &'static str, default: i64) -> Option<Relaid> {
        let axis = self.moved(self.node.int(name, default))?;
        self.alone(vec![(name, Attr::Int(axis))], vec![])
    }

    /// Runtimes take it along the last axis alone without moving data.
    fn softmax(&self) -> Option<Relaid> {
        let last = self.order.len() as i64 - 1;
        let axis = self.node.int("axis", -1);
        let is_last = (axis == -1 || axis == last) && self.moved(axis) == Some(last);
        is_last.then(|| self.along("axis", -1))?
    }

    fn concat(&self) -> Option<Relaid> {
        let mut relaid = self.broadcasting()?;
        let axis = self.moved(self.node.int("axis", 1))?;
        // A constant has all its sizes here.
        let full =
            |i: &usize| rank(self.graph, self.node.input(*i)?).filter(|r| *r == self.order.len());
        relaid.constants.iter().all(|i| full(i).is_some()).then_some(())?;
        relaid.attrs.push(("axis", Attr::Int(axis)));
        Some(relaid)
    }

    fn broadcasting(&self) -> Option<Relaid> {
        let mut relaid = Relaid { outputs: true, ..Relaid::default() };
        for (i, v) in self.node.inputs.iter().enumerate() {
            let v = (*v)?;
            let rank = rank(self.graph, v)?;
            match constant_of(self.graph, v) {
                // What is large is there once.
                Some(c) if c.byte_len() > shared_bytes_max(c) && self.graph.uses(v) > 1 => {
                    return None;
                }
                Some(c) if rank > self.order.len() || c.as_strings().is_some() => return None,
                Some(_) => relaid.constants.push(i),
                None if rank == self.order.len() => relaid.inputs.push(i),
                None if rank == 0 => {}
                None => return None,
            }
        }
        (!relaid.inputs.is_empty()).then_some(relaid)
    }

    /// The axes that remain without `keepdims` must come in the same order.
    fn reduction(&self) -> Option<Relaid> {
        let keeps = self.node.int("keepdims", 1) != 0;
        if !self.has_rank(self.node.input(0)?) {
            return None;
        }
        let by_input = self.node.input(1).is_some();
        let Some(axes) = self.list("axes", 1)? else {
            // All axes, or none.
            let all = self.node.int("noop_with_empty_axes", 0) == 0;
            let relaid = Relaid { inputs: vec![0], outputs: keeps, ..Relaid::default() };
            return (keeps || all).then_some(relaid);
        };
        if axes.is_empty() {
            return None;
        }
        let mut moved = axes.iter().map(|axis| self.moved(*axis)).collect::<Option<Vec<i64>>>()?;
        let left = self.order.iter().filter(|axis| !moved.contains(&(**axis as i64)));
        if !keeps && !left.is_sorted() {
            return None;
        }
        moved.sort_unstable();
        let relaid = Relaid { inputs: vec![0], outputs: keeps, ..Relaid::default() };
        Some(match by_input {
            true => Relaid { integers: vec![(1, moved)], ..relaid },
            false => Relaid { attrs: vec![("axes", Attr::Ints(moved))], ..relaid },
        })
    }

    /// The integers of an attribute or constant input, or that there are none; nothing if they are computed.
    #[allow(clippy::option_option)]
    fn list(&self, name: &str, input: usize) -> Option<Option<Vec<i64>>> {
        match (self.node.attr(name), self.node.input(input)) {
            (Some(Attr::Ints(list)), _) => Some(Some(list.clone())),
            (Some(_), _) => None,
            (None, Some(v)) => Some(Some(self.graph.constant(v)?.to_i64s()?)),
            (None, None) => Some(None),
        }
    }

    fn slice(&self) -> Option<Relaid> {
        let by_input = self.node.input(1).is_some();
        let axes = match self.list("axes", 3)? {
            Some(axes) => axes,
            None if by_input => (0..self.list("", 1)??.len() as i64).collect(),
            None => return None,
        };
        let moved = axes.iter().map(|axis| self.moved(*axis)).collect::<Option<Vec<i64>>>()?;
        match by_input {
            true => self.alone(vec![], vec![(3, moved)]),
            false => self.alone(vec![("axes", Attr::Ints(moved))], vec![]),
        }
    }

    fn pad(&self) -> Option<Relaid> {
        let by_input = self.node.input(1).is_some();
        let pads = self.list("pads", 1)??;
        if by_input && self.node.input(3).is_some() {
            let axes = self.list("", 3)??;
            let moved = axes.iter().map(|axis| self.moved(*axis)).collect::<Option<Vec<i64>>>()?;
            return self.alone(vec![], vec![(3, moved)]);
        }
        let rank = self.order.len();
        if pads.len() != 2 * rank {
            return None;
        }
        let mut moved = vec![0; 2 * rank];
        for (axis, to) in self.order.iter().enumerate() {
            moved[*to] = pads[axis];
            moved[rank + to] = pads[rank + axis];
        }
        match by_input {
            true => self.alone(vec![], vec![(1, moved)]),
            false => self.alone(vec![("pads", Attr::Ints(moved))], vec![]),
        }
    }
}

/// Bytes of a constant that may be there once more. Vectors may be longer: nodes share those along their channels.
fn shared_bytes_max(constant: &Tensor) -> usize {
    let is_vector = constant.dims().iter().filter(|size| **size != 1).count() <= 1;
    if is_vector { 64 << 10 } else { 256 }
}
