//! Moves a constant factor into the weights and biases that compute what is multiplied, into those that read the
//! product, or into another constant factor.
//!
//! A factor for each channel only goes into the operator before it. One number also passes operators that move
//! elements, and sums and products of computed values: of the two factors that attention has, one is left or none.
//!
//! A product that is rounded or compared later, as places between pixels are, keeps its own factor, unless it is a
//! power of two: another order of rounding errors turns what lies half way between two numbers, or at the limit.
//!
//! ```onnx
//! before (float[1,4,8] x) => (float[1,4,4] scores)
//! <float[8,2] wq = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0},
//!  float[8,2] wk = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0},
//!  float[2] bq = {1.0, 2.0}, float two = {2.0}>
//! {
//!   product = MatMul(x, wq)
//!   q = Add(product, bq)
//!   k = MatMul(x, wk)
//!   kt = Transpose<perm = [0, 2, 1]>(k)
//!   s = MatMul(q, kt)
//!   scores = Div(s, two)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[1,4,8] x) => (float[1,4,4] scores)
//! <float[8,2] wq = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0},
//!  float[2] bq = {1.0, 2.0},
//!  float[8,2] wk_scaled = {0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0}>
//! {
//!   product = MatMul(x, wq)
//!   q = Add(product, bq)
//!   k_scaled = MatMul(x, wk_scaled)
//!   kt_scaled = Transpose<perm = [0, 2, 1]>(k_scaled)
//!   scores = MatMul(q, kt_scaled)
//! }
//! ```

use crate::arithmetic::{Applied, Arithmetic, ArithmeticOp};
use crate::scaled::{FactorSearch, MOVES};
use onnxd_plugin_sdk::ir::{At, Reals, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

/// Operators whose results jump: a rounding error may become a whole step. So do casts to integers and truth values.
const JUMPS: [&str; 10] = [
    "Ceil", "Equal", "Floor", "Greater", "GreaterOrEqual", "Less", "LessOrEqual", "Mod", "Round",
    "Sign",
];
/// Operators by which a factor and its rounding error go on, with those that move elements.
const PASSED: [&str; 10] =
    ["Abs", "Add", "Clip", "Concat", "Div", "Max", "Min", "Mul", "Neg", "Sub"];
/// Values that are looked at for operators that jump.
const VALUES_MAX: usize = 32;

pub(crate) fn fuse_scale(cx: &mut Rewriter, at: At<Arithmetic>) -> Rewrite {
    let Applied { x, by, .. } = Applied::factor(cx, &at)?;
    if by.values.iter().any(|factor| !factor.is_normal()) {
        return Skip::because("a factor is 0 or not finite");
    }
    if is_gelu(cx, x) {
        return Skip::because("it is part of Gelu, which runtimes know");
    }
    if !by.values.iter().all(|factor| is_power_of_two(*factor)) && meets_a_jump(cx, at.out) {
        return Skip::because(
            "the product is rounded or compared, and what lies at a limit could turn",
        );
    }
    let factor = match by.values[..] {
        [factor] if by.dims.is_empty() || by.dims.len() <= cx.rank(x)? => Reals::scalar(factor),
        _ => by,
    };
    let layers = cx.graph[at.node].layers.clone();
    match FactorSearch::new(cx, &factor).value(x) {
        Ok(scaled) => {
            let Some(mut node) = scaled.node(cx) else { return Skip::unlike() };
            node.layers.add(&layers);
            node.outputs = vec![Some(at.out)];
            cx.replace_by(at.out, node)?;
        }
        Err(before) => {
            if !factor.dims.is_empty() {
                return Err(before);
            }
            let Ok(readers) = FactorSearch::new(cx, &factor).readers(at.out) else {
                return Err(before);
            };
            readers.into_iter().try_for_each(|reader| reader.build(cx, x, &layers))?;
        }
    }
    cx.layers_are_set();
    Ok(())
}

fn is_power_of_two(x: f64) -> bool {
    x.to_bits() & ((1 << (f64::MANTISSA_DIGITS - 1)) - 1) == 0
}

/// Whether `v` comes to an operator that jumps, by sums, products and operators that move elements.
fn meets_a_jump(cx: &Rewriter, v: ValueId) -> bool {
    let (mut found, mut at) = (vec![v], 0);
    while at < found.len().min(VALUES_MAX) {
        for node in cx.graph.readers(found[at]).iter().filter_map(|id| cx.graph.node(*id)) {
            let (true, Some(out)) = (node.is_standard(), node.output(0)) else { continue };
            let op = node.op.as_str();
            if JUMPS.contains(&op) || op == "Cast" && cx.dtype(out).is_ok_and(|t| !t.is_float()) {
                return true;
            }
            if (PASSED.contains(&op) || MOVES.contains(&op)) && !found.contains(&out) {
                found.push(out);
            }
        }
        at += 1;
    }
    false
}

/// Whether `x` is `v * (1 + erf(...))`, or the same with the hyperbolic tangent.
fn is_gelu(cx: &Rewriter, x: ValueId) -> bool {
    let binary = |v, kind| cx.producer::<Arithmetic>(v).ok().filter(|at| at.kind == kind);
    let smooth = |v| {
        cx.graph.producer(v).is_some_and(|id| ["Erf", "Tanh"].iter().any(|op| cx.graph[id].is(op)))
    };
    let gate = |v| binary(v, ArithmeticOp::Add).is_some_and(|sum| smooth(sum.a) || smooth(sum.b));
    binary(x, ArithmeticOp::Mul).is_some_and(|product| gate(product.a) || gate(product.b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("fuse_scale.rs"), fuse_scale);
    }

    /// How many nodes are left.
    fn left(graph: &str) -> usize {
        check_same(fuse_scale, graph).graph.node_count()
    }

    #[test]
    fn factors_per_channel_behind_each_linear_operator() {
        for (kind, weights, op) in [
            ("1,2,4,4", "float[3,2,1,1] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}", "Conv(x, w, b)"),
            (
                "1,2,4,4", "float[2,3,1,1] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}",
                "ConvTranspose(x, w, b)",
            ),
            (
                "4,2", "float[2,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}",
                "Gemm<alpha = 2.0, beta = 3.0>(x, w, b)",
            ),
            ("4,2", "float[3,2] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}", "Gemm<transB = 1>(x, w, b)"),
        ] {
            let (out, gain) = match kind.len() {
                3 => ("4,3", "float[3] c"),
                _ => ("1,3,4,4", "float[3,1,1] c"),
            };
            let graph = format!(
                "g (float[{kind}] x) => (float[{out}] y)
                 <{weights}, float[3] b = {{0.5, 1.0, 1.5}}, {gain} = {{2.0, -3.0, 0.25}}>
                 {{ z = {op} m = Mul(c, z) y = Div(m, c) }}"
            );
            assert_eq!(left(&graph), 1, "{op}");
        }
    }

    #[test]
    fn a_layer_scale_behind_a_product_with_bias() {
        let model = check_same(
            fuse_scale,
            "g (float[1,4,2] x) => (float[1,4,3] y)
             <float[2,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0}, float[3] b = {0.5, 1.0, 1.5},
              float[3] c = {2.0, -3.0, 0.25}>
             { z = MatMul(x, w) a = Add(z, b) y = Mul(a, c) }",
        );
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn of_two_factors_of_attention_one_is_left() {
        let graph = "g (float[1,4,8] x, float[1,4,8] z) => (float[1,4,4] y)
             <float[1] half = {0.5}, int64[3] as = {1, 4, 8}>
             {
               q = Reshape(x, as) qs = Mul(q, half)
               k = Transpose<perm = [0, 2, 1]>(z) ks = Mul(k, half)
               y = MatMul(qs, ks)
             }";
        assert_eq!(left(graph), 4);
    }

    #[test]
    fn a_factor_before_weights_reaches_all_readers() {
        let graph = "g (float[1,2,3,3] x) => (float[1,1,3,3] y, float[9,3] z)
             <float[1,2,3,3] w = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0,
              1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0}, float[2,3] v = {1.0, 2.0, 3.0, 4.0, 5.0, 6.0},
              float two = {2.0}, int64[2] as = {9, 2}>
             {
               r = Sigmoid(x)
               m = Mul(r, two)
               y = Conv<pads = [1, 1, 1, 1]>(m, w)
               s = Reshape(m, as)
               z = MatMul(s, v)
             }";
        assert_eq!(left(graph), 4);
    }

    #[test]
    fn a_product_of_computed_matrices_in_gemm_has_alpha() {
        let graph =
            "g (float[2,3] x, float[3,2] z, float[2] c) => (float[2,2] y) <float two = {2.0}>
             { p = Gemm<beta = 0.5>(x, z, c) y = Mul(p, two) }";
        assert_eq!(left(graph), 1);
    }

    #[test]
    fn weights_that_others_read_are_not_copied() {
        check_skip(
            fuse_scale,
            "`w` is read 2 times",
            "g (float[3,2] x) => (float[3,2] y) <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float c = {2.0}>
             { a = MatMul(x, w) b = Mul(a, c) y = MatMul(b, w) }",
        );
    }

    #[test]
    fn what_jumps_later_is_computed_in_its_order() {
        for (out, factor, rounds) in [
            ("float[3]", "3.0", "r = Round(s)"),
            (
                "float[1,3]",
                "0.1",
                "p = Abs(s) a = Add(p, half) f = Floor(a) r = Unsqueeze(f, axes)",
            ),
            ("int64[1,3]", "0.1", "n = Mul(s, x) u = Unsqueeze(n, axes) r = Cast<to = 7>(u)"),
            ("bool[3]", "0.3", "r = Less(half, s)"),
            ("bool[3]", "0.3", "a = Abs(s) r = Equal(a, half)"),
            ("float[3]", "0.3", "d = Sub(s, half) r = Sign(d)"),
        ] {
            let graph = format!(
                "g (float[3] x) => ({out} r)
                 <float third = {{0.333333}}, float c = {{{factor}}}, float half = {{0.5}}, int64[1] axes = {{0}}>
                 {{ t = Mul(x, third) s = Mul(t, c) {rounds} }}"
            );
            check_skip(
                fuse_scale,
                "the product is rounded or compared, and what lies at a limit could turn",
                &graph,
            );
        }
    }

    #[test]
    fn a_power_of_two_is_exact_before_what_jumps() {
        let graph = "g (float[3] x) => (float[3] r) <float third = {0.333333}, float c = {-0.25}>
             { t = Mul(x, third) s = Mul(t, c) r = Round(s) }";
        assert_eq!(left(graph), 2);
    }

    #[test]
    fn half_of_gelu_stays() {
        check_skip(
            fuse_scale,
            "it is part of Gelu, which runtimes know",
            "g (float[3,2] x) => (float[3,2] y)
             <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float r = {1.41421}, float one = {1.0}, float half = {0.5}>
             {
               d = Div(x, r) e = Erf(d) f = Add(e, one) p = Mul(x, f) h = Mul(p, half)
               y = MatMul(h, w)
             }",
        );
    }

    #[test]
    fn a_product_of_16_bits_is_left_alone() {
        check_skip(
            fuse_scale,
            "a product of 16 bits is easily out of range",
            "g (float16[2,2] x, float16[2,2] z) => (float16[2,2] y) <float16 c = {2.0}>
             { a = MatMul(x, z) y = Mul(a, c) }",
        );
    }

    #[test]
    fn an_infinite_weight_is_left_alone() {
        check_skip(
            fuse_scale,
            "`w` is beyond float",
            "g (float[3,2] x) => (float[3,2] y) <float[2,2] w = {1e30, 2.0, 3.0, 4.0}, float c = {1e30}>
             { a = MatMul(x, w) y = Mul(a, c) }",
        );
    }

    #[test]
    fn a_factor_that_enlarges_the_value_stays() {
        check_skip(
            fuse_scale,
            "the constant [1, 1, 1] is not one value per channel",
            "g (float[3,2] x) => (float[1,3,2] y) <float[2,2] w = {1.0, 2.0, 3.0, 4.0}, float[1,1,1] c = {2.0}>
             { a = MatMul(x, w) y = Mul(a, c) }",
        );
    }
}
