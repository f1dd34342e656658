//! Makes Gelu of its parts: by the error function, or by the hyperbolic tangent that approximates it.
//!
//! ```onnx
//! <ir_version: 9, opset_import: ["" : 20]>
//! before (float[2,3] x) => (float[2,3] y)
//! <float root = {1.4142135}, float one = {1.0}, float half = {0.5}>
//! {
//!   z = Div(x, root)
//!   e = Erf(z)
//!   s = Add(e, one)
//!   p = Mul(x, s)
//!   y = Mul(p, half)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 9, opset_import: ["" : 20]>
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = Gelu(x)
//! }
//! ```

use crate::parts::{FLOATS, needs, of_type};
use crate::pattern::{self, Pattern};
use onnxd_plugin_sdk::ir::ops::{Div, Mul};
use onnxd_plugin_sdk::ir::{At, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

/// The attribute `approximate`, with 1 / sqrt(2) and sqrt(2 / pi) as numbers.
static GELU: [(&str, Pattern); 3] = [
    ("none", Pattern::new("0.5 * x * (1 + Erf(0.7071067811865476 * x))")),
    ("tanh", Pattern::new("0.5 * x * (1 + Tanh(0.7978845608028654 * (x + 0.044715 * x^3)))")),
    ("tanh", Pattern::new("0.5 * x * (1 + Tanh(0.7978845608028654 * x * (1 + 0.044715 * x^2)))")),
];

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-gelu",
        vec![
            rule("multiplied", |cx, at: At<Mul>| gelu(cx, at.out)),
            rule("divided", |cx, at: At<Div>| gelu(cx, at.out)),
        ],
    )
}

fn gelu(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let (x, approximate) = form(cx, out)?;
    needs(cx, "Gelu", 20)?;
    of_type(cx, x, FLOATS)?;
    cx.rebuild(out, |b| b.gelu(x).approximate(approximate).one())
}

/// The `x` of `Gelu<approximate>(x)`.
pub(crate) fn form(cx: &Rewriter, out: ValueId) -> Result<(ValueId, &'static str), Skip> {
    let (approximate, found) = pattern::first(cx, out, &GELU)?;
    Ok((found.value("x"), approximate))
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
            "<ir_version: 9, opset_import: [\"\" : {opset}]>
             g (float[2,3] x) => (float[2,3] y)
             <float root = {{1.4142135}}, float inverse = {{0.70710677}}, float one = {{1.0}},
              float half = {{0.5}}, float two = {{2.0}}, float three = {{3.0}}, float c = {{0.044715}},
              float[1,1] k = {{0.7978846}}, float[1,1,1] wide = {{0.5}}> {{ {body} }}"
        )
    }

    #[test]
    fn all_orders() {
        for body in [
            "z = Mul(inverse, x) e = Erf(z) s = Add(one, e) h = Mul(x, half) y = Mul(s, h)",
            "z = Div(x, root) e = Erf(z) t = Mul(e, half) s = Add(t, half) y = Mul(s, x)",
            "z = Div(x, root) e = Erf(z) s = Add(e, one) h = Mul(half, s) y = Mul(x, h)",
            "z = Div(x, root) e = Erf(z) s = Add(e, one) p = Mul(s, x) y = Div(p, two)",
        ] {
            let fused = check_pass_same(pass().as_ref(), &model(20, body));
            assert_eq!(fused.graph.node_count(), 1, "{body}");
        }
    }

    #[test]
    fn all_orders_of_the_approximation() {
        for cube in [
            "q = Pow(x, three)", "s2 = Mul(x, x) q = Mul(s2, x)", "s2 = Pow(x, two) q = Mul(x, s2)",
        ] {
            for end in [
                "h = Mul(half, x) t = Tanh(z) s = Add(t, one) y = Mul(h, s)",
                "t = Tanh(z) s = Add(one, t) p = Mul(x, s) y = Mul(p, half)",
            ] {
                let body = format!("{cube} r = Mul(c, q) w = Add(x, r) z = Mul(w, k) {end}");
                let fused = check_pass_same(pass().as_ref(), &model(20, &body));
                assert_eq!(fused.graph.node_count(), 1, "{body}");
            }
        }
        let body = "q = Mul(x, x) r = Mul(q, c) w = Add(r, one) v = Mul(x, k) z = Mul(v, w)
                    t = Tanh(z) s = Add(t, one) h = Mul(x, half) y = Mul(h, s)";
        assert_eq!(check_pass_same(pass().as_ref(), &model(20, body)).graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let erf = "z = Div(x, root) e = Erf(z) s = Add(e, one) p = Mul(x, s) y = Mul(p, half)";
        let check =
            |opset, body: &str, why| check_pass_skip(pass().as_ref(), why, &model(opset, body));
        check(19, erf, "opset 19 has no Gelu, which came with 20");
        check(20, &erf.replace("root", "two"), "");
        check(20, &erf.replace("(e, one)", "(e, half)"), "");
        let shared = model(20, erf).replace("(float[2,3] y)", "(float[2,3] y, float[2,3] e)");
        check_pass_skip(pass().as_ref(), "`e` is read elsewhere, too", &shared);
        let wide = model(20, &erf.replace("half)", "wide)"))
            .replace("=> (float[2,3] y)", "=> (float[1,2,3] y)");
        check_pass_skip(pass().as_ref(), "", &wide);
    }
}
