//! Divides by the root mean square instead of multiplying with its reciprocal.
//!
//! The reciprocal of a root is in range where the quotient is, so that only the rounding changes. Other quotients by
//! roots stay products: ONNX Runtime divides more slowly, but it has a kernel for this normalization with Div.
//!
//! ```onnx
//! before (float[N,2] x) => (float[N,2] y)
//! <float two = {2.0}, float epsilon = {0.5}>
//! {
//!   square = Pow(x, two)
//!   mean = ReduceMean<axes = [-1]>(square)
//!   raised = Add(mean, epsilon)
//!   root = Sqrt(raised)
//!   inverse = Reciprocal(root)
//!   y = Mul(x, inverse)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[N,2] x) => (float[N,2] y)
//! <float two = {2.0}, float epsilon = {0.5}>
//! {
//!   square = Pow(x, two)
//!   mean = ReduceMean<axes = [-1]>(square)
//!   raised = Add(mean, epsilon)
//!   root = Sqrt(raised)
//!   y = Div(x, root)
//! }
//! ```

use super::rms_norm;
use crate::arithmetic::{Arithmetic, ArithmeticOp};
use crate::parts::PatternNodes;
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Rewrite, Rewriter, Skip};

pub(crate) fn fuse_rms_division(cx: &mut Rewriter, product: At<Arithmetic>) -> Rewrite {
    if product.kind != ArithmeticOp::Mul {
        return Skip::unlike();
    }
    let found = [(product.a, product.b), (product.b, product.a)]
        .into_iter()
        .find_map(|(x, inverse)| Some((x, inverse, inverse_of(cx, inverse)?)));
    let Some((a, inverse, b)) = found else { return Skip::unlike() };
    cx.read_once(inverse)?;
    if rms_norm::form(&PatternNodes::from_root(cx, product.out), product.out).is_err() {
        return Skip::because(format!("{} is no root mean square of {}", cx.name(b), cx.name(a)));
    }
    cx.replace(product.out, Arithmetic { kind: ArithmeticOp::Div, a, b })
}

/// What `v` is the reciprocal of.
fn inverse_of(cx: &Rewriter, v: ValueId) -> Option<ValueId> {
    let node = &cx.graph[cx.graph.producer(v)?];
    if node.is("Reciprocal") {
        return node.input(0);
    }
    let quotient = cx.producer::<Arithmetic>(v).ok().filter(|at| at.kind == ArithmeticOp::Div)?;
    let one = cx.graph.constant(quotient.a).filter(|one| one.len() == 1)?;
    let enlarges = one.rank() > 0 && one.rank() > cx.rank(quotient.b).ok()?;
    (!enlarges && one.to_reals()?.values[0] == 1.0).then_some(quotient.b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{check_doc_example, check_same, check_skip};

    #[test]
    fn doc_example() {
        check_doc_example(include_str!("rms_division.rs"), fuse_rms_division);
    }

    fn graph(nodes: &str) -> String {
        format!(
            "g (float[N,2] x) => (float[N,2] y)
             <float two = {{2.0}}, float eps = {{0.5}}, float[1] one = {{1.0}}>
             {{ s = Pow(x, two) m = ReduceMean<axes = [1]>(s) a = Add(eps, m) r = Sqrt(a) {nodes} }}"
        )
    }

    #[test]
    fn one_divided_by_a_root() {
        let model = check_same(fuse_rms_division, &graph("i = Div(one, r) y = Mul(i, x)"));
        assert_eq!(model.graph.node_count(), 5);
    }

    #[test]
    fn left_alone() {
        for (reason, nodes) in [
            ("`m` is no root mean square of `x`", "i = Reciprocal(m) y = Mul(x, i)"),
            ("`r` is no root mean square of `s`", "i = Reciprocal(r) y = Mul(s, i)"),
            ("`i` is read 2 times", "i = Reciprocal(r) p = Mul(x, i) y = Add(p, i)"),
            ("", "i = Div(two, r) y = Mul(x, i)"),
        ] {
            check_skip(fuse_rms_division, reason, &graph(nodes));
        }
    }
}
