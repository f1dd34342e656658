//! Makes one reduction of its parts: ReduceSumSquare, ReduceL1, ReduceL2, ReduceLogSum, ReduceLogSumExp.
//!
//! ONNX Runtime computes the parts faster, so the pass runs on demand only. LpNormalization is not made of its parts:
//! where the norm is zero, it gives zeros, and a division does not.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,1] y)
//! <int64[1] axes = {-1}>
//! {
//!   square = Mul(x, x)
//!   sum = ReduceSum(square, axes)
//!   y = Sqrt(sum)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,1] y)
//! {
//!   y = ReduceL2<axes = [1]>(x)
//! }
//! ```

use crate::parts::{FLOATS, of_type};
use crate::pattern::{self, Pattern};
use onnxd_plugin_sdk::ir::ops::{Log, ReduceSum, Sqrt};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-reductions",
        vec![
            rule("root", |cx, at: At<Sqrt>| fuse(cx, at.out)),
            rule("logarithm", |cx, at: At<Log>| fuse(cx, at.out)),
            rule("sum", |cx, at: At<ReduceSum>| fuse(cx, at.out)),
        ],
    )
}

static REDUCTIONS: [(&str, Pattern); 6] = [
    ("ReduceL2", Pattern::new("Sqrt(ReduceSumSquare(x))")),
    ("ReduceL2", Pattern::new("Sqrt(ReduceSum(x^2))")),
    ("ReduceLogSumExp", Pattern::new("Log(ReduceSum(Exp(x)))")),
    ("ReduceLogSum", Pattern::new("Log(ReduceSum(x))")),
    ("ReduceSumSquare", Pattern::new("ReduceSum(x^2)")),
    ("ReduceL1", Pattern::new("ReduceSum(Abs(x))")),
];

fn fuse(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let (op, found) = pattern::first(cx, out, &REDUCTIONS)?;
    let (x, sum) = (found.value("x"), found.reduction());
    of_type(cx, x, FLOATS)?;
    let axes: Vec<i64> = sum.axes.iter().map(|axis| *axis as i64).collect();
    cx.rebuild(out, |b| b.op("", op, [x]).set("axes", axes).set("keepdims", sum.keepdims).one())
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("norms.rs"), pass().as_ref());
    }

    #[test]
    fn all_operators_in_all_opsets() {
        for (op, body) in [
            ("ReduceSumSquare", "s = Pow(x, two) y = SUM(s)"),
            ("ReduceL1", "s = Abs(x) y = SUM(s)"),
            ("ReduceL2", "s = Pow(x, two) t = SUM(s) y = Sqrt(t)"),
            ("ReduceLogSumExp", "s = Exp(x) t = SUM(s) y = Log(t)"),
            (
                "ReduceLogSum",
                "s = Exp(x) z = Neg(s) a = Abs(z) n = Mul(a, two) t = SUM(n) y = Log(t)",
            ),
        ] {
            for (opset, sum) in [
                (11, "ReduceSum<axes = [0], keepdims = 0>(V)"),
                (18, "ReduceSum<keepdims = 0>(V, first)"),
            ] {
                let before = body.find("SUM(").unwrap() + 4;
                let read = &body[before..before + 1];
                let body = body.replace(&format!("SUM({read})"), &sum.replace('V', read));
                let graph = format!(
                    "<ir_version: 8, opset_import: [\"\" : {opset}]> g (float[2,3] x) => (float[3] y)
                     <float two = {{2.0}}, int64[1] first = {{-2}}> {{ {body} }}"
                );
                let fused = check_pass_same(pass().as_ref(), &graph);
                assert_eq!(fused.graph.nodes().last().unwrap().1.op, op);
            }
        }
    }

    #[test]
    fn declined() {
        let graph = "g (float[2,3] x) => (float[2,1] y) <int64[1] axes = {-1}, float half = {0.5}>
            { s = Mul(x, x) t = ReduceSum(s, axes) y = Sqrt(t) }";
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let sum = "g (float[2,3] x) => (float[2,1] y, float[2,3] s) <int64[1] axes = {-1}>
            { s = Abs(x) y = ReduceSum(s, axes) }";
        check(sum, "`s` is read elsewhere, too");
        check(&graph.replace("Mul(x, x)", "Mul(x, half)"), "");
    }
}
