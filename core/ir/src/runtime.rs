//! What ONNX Runtime computes otherwise than the standard says: sums of 8-bit products that saturate on processors
//! without VNNI, and inputs that its optimizations round. `integration-tests/judges/saturation.py` measures both.

use crate::ops::{DequantizeLinear, Op};
use crate::{Attr, DataType, Graph, Node, Tensor, ValueId};

/// Operators on integers whose weights may saturate: slots of the activation's zero point and of the weights. Without
/// the former the activation becomes `uint8` inside. `ConvInteger` is exact with weights of `int8`.
const INTEGER: [(&str, Option<usize>, usize); 8] = [
    ("DynamicQuantizeLSTM", None, 1),
    ("DynamicQuantizeMatMul", None, 1),
    ("MatMulInteger", Some(2), 1),
    ("MatMulIntegerToFloat", Some(4), 1),
    ("QAttention", Some(6), 1),
    ("QGemm", Some(2), 3),
    ("QLinearConv", Some(2), 3),
    ("QLinearMatMul", Some(2), 3),
];

/// Operators on floats that its optimizations turn into operators on integers where pairs surround them.
const FUSED: [&str; 3] = ["Conv", "Gemm", "MatMul"];

/// Sizes of blocks for which a product becomes `MatMulNBits`.
const BLOCKS: std::ops::RangeInclusive<i64> = 16..=256;

/// Whether two products of these weights, if they are `int8`, with `uint8` may be beyond 16 bits.
#[must_use]
pub fn beyond_16_bits(weights: &Tensor) -> bool {
    const SAFE: i8 = 64;
    let signed = weights.as_slice::<i8>().filter(|_| weights.dtype() == DataType::Int8);
    signed.is_some_and(|all| all.iter().any(|q| !(-SAFE..=SAFE).contains(q)))
}

/// Whether sums of a node's products may saturate on x86-64 without VNNI. There, two products of `uint8` and `int8` are
/// added in 16 bits; pairs of `int8` become such products, operators on `int8` do not.
#[must_use]
pub fn saturates(graph: &Graph, node: &Node) -> bool {
    if let Some((_, zero, weights)) = INTEGER.iter().find(|(op, ..)| *op == node.op) {
        let signed =
            zero.is_some_and(|slot| dtype(graph, node.input(slot)) == Some(DataType::Int8));
        let weights = node.input(*weights).and_then(|w| graph.constant(w));
        return !signed && weights.is_some_and(|w| beyond_16_bits(w) && !depthwise(node, w));
    }
    if !node.is_standard() || !FUSED.contains(&node.op.as_str()) {
        return false;
    }
    let weights = || dequantized(graph, node.input(1)?);
    let (Some(x), Some(w)) = (activation(graph, node), weights()) else { return false };
    let bytes = matches!(stored(graph, &x), Some(DataType::Uint8 | DataType::Int8));
    let weights = graph.constant(w.x).filter(|_| w.block_size == 0);
    bytes && weights.is_some_and(|w| w.rank() > 1 && beyond_16_bits(w) && !depthwise(node, w))
}

/// Whether optimizations turn a product into `MatMulNBits` with weights of 8 bits, which rounds what it reads to 8 bits
/// as well, unless the session's option `session.qdq_matmulnbits_accuracy_level` is 1.
#[must_use]
pub fn rounds_input(graph: &Graph, node: &Node) -> bool {
    let is_product = node.is("MatMul") || is_plain_gemm(node);
    let weights = node.input(1).filter(|_| is_product).and_then(|w| dequantized(graph, w));
    let Some(w) = weights else { return false };
    let bytes = graph
        .constant(w.x)
        .is_some_and(|w| w.rank() == 2 && matches!(w.dtype(), DataType::Int8 | DataType::Uint8));
    bytes
        && matches!(w.axis, 0 | -2)
        && BLOCKS.contains(&w.block_size)
        && w.block_size & (w.block_size - 1) == 0
}

/// Whether a sigmoid reads a depthwise convolution of integers, as in `SiLU`: kernels for integers spend more on it,
/// and on the order of axes around it, than the convolution saves (seen in ONNX Runtime 1.31).
#[must_use]
pub fn slows(graph: &Graph, node: &Node) -> bool {
    const SIGMOIDS: [&str; 3] = ["Sigmoid", "HardSigmoid", "QLinearSigmoid"];
    const CASTS: [&str; 2] = ["DequantizeLinear", "QuantizeLinear"];
    let made_by = |v: Option<ValueId>| graph.producer(v?).map(|id| &graph[id]);
    let mut maker = made_by(node.input(0).filter(|_| SIGMOIDS.contains(&node.op.as_str())));
    for _ in 0..2 {
        maker = maker.and_then(|n| {
            if CASTS.contains(&n.op.as_str()) { made_by(n.input(0)) } else { Some(n) }
        });
    }
    let Some(conv) = maker else { return false };
    let weights = match conv.op.as_str() {
        "Conv" => conv.input(1).and_then(|w| dequantized(graph, w)).map(|w| w.x),
        "QLinearConv" => conv.input(3),
        _ => None,
    };
    weights.and_then(|w| graph.constant(w)).is_some_and(|w| depthwise(conv, w))
}

/// Whether a `Gemm` is a `MatMul` with a bias: others stay in float (seen in ONNX Runtime 1.31).
fn is_plain_gemm(node: &Node) -> bool {
    let flag = |name: &str| matches!(node.attr(name), Some(Attr::Int(n)) if *n != 0);
    let factor = |name: &str| matches!(node.attr(name), Some(Attr::Float(x)) if *x != 1.0);
    node.is("Gemm")
        && !["transA", "transB"].into_iter().any(flag)
        && !["alpha", "beta"].into_iter().any(factor)
}

/// What the first operand of a product is dequantized from. Optimizations move a Transpose out of the way.
fn activation(graph: &Graph, node: &Node) -> Option<DequantizeLinear> {
    let v = node.input(0)?;
    let transpose = graph.producer(v).map(|id| &graph[id]).filter(|node| node.is("Transpose"));
    dequantized(graph, transpose.map_or(Some(v), |node| node.input(0))?)
}

/// The type of the integers that are dequantized.
fn stored(graph: &Graph, x: &DequantizeLinear) -> Option<DataType> {
    match (x.x_zero_point, graph[x.x].ty.as_ref()) {
        (Some(zero), _) => dtype(graph, Some(zero)),
        (None, Some(ty)) => ty.dtype(),
        (None, None) => Some(DataType::Uint8),
    }
}

fn dequantized(graph: &Graph, v: ValueId) -> Option<DequantizeLinear> {
    DequantizeLinear::view(&graph[graph.producer(v)?])
}

fn dtype(graph: &Graph, constant: Option<ValueId>) -> Option<DataType> {
    graph.constant(constant?).map(Tensor::dtype)
}

/// Whether a convolution has one channel in each group, for which there is a kernel of its own.
fn depthwise(node: &Node, weights: &Tensor) -> bool {
    let groups = match node.attr("group") {
        Some(Attr::Int(groups)) => *groups,
        _ => 1,
    };
    let dims = weights.dims();
    groups > 1 && dims.len() > 2 && dims[1] == 1 && dims[0] as i64 == groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::parse_graph;

    /// How many nodes of a network of these constants and nodes saturate, and how many round what they read.
    fn found(constants: &str, body: &str) -> (usize, usize) {
        let text = format!(
            "g (float[4,2] x, float[1,2,3,3] p, uint8[4,2] q, int8[4,2] i) => (y)
             <float s = {{0.5}}, uint8 uz = {{0}}, int8 iz = {{0}}, uint16 hz = {{0}}, {constants}> {{ {body} }}"
        );
        let graph = parse_graph(&text).unwrap();
        let count =
            |is: fn(&Graph, &Node) -> bool| graph.nodes().filter(|(_, n)| is(&graph, n)).count();
        (count(saturates), count(rounds_input))
    }

    #[test]
    fn sigmoids_behind_depthwise_convolutions_are_slow() {
        let slow = |group: usize, body: &str| {
            let text = format!(
                "g (float[1,4,8,8] x, uint8[1,4,8,8] q) => (y)
                 <float s = {{0.5}}, uint8 z = {{0}}, int8[4,1,1,1] w = {{1, 2, 3, 4}}> {{ {body} }}"
            );
            let graph = parse_graph(&text.replace("GROUP", &group.to_string())).unwrap();
            graph.nodes().any(|(_, node)| slows(&graph, node))
        };
        let conv = "v = DequantizeLinear(w, s) c = Conv<group = GROUP>(x, v)";
        let cast = "a = QuantizeLinear(c, s, z) b = DequantizeLinear(a, s, z) y = Sigmoid(b)";
        assert!(slow(4, &format!("{conv} {cast}")));
        assert!(slow(4, &format!("{conv} y = HardSigmoid(c)")));
        assert!(!slow(1, &format!("{conv} {cast}")), "not depthwise");
        assert!(!slow(4, &format!("{conv} y = Relu(c)")));
        assert!(!slow(4, "y = Sigmoid(x)"));
        let integers = "c = QLinearConv<group = GROUP>(q, s, z, w, s, z, s, z)";
        assert!(slow(4, &format!("{integers} y = com.microsoft.QLinearSigmoid(c, s, z, s, z)")));
    }

    const W: &str = "int8[2,2] w = {1, -65, 3, 4}";

    #[test]
    fn pairs_of_bytes_with_large_weights_saturate() {
        let product = |weights: &str, zero: &str| {
            let body = format!(
                "a = DequantizeLinear(x, s, {zero}) b = DequantizeLinear(w, s) y = MatMul(a, b)"
            );
            found(weights, &body)
        };
        assert_eq!(product(W, "uz"), (1, 0));
        assert_eq!(product(W, "iz"), (1, 0));
        assert_eq!(product(W, "hz"), (0, 0), "activations of 16 bits stay in float");
        let turned = "a = DequantizeLinear(x, s, iz) t = Transpose(a) b = DequantizeLinear(w, s)";
        assert_eq!(found(W, &format!("{turned} y = MatMul(t, b)")), (1, 0));
        assert_eq!(product("int8[2,2] w = {1, -64, 64, 4}", "uz"), (0, 0), "they fit 16 bits");
        assert_eq!(product("uint8[2,2] w = {1, 255, 64, 4}", "uz"), (0, 0));
        let alone = "b = DequantizeLinear(w, s) y = MatMul(x, b)";
        assert_eq!(found(W, alone), (0, 0), "weights alone");
    }

    #[test]
    fn operators_on_integers_saturate_by_their_operands() {
        let (u, i) = ("(q, w, uz, iz)", "(i, w, iz, iz)");
        assert_eq!(found(W, &format!("y = MatMulInteger{u}")), (1, 0));
        assert_eq!(found(W, &format!("y = MatMulInteger{i}")), (0, 0));
        assert_eq!(found(W, "y = com.microsoft.DynamicQuantizeMatMul(x, w, s)"), (1, 0));
        assert_eq!(found(W, "y = com.microsoft.QGemm(q, s, uz, w, s, iz)"), (1, 0));
        let conv = |weights: &str, op: &str| found(weights, &format!("y = {op}"));
        let w = "int8[2,2,1,1] w = {1, -65, 3, 4}";
        assert_eq!(conv(w, "QLinearConv(p, s, uz, w, s, iz, s, uz)"), (1, 0));
        assert_eq!(conv(w, "ConvInteger(p, w, uz, iz)"), (0, 0), "another kernel");
        let deep = "int8[2,1,1,1] w = {1, -65}";
        assert_eq!(conv(deep, "QLinearConv<group = 2>(p, s, uz, w, s, iz, s, uz)"), (0, 0));
    }

    #[test]
    fn products_of_weights_in_blocks_round_what_they_read() {
        let of = |op: &str, dtype: &str, attributes: &str| {
            // Two of four bits in a byte.
            let values = vec!["1"; if dtype == "int4" { 32 } else { 64 }].join(", ");
            let weights = format!("{dtype}[32,2] w = {{{values}}}, float[2,2] ws = {{1, 1, 1, 1}}");
            let body = format!("b = DequantizeLinear<{attributes}>(w, ws) y = {op}(x, b)");
            found(&weights, &body)
        };
        let product = |dtype: &str, attributes: &str| of("MatMul", dtype, attributes);
        let blocks = "axis = 0, block_size = 16";
        assert_eq!(of("Gemm", "uint8", blocks), (0, 1));
        for other in
            ["Gemm<transB = 1>", "Gemm<transA = 1>", "Gemm<alpha = 0.5>", "Gemm<beta = 2.0>"]
        {
            assert_eq!(of(other, "uint8", blocks), (0, 0), "{other} stays in float");
        }
        assert_eq!(product("int8", "axis = 0, block_size = 16"), (0, 1));
        assert_eq!(product("uint8", "axis = -2, block_size = 16"), (0, 1));
        assert_eq!(product("int8", "axis = 1, block_size = 16"), (0, 0), "along the other axis");
        assert_eq!(product("int8", "axis = 0, block_size = 12"), (0, 0));
        assert_eq!(
            product("int4", "axis = 0, block_size = 16"),
            (0, 0),
            "its rounding is below theirs"
        );
    }
}
