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

use crate::parts::{FLOATS, Parts, Reduction, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Div, Log, Mul, Softmax, Sub};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-softmax",
        vec![
            rule("divided", divided),
            rule("multiplied", multiplied),
            rule("logarithm", logarithm),
            rule("subtracted", subtracted),
        ],
    )
}

/// `exp(x) / sum(exp(x))`
fn divided(cx: &mut Rewriter, div: At<Div>) -> Rewrite {
    let parts = Parts::of(cx, div.out);
    let (x, rank) = softmax_of(&parts, div.a, div.b)?;
    parts.closed()?;
    softmax(cx, div.out, x, rank)
}

/// `exp(x) * (1 / sum(exp(x)))`
fn multiplied(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let parts = Parts::of(cx, mul.out);
    let (x, rank) = parts.either([mul.a, mul.b], |power, inverse| {
        softmax_of(&parts, power, parts.unary("Reciprocal", inverse)?)
    })?;
    parts.closed()?;
    softmax(cx, mul.out, x, rank)
}

fn softmax(cx: &mut Rewriter, out: ValueId, x: ValueId, rank: usize) -> Rewrite {
    of_type(cx, x, FLOATS)?;
    let axis = last_axis(cx, rank);
    cx.rebuild(out, |b| b.softmax(x).axis(axis).one())
}

/// `log(softmax(x))`, along any axis
fn logarithm(cx: &mut Rewriter, log: At<Log>) -> Rewrite {
    let softmax = cx.producer::<Softmax>(log.input).map_err(|_| unlike())?;
    cx.read_once(log.input)?;
    of_type(cx, softmax.input, FLOATS)?;
    cx.rebuild(log.out, |b| b.log_softmax(softmax.input).axis(softmax.axis).one())
}

/// `x - log(sum(exp(x)))`
fn subtracted(cx: &mut Rewriter, sub: At<Sub>) -> Rewrite {
    let parts = Parts::of(cx, sub.out);
    let composed = parts.attempt(|| {
        let sum = parts.reduction("ReduceSum", parts.unary("Log", sub.b)?)?;
        let x = parts.unary("Exp", sum.data)?;
        Ok((x, sum))
    });
    let (shifted, sum) = composed.or_else(|_| {
        let sum = parts.reduction("ReduceLogSumExp", sub.b)?;
        Ok((sum.data, sum))
    })?;
    if shifted != sub.a {
        return Skip::unlike();
    }
    let (x, rank) = above_maximum(&parts, shifted, &sum)?;
    parts.closed()?;
    of_type(cx, x, FLOATS)?;
    let axis = last_axis(cx, rank);
    cx.rebuild(sub.out, |b| b.log_softmax(x).axis(axis).one())
}

/// `x` of `power = exp(x)` and `sum = sum(power)`, and its number of axes.
fn softmax_of(parts: &Parts, power: ValueId, sum: ValueId) -> Result<(ValueId, usize), Skip> {
    let sum = parts.reduction("ReduceSum", sum)?;
    if sum.data != power {
        return Skip::unlike();
    }
    above_maximum(parts, parts.unary("Exp", power)?, &sum)
}

/// `x`, or `x` of `v = x - max(x)`.
fn above_maximum(parts: &Parts, v: ValueId, sum: &Reduction) -> Result<(ValueId, usize), Skip> {
    if !sum.keepdims || sum.axes.len() != 1 {
        return Skip::unlike();
    }
    if sum.trailing() != Some(1) {
        return Skip::because("it does not run along the last axis");
    }
    let difference = parts.attempt(|| {
        let [x, max] = parts.pair("Sub", v)?;
        let max = parts.reduction("ReduceMax", max)?;
        let fits = max.data == x && max.axes == sum.axes && max.keepdims;
        if fits { Ok(x) } else { Skip::unlike() }
    });
    Ok((difference.unwrap_or(v), sum.rank))
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
