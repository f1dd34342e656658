//! Makes ONNX Runtime's Gelu, FastGelu and QuickGelu of their parts, and takes in a bias that is added before.
//!
//! From opset 20 on the standard has a Gelu, which `fuse-gelu` makes.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! before (float[2,3] x) => (float[2,3] y)
//! <float root = {1.4142135}, float one = {1.0}, float half = {0.5}, float[3] bias = {1.0, 2.0, 3.0}>
//! {
//!   b = Add(x, bias)
//!   z = Div(b, root)
//!   e = Erf(z)
//!   s = Add(e, one)
//!   p = Mul(b, s)
//!   y = Mul(p, half)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! after (float[2,3] x) => (float[2,3] y)
//! <float[3] bias = {1.0, 2.0, 3.0}>
//! {
//!   y = com.microsoft.BiasGelu(x, bias)
//! }
//! ```

use super::{DOMAIN, TYPES};
use crate::activation::gelu;
use crate::activation::swish::SWISH;
use crate::parts::{dims, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Add, Div, Mul};
use onnxd_plugin_sdk::ir::{At, Dim, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    super::pass(
        "fuse-microsoft-gelu",
        vec![
            rule("multiplied", |cx, at: At<Mul>| curve(cx, at.out)),
            rule("divided", |cx, at: At<Div>| curve(cx, at.out)),
            rule("quick", quick),
            rule("biased", biased),
        ],
    )
}

fn curve(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let (x, approximate) = gelu::form(cx, out)?;
    if cx.opset >= 20 {
        return Skip::because(format!("opset {} has a Gelu itself", cx.opset));
    }
    of_type(cx, x, TYPES)?;
    let op = if approximate == "none" { "Gelu" } else { "FastGelu" };
    cx.rebuild(out, |b| b.op(DOMAIN, op, [x]).one())
}

fn quick(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let found = SWISH.at(cx, mul.out)?;
    let (x, alpha) = (found.value("x"), found.number("alpha"));
    of_type(cx, x, TYPES)?;
    cx.rebuild(mul.out, |b| b.op(DOMAIN, "QuickGelu", [x]).set("alpha", alpha).one())
}

/// A bias along the last axis, added before a Gelu.
fn biased(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
    let (out, op) = reader(cx, add.out)?;
    let is_bias = |v: ValueId| cx.graph.constant(v).is_some_and(|t| t.rank() == 1);
    let (x, bias) = match (is_bias(add.a), is_bias(add.b)) {
        (_, true) => (add.a, add.b),
        (true, _) => (add.b, add.a),
        _ => return Skip::unlike(),
    };
    let width = cx.constant(bias)?.dims()[0] as i64;
    if dims(cx, x)?.last().and_then(Dim::known) != Some(width) {
        return Skip::because("the bias is not one value for each element of the last axis");
    }
    cx.rebuild(out, |b| b.op(DOMAIN, op, [x, bias]).one())
}

/// What the Gelu that alone reads `v` computes, and the operator that takes a bias, too.
fn reader(cx: &Rewriter, v: ValueId) -> Result<(ValueId, &'static str), Skip> {
    let readers: &[NodeId] = cx.graph.readers(v);
    let node = match readers {
        [one] if cx.graph.uses(v) == 1 => &cx.graph[*one],
        _ => return Skip::unlike(),
    };
    let op = match node.op.as_str() {
        "Gelu" => "BiasGelu",
        "FastGelu" => "FastGelu",
        _ => return Skip::unlike(),
    };
    let fits = node.domain == DOMAIN && node.inputs.len() == 1;
    let out = node.output(0).filter(|_| fits).ok_or_else(unlike)?;
    Ok((out, op))
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("gelu.rs"), pass().as_ref());
    }

    fn model(opset: i64, body: &str) -> String {
        format!(
            "<ir_version: 9, opset_import: [\"\" : {opset}]> g (float[2,3] x) => (float[2,3] y)
             <float root = {{1.4142135}}, float one = {{1.0}}, float half = {{0.5}}, float c = {{0.044715}},
              float k = {{0.7978846}}, float[1] single = {{2.0}}, float three = {{3.0}},
              float[3] bias = {{1.0, 2.0, 3.0}}>
             {{ {body} }}"
        )
    }

    const TANH: &str = "q = Pow(b, three) r = Mul(q, c) w = Add(b, r) z = Mul(w, k) t = Tanh(z)
        s = Add(t, one) p = Mul(b, s) y = Mul(p, half)";

    #[test]
    fn all_operators() {
        for (op, count, body) in [
            ("FastGelu", 1, format!("b = Add(bias, x) {TANH}")),
            ("FastGelu", 2, format!("b = Add(x, single) {TANH}")),
            ("QuickGelu", 1, "z = Mul(x, three) s = Sigmoid(z) y = Mul(s, x)".into()),
        ] {
            let fused = check_pass_same(pass().as_ref(), &model(13, &body));
            let last = fused.graph.value_named("y").and_then(|y| fused.graph.producer(y)).unwrap();
            assert_eq!((fused.graph[last].op.as_str(), fused.graph.node_count()), (op, count));
            assert_eq!(fused.opsets.get(DOMAIN), Some(&1));
        }
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let body = format!("b = Neg(x) {TANH}");
        check(&model(20, &body), "opset 20 has a Gelu itself");
        let quick = model(17, "z = Mul(x, three) s = Sigmoid(z) y = Mul(s, x)");
        check(&quick.replace("float", "double"), "`x` is of type double");
        let shared = model(17, &body).replace("(float[2,3] y)", "(float[2,3] y, float[2,3] t)");
        check(&shared, "`t` is read elsewhere, too");
    }
}
