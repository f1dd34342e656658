//! Makes Softmax and LogSoftmax of the formulas by which the standard defines them.
//!
//! Runtimes subtract the maximum first, so that nothing overflows. Where the parts do that, it goes, too. ONNX Runtime
//! computes Softmax along an inner axis more slowly than its parts, so only the last axis counts.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,3] y)
//! <int64[1] last = {-1}>
//! {
//!   m = ReduceMax<axes = [-1]>(x)
//!   d = Sub(x, m)
//!   e = Exp(d)
//!   s = ReduceSum(e, last)
//!   y = Div(e, s)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = Softmax(x)
//! }
//! ```

use crate::parts::{FLOATS, of_type, unlike};
use crate::pattern::{self, Pattern};
use onnxd_plugin_sdk::ir::ops::{Div, Log, Mul, Softmax, Sub};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-softmax",
        vec![
            rule("divided", |cx, at: At<Div>| along_last_axis(cx, at.out)),
            rule("multiplied", |cx, at: At<Mul>| along_last_axis(cx, at.out)),
            rule("logarithm", logarithm),
            rule("subtracted", |cx, at: At<Sub>| along_last_axis(cx, at.out)),
        ],
    )
}

static SOFTMAX: [(&str, Pattern); 6] = [
    ("Softmax", Pattern::new("e / ReduceSum(e); e = Exp(x - ReduceMax(x))")),
    ("Softmax", Pattern::new("e / ReduceSum(e); e = Exp(x)")),
    ("LogSoftmax", Pattern::new("d - Log(ReduceSum(Exp(d))); d = x - ReduceMax(x)")),
    ("LogSoftmax", Pattern::new("x - Log(ReduceSum(Exp(x)))")),
    ("LogSoftmax", Pattern::new("d - ReduceLogSumExp(d); d = x - ReduceMax(x)")),
    ("LogSoftmax", Pattern::new("x - ReduceLogSumExp(x)")),
];

fn along_last_axis(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let (op, found) = pattern::first(cx, out, &SOFTMAX)?;
    let (x, sum) = (found.value("x"), found.reduction());
    if !sum.keepdims || sum.axes.len() != 1 {
        return Skip::unlike();
    }
    if sum.trailing() != Some(1) {
        return Skip::because("it does not run along the last axis");
    }
    of_type(cx, x, FLOATS)?;
    let axis = last_axis(cx, sum.rank);
    cx.rebuild(out, |b| b.op("", op, [x]).set("axis", axis).one())
}

/// `log(softmax(x))`, along any axis
fn logarithm(cx: &mut Rewriter, log: At<Log>) -> Rewrite {
    let softmax = cx.producer::<Softmax>(log.input).map_err(|_| unlike())?;
    cx.read_once(log.input)?;
    of_type(cx, softmax.input, FLOATS)?;
    cx.rebuild(log.out, |b| b.log_softmax(softmax.input).axis(softmax.axis).one())
}

/// Before opset 13 it is the last axis for which Softmax means one axis; before 11 it counts from the front.
fn last_axis(cx: &Rewriter, rank: usize) -> i64 {
    if cx.opset < 13 { rank as i64 - 1 } else { -1 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("softmax.rs"), pass().as_ref());
    }

    fn model(body: &str) -> String {
        format!(
            "g (float[2,3,4] x) => (float[2,3,4] y) <int64[1] last = {{2}}, int64[1] inner = {{1}}> {{ {body} }}"
        )
    }

    #[test]
    fn all_forms() {
        for (op, body) in [
            ("Softmax", "e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)"),
            ("Softmax", "e = Exp(x) s = ReduceSum(e, last) r = Reciprocal(s) y = Mul(r, e)"),
            ("LogSoftmax", "e = Exp(x) s = ReduceSum(e, last) l = Log(s) y = Sub(x, l)"),
            ("LogSoftmax", "s = ReduceLogSumExp<axes = [-1]>(x) y = Sub(x, s)"),
            ("LogSoftmax", "s = Softmax<axis = 1>(x) y = Log(s)"),
            (
                "LogSoftmax",
                "m = ReduceMax<axes = [2]>(x) d = Sub(x, m) e = Exp(d) s = ReduceSum(e, last) l = Log(s) y = Sub(d, l)",
            ),
        ] {
            let fused = check_pass_same(pass().as_ref(), &model(body));
            let ops: Vec<_> = fused.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
            assert_eq!(ops, [op], "{body}");
        }
    }

    #[test]
    fn axes_of_old_opsets() {
        let old =
            "<ir_version: 4, opset_import: [\"\" : 10]> g (float[2,3,4] x) => (float[2,3,4] y)
            { e = Exp(x) s = ReduceSum<axes = [2]>(e) y = Div(e, s) }";
        let fused = check_pass_same(pass().as_ref(), old);
        let (_, node) = fused.graph.nodes().next().unwrap();
        assert_eq!((node.op.as_str(), node.int("axis", 1)), ("Softmax", 2));
    }

    #[test]
    fn declined() {
        let body = "e = Exp(x) s = ReduceSum(e, last) y = Div(e, s)";
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        check(&model(&body.replace("last", "inner")), "it does not run along the last axis");
        check(&model(&body.replace("y = Div(e, s)", "n = Neg(e) y = Div(n, s)")), "");
        let shared = model(body).replace("(float[2,3,4] y)", "(float[2,3,4] y, float[2,3,4] e)");
        check(&shared, "`e` is read elsewhere, too");
    }
}
