//! Operators that compute on integers only where params name them. Either they lose more than they
//! gain in the networks that are usual, as normalizations, `Softmax` and MatMul of two activations
//! do in transformers, or no runtime has a form of them on integers, so that rounding buys nothing
//! but hardware that takes integers only. An operator that params name reads integers whatever computes them,
//! and what it computes is quantized.

use crate::graph::quantized::dtype_of;
use crate::graph::weighted::{FLOATS, WeightedNode, WeightedOp, no_pair};
use crate::plan::request::{QuantizeRequest, Settings};
use crate::range::weights::finite;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Dim, Graph, Node, NodeId, Tensor, ValueId};

/// Slots of the inputs that are to be integers.
type Slots = &'static [usize];

const FIRST: Slots = &[0];
const BOTH: Slots = &[0, 1];

/// The factors of normalizations are quantized as weights, and what they add as a bias.
const NORMS: [&str; 3] = ["BatchNormalization", "InstanceNormalization", "LayerNormalization"];

/// Find places, and compute no reals.
const PLACES: [&str; 2] = ["ArgMax", "ArgMin"];

const ROWS: &[(&str, Slots)] = &[
    ("ArgMax", FIRST),
    ("ArgMin", FIRST),
    ("BatchNormalization", FIRST),
    ("CumSum", FIRST),
    ("Div", BOTH),
    ("Elu", FIRST),
    ("Erf", FIRST),
    ("Exp", FIRST),
    ("Gelu", FIRST),
    ("HardSigmoid", FIRST),
    ("HardSwish", FIRST),
    ("InstanceNormalization", FIRST),
    ("LayerNormalization", FIRST),
    ("LogSoftmax", FIRST),
    ("Max", BOTH),
    ("Min", BOTH),
    ("Mish", FIRST),
    ("Neg", FIRST),
    ("PRelu", BOTH),
    ("ReduceMax", FIRST),
    ("ReduceMin", FIRST),
    ("ReduceSum", FIRST),
    ("Softmax", FIRST),
    ("Softplus", FIRST),
    ("Sqrt", FIRST),
    ("Sub", BOTH),
    ("Tanh", FIRST),
    ("Where", &[1, 2]),
];

/// Constants from this size on are masks, which mean to be next to infinity: a range that holds them
/// leaves nothing else any integers.
const MASK: f32 = 1e4;

/// A divisor whose elements differ by more than this may become zero.
const DIVISORS: f32 = 64.0;

/// Whether nodes with this operator compute on integers where it is named.
pub(crate) fn knows(op: &str) -> bool {
    ROWS.iter().any(|(known, _)| *known == op)
}

/// Whether params name what a node is.
pub(crate) fn named(graph: &Graph, node: &Node, request: &QuantizeRequest) -> bool {
    let product = computed_matmul(graph, node) && !request.matmul_const_b_only;
    let named = request.names(&node.op) && knows(&node.op) || product;
    node.is_standard() && !request.weighted_only && named
}

/// A product of matrices whose second factor is no constant.
pub(crate) fn computed_matmul(graph: &Graph, node: &Node) -> bool {
    let computed = |slot: usize| node.input(slot).is_some_and(|v| graph.constant(v).is_none());
    (node.is("MatMul") || node.is("Gemm")) && computed(1)
}

/// The inputs that are to be integers.
pub(crate) fn data(graph: &Graph, node: &Node) -> Vec<(usize, ValueId)> {
    let slots = ROWS.iter().find(|(op, _)| *op == node.op).map_or(BOTH, |(_, slots)| slots);
    let given = slots.iter().filter_map(|slot| Some((*slot, node.input(*slot)?)));
    // Integers next to zero would become zero.
    let divides = |(slot, v): &(usize, ValueId)| {
        !node.is("Div") || *slot == 0 || graph.constant(*v).is_some_and(even)
    };
    given.filter(divides).collect()
}

/// Whether all elements are about as large, so that none of their integers is zero.
fn even(divisor: &Tensor) -> bool {
    let Ok(values) = finite(divisor) else { return false };
    let sizes = || values.iter().map(|x| x.abs());
    let most = sizes().fold(0f32, f32::max);
    most > 0.0 && sizes().all(|x| x * DIVISORS > most)
}

/// Whether a node computes places, and no reals.
pub(crate) fn is_place(node: &Node) -> bool {
    PLACES.contains(&node.op.as_str())
}

/// The range of what a node computes, where that is known without samples. That of `Softmax` ends a
/// step before 1, so that the step is a power of two: `QLinearSoftmax` takes the whole part of what
/// there is of them in 1.
pub(crate) fn range(node: &Node, settings: Settings) -> Option<(f64, f64)> {
    let levels = settings.activation_levels();
    let all = (1u64 << settings.activation.bits()) as f64;
    node.is("Softmax").then_some((0.0, (levels.max - levels.min) as f64 / all))
}

/// Whether a node that is named can compute on integers.
///
/// # Errors
/// Why not; `None` where it computes no reals.
pub(crate) fn check(
    graph: &Graph,
    node: &Node,
    activation: DataType,
) -> Result<(), Option<&'static str>> {
    let data = data(graph, node);
    if data.is_empty() {
        return Err(None);
    }
    // What a sub-graph reads from outside has no type of its own, but that of the result.
    let result = node.output(0).and_then(|v| dtype_of(graph, v));
    for (_, v) in &data {
        match dtype_of(graph, *v).or(result) {
            Some(DataType::Float16) if activation.bits() > 8 => {
                return Err(Some("float16 has fewer digits than integers of 16 bits"));
            }
            Some(dtype) if FLOATS.contains(&dtype) => {}
            Some(dtype) if dtype.is_float() => return Err(Some(no_pair(dtype))),
            Some(_) => return Err(None),
            None => return Err(Some("the type of what it reads is not known")),
        }
    }
    let is_constant = data.iter().all(|(_, v)| graph.constant(*v).is_some());
    refuse!(is_constant || is_softmax_of_one(graph, node) => Some("it computes a constant"));
    for constant in data.iter().filter_map(|(_, v)| graph.constant(*v)) {
        match finite(constant) {
            Err(_) => return Err(Some("a constant that it reads is not all finite")),
            Ok(all) if all.iter().any(|x| x.abs() >= MASK) => {
                return Err(Some("its constant is a mask, next to which all else is zero"));
            }
            Ok(_) => {}
        }
    }
    match NORMS.contains(&node.op.as_str()) {
        true => factors(graph, node),
        false => Ok(()),
    }
}

/// Whether a node is a `Softmax` along an axis of one element. It gives 1 always, and ONNX Runtime's `QLinearSoftmax`,
/// which its optimizations make of pairs, too, gives 0.
fn is_softmax_of_one(graph: &Graph, node: &Node) -> bool {
    let shape = node.input(0).and_then(|v| graph[v].shape());
    let one = |shape: &[Dim]| {
        let axis = node.int("axis", -1);
        let axis = if axis < 0 { axis + shape.len() as i64 } else { axis };
        usize::try_from(axis).ok().and_then(|axis| shape.get(axis)?.known()) == Some(1)
    };
    node.is("Softmax") && shape.is_some_and(one)
}

/// Demands that the factors of a normalization, and what it adds, are vectors.
fn factors(graph: &Graph, node: &Node) -> Result<(), Option<&'static str>> {
    let vector = |v: ValueId| {
        let found = graph.constant(v).filter(|t| FLOATS.contains(&t.dtype()));
        found.is_some_and(|t| t.rank() == 1 && !t.is_empty() && finite(t).is_ok())
    };
    refuse!(node.int("training_mode", 0) != 0 => Some("it is being trained"));
    let given = [WeightedNode::W, WeightedNode::BIAS].map(|slot| node.input(slot));
    match given.into_iter().flatten().all(vector) && given[0].is_some() {
        true => Ok(()),
        false => Err(Some("its factors are no constant vector of finite numbers")),
    }
}

/// The factors of a normalization as weights.
pub(crate) fn norm(graph: &Graph, id: NodeId) -> Option<WeightedNode> {
    let node = &graph[id];
    NORMS.contains(&node.op.as_str()).then_some(())?;
    Some(WeightedNode {
        node: id,
        op: WeightedOp::Normalization,
        x: node.input(0)?,
        w: node.input(WeightedNode::W)?,
        bias: node.input(WeightedNode::BIAS),
        out: node.output(0)?,
        axis: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_model;

    fn checked(axes: &str) -> Result<(), Option<&'static str>> {
        let text = format!(
            "<ir_version: 8, opset_import: [\"\" : 17]>\n\
             g (float[{axes}] x) => (float[{axes}] y) {{ y = Softmax <axis = 1> (x) }}"
        );
        let graph = parse_model(&text).unwrap().graph;
        let id = graph.node_ids()[0];
        check(&graph, &graph[id], DataType::Uint8)
    }

    #[test]
    fn a_softmax_of_one_element_is_a_constant() {
        assert_eq!(checked("2,1,3"), Err(Some("it computes a constant")));
        assert_eq!(checked("1,2,1"), Ok(()));
        assert_eq!(checked("2,n,3"), Ok(()));
    }
}
