//! Holds weights of `int8` as `uint8`, each 128 above, where sums of their products saturate in ONNX Runtime on x86-64
//! processors without VNNI. The real numbers stay the same, and ONNX Runtime computes with them exactly everywhere.
//!
//! Weights stay `int8` where all activations are `int8` with the zero point 0: such models are made for runtimes that
//! demand both, such as TensorRT.
//!
//! ```onnx
//! before (uint8[3,2] x) => (float[3,2] y)
//! <
//!   float s = {0.5}, uint8 z = {0}, int8[2,2] w = {127, -128, 100, 0}, float[2] scales = {0.25, 0.5},
//!   int8[2] zeros = {0, 1}
//! >
//! {
//!   a = DequantizeLinear(x, s, z)
//!   b = DequantizeLinear(w, scales, zeros)
//!   y = MatMul(a, b)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (uint8[3,2] x) => (float[3,2] y)
//! <
//!   float s = {0.5}, uint8 z = {0}, float[2] scales = {0.25, 0.5}, uint8[2,2] w_unsigned = {255, 0, 228, 128},
//!   uint8[2] zeros_unsigned = {128, 129}
//! >
//! {
//!   a = DequantizeLinear(x, s, z)
//!   b = DequantizeLinear(w_unsigned, scales, zeros_unsigned)
//!   y = MatMul(a, b)
//! }
//! ```

use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::ops::DequantizeLinear;
use onnxd_plugin_sdk::ir::runtime::saturates;
use onnxd_plugin_sdk::ir::{At, DataType, Graph, Model, Node, Tensor};
use onnxd_plugin_sdk::rewrite::{Pass, PassContext, Rewrite, Rewriter, Skip, rule};

/// By how much `uint8` lies above `int8`.
const ABOVE: u8 = 128;

pub(crate) fn pass() -> Box<dyn Pass> {
    Box::new(UnsignedWeights(rule("unsigned-weights", unsigned_weights)))
}

/// The rule for each of the weights, where activations are asymmetric.
struct UnsignedWeights(Box<dyn Pass>);

impl Pass for UnsignedWeights {
    fn name(&self) -> &'static str {
        "unsigned-weights"
    }

    fn run(&self, model: &mut Model, cx: &mut PassContext) -> Result<(), Diagnostics> {
        let mut is_asymmetric = false;
        model.for_each_graph(|graph| {
            is_asymmetric |= graph.nodes().any(|(_, node)| has_offset(graph, node));
        });
        if is_asymmetric { self.0.run(model, cx) } else { Ok(()) }
    }
}

/// Whether a node turns reals into integers of 8 bits whose zero is not in the middle, or such integers into reals.
fn has_offset(graph: &Graph, node: &Node) -> bool {
    let integers = match node.op.as_str() {
        "QuantizeLinear" => node.output(0),
        "DequantizeLinear" => node.input(0).filter(|v| graph.constant(*v).is_none()),
        _ => None,
    };
    let Some(integers) = integers else { return false };
    let zeros = node.input(2).and_then(|v| graph.constant(v));
    // A zero point has the type of the integers, also where theirs was not inferred.
    let dtype = zeros.map(Tensor::dtype).or_else(|| graph[integers].ty.as_ref()?.dtype());
    match dtype {
        Some(DataType::Uint8) => true,
        Some(DataType::Int8) => {
            zeros.and_then(Tensor::to_i64s).is_some_and(|zeros| zeros.iter().any(|n| *n != 0))
        }
        _ => false,
    }
}

fn unsigned_weights(cx: &mut Rewriter, weights: At<DequantizeLinear>) -> Rewrite {
    let signed = cx.graph.constant(weights.x).is_some_and(|w| w.dtype() == DataType::Int8);
    let mut readers = cx.graph.readers(weights.out).iter().map(|id| &cx.graph[*id]);
    let saturating = |r: &Node| r.input(1) == Some(weights.out) && saturates(cx.graph, r);
    if !signed || !readers.any(saturating) {
        return Skip::unlike();
    }
    let zeros = match weights.x_zero_point {
        Some(zeros) => unsigned(&cx.constant(zeros)?)?,
        None => {
            let dims = cx.constant(weights.x_scale)?.dims().to_vec();
            let count = dims.iter().product();
            Tensor::from_vec(dims, vec![ABOVE; count])
        }
    };
    let x = unsigned(&cx.constant(weights.x)?)?;
    let x = cx.derive(weights.x, "unsigned", x);
    let from = weights.x_zero_point.unwrap_or(weights.x_scale);
    let zeros = cx.derive(from, "unsigned", zeros);
    cx.replace(weights.out, DequantizeLinear { x, x_zero_point: Some(zeros), ..weights.op.clone() })
}

/// Each number of `int8` as the `uint8` that is 128 above.
fn unsigned(tensor: &Tensor) -> Result<Tensor, Skip> {
    let Some(signed) = tensor.as_slice::<i8>() else { return Skip::unlike() };
    let above = signed.iter().map(|n| n.cast_unsigned() ^ ABOVE);
    Ok(Tensor::from_vec(tensor.dims(), above.collect()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("unsigned_weights.rs"), pass().as_ref());
    }

    /// A convolution of pictures with channels last, whose weights have no zero point.
    const CONV: &str = "<ir_version: 8, opset_import: [\"\" : 18]>
        g (int8[1,3,3,2] x) => (int8[1,2,1,1] y)
        <float s = {0.5}, int8 z = {-3}, int8[2,2,1,1] w = {127, -128, 65, 0}, float[2] scales = {0.25, 0.5},
         int8 o = {0}>
        { a = DequantizeLinear(x, s, z) t = Transpose<perm = [0, 3, 1, 2]>(a)
          b = DequantizeLinear<axis = 0>(w, scales) c = Conv<strides = [3, 3]>(t, b) y = QuantizeLinear(c, s, o) }";

    #[test]
    fn weights_without_a_zero_point() {
        let unsigned = |graph: &str| {
            let graph = check_pass_same(pass().as_ref(), graph).graph;
            let constants = graph.value_ids().filter_map(|v| Some(graph.constant(v)?.dtype()));
            constants.filter(|dtype| *dtype == DataType::Uint8).count()
        };
        assert_eq!(unsigned(CONV), 2);
        // One tensor whose zero is elsewhere says enough.
        assert_eq!(unsigned(&CONV.replace("z = {-3}", "z = {0}").replace("o = {0}", "o = {5}")), 2);
    }

    #[test]
    fn left_alone() {
        let skips = |from: &str, to: &str| {
            check_pass_skip(pass().as_ref(), "", &CONV.replace(from, to));
        };
        skips("127, -128, 65", "64, -64, 63");
        skips("z = {-3}", "z = {0}");
        skips("a = DequantizeLinear(x, s, z)", "a = Cast<to = 1>(x)");
    }
}
