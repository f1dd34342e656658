//! Makes HardSwish and HardSigmoid of their parts.
//!
//! `x * clip(x + 3, 0, 6) / 6` and `x * hard_sigmoid(x)` become HardSwish. Before opset 14, which brought it, and where
//! numbers differ, `clip(a * x + b, 0, c) / c` becomes HardSigmoid.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,3] y)
//! <float three = {3.0}, float zero = {0.0}, float six = {6.0}>
//! {
//!   a = Add(x, three)
//!   c = Clip(a, zero, six)
//!   p = Mul(x, c)
//!   y = Div(p, six)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,3] y)
//! {
//!   y = HardSwish(x)
//! }
//! ```

use super::clip::interval;
use crate::parts::{PatternNodes, of_type};
use onnxd_plugin_sdk::ir::ops::{Clip, Div, Mul};
use onnxd_plugin_sdk::ir::{At, Attr, DataType, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

/// The first operator set with HardSwish.
const HARD_SWISH: i64 = 14;

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-hard-swish",
        vec![
            rule("multiplied", |cx, at: At<Mul>| scaled(cx, at.out)),
            rule("divided", |cx, at: At<Div>| scaled(cx, at.out)),
            rule("clipped", |cx, at: At<Clip>| clipped(cx, at.out)),
        ],
    )
}

/// `HardSigmoid<alpha, beta>(x)`
struct Gate {
    x: ValueId,
    alpha: f64,
    beta: f64,
}

/// `scale * gate` or `scale * x * gate`
fn scaled(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let product = parts.product(out);
    match product.items[..] {
        [(1.0, gate)] => {
            let gate = gate_of(&parts, gate, product.number)?;
            parts.closed()?;
            hard_sigmoid(cx, out, &gate)
        }
        [(1.0, a), (1.0, b)] => {
            let (x, gate) =
                parts.either([a, b], |x, gate| Ok((x, gate_of(&parts, gate, product.number)?)))?;
            let is_swish =
                x == gate.x && parts.is(gate.alpha, 1.0 / 6.0, x) && parts.is(gate.beta, 0.5, x);
            let fewer = parts.count() > 2;
            parts.closed()?;
            // Runtimes have kernels of HardSigmoid for these types only.
            of_type(cx, gate.x, &[DataType::Float, DataType::Float16])?;
            match is_swish && cx.opset >= HARD_SWISH {
                true => cx.rebuild(out, |b| b.hard_swish(x)),
                false if fewer => cx.rebuild(out, |b| {
                    let gate = b.hard_sigmoid(gate.x).alpha(gate.alpha).beta(gate.beta).one()?;
                    b.mul(x, gate)
                }),
                false if is_swish => Skip::because(format!(
                    "opset {} has no HardSwish, which came with 14",
                    cx.opset
                )),
                false => Skip::unlike(),
            }
        }
        _ => Skip::unlike(),
    }
}

fn clipped(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let gate = gate_of(&parts, out, 1.0)?;
    if parts.count() < 2 {
        return Skip::unlike();
    }
    parts.closed()?;
    hard_sigmoid(cx, out, &gate)
}

fn hard_sigmoid(cx: &mut Rewriter, out: ValueId, gate: &Gate) -> Rewrite {
    of_type(cx, gate.x, &[DataType::Float, DataType::Float16])?;
    cx.rebuild(out, |b| b.hard_sigmoid(gate.x).alpha(gate.alpha).beta(gate.beta).one())
}

/// `scale * clip(a * x + b, 0, c)` where `scale * c` is 1, or HardSigmoid itself where `scale` is 1.
fn gate_of(parts: &PatternNodes, v: ValueId, scale: f64) -> Result<Gate, Skip> {
    let own = parts.attempt(|| {
        let node = parts.node("HardSigmoid", v)?;
        let number = |name: &str, default: f32| match node.attr(name) {
            Some(Attr::Float(x)) => f64::from(*x),
            _ => f64::from(default),
        };
        match node.input(0).filter(|_| scale == 1.0) {
            Some(x) => Ok(Gate { x, alpha: number("alpha", 0.2), beta: number("beta", 0.5) }),
            None => Skip::unlike(),
        }
    });
    own.or_else(|_| {
        let clip = interval(parts, v)?;
        let (Some(low), Some(high)) = (clip.low, clip.high) else { return Skip::unlike() };
        if low != 0.0 || !parts.is(scale * high, 1.0, v) {
            return Skip::unlike();
        }
        let (alpha, x, beta) = parts.linear(clip.x)?;
        Ok(Gate { x, alpha: scale * alpha, beta: scale * beta })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("hard.rs"), pass().as_ref());
    }

    fn model(opset: i64, body: &str) -> String {
        format!(
            "<ir_version: 8, opset_import: [\"\" : {opset}]>
             g (float[2,3] x, float[2,3] z) => (float[2,3] y)
             <float three = {{3.0}}, float zero = {{0.0}}, float six = {{6.0}}, float one = {{1.0}},
              float half = {{0.5}}, float sixth = {{0.16666667}}, float[1,1] fifth = {{0.2}}> {{ {body} }}"
        )
    }

    fn fused(opset: i64, body: &str) -> Vec<String> {
        let fused = check_pass_same(pass().as_ref(), &model(opset, body));
        fused.graph.nodes().map(|(_, node)| node.op.clone()).collect()
    }

    #[test]
    fn all_forms() {
        for body in [
            "a = Add(three, x) c = Clip(a, zero, six) d = Div(c, six) y = Mul(d, x)",
            "a = Add(three, x) c = Clip(a, zero, six) p = Mul(c, sixth) y = Mul(x, p)",
            "m = Mul(x, sixth) a = Add(m, half) c = Clip(a, zero, one) y = Mul(x, c)",
            "c = HardSigmoid<alpha = 0.16666667>(x) y = Mul(x, c)",
        ] {
            assert_eq!(fused(14, body), ["HardSwish"], "{body}");
        }
        let gate = "a = Add(x, three) c = Clip(a, zero, six)";
        assert_eq!(
            fused(13, &format!("{gate} p = Mul(x, c) y = Div(p, six)")),
            ["HardSigmoid", "Mul"]
        );
        assert_eq!(
            fused(14, &format!("{gate} p = Mul(z, c) y = Div(p, six)")),
            ["HardSigmoid", "Mul"]
        );
        assert_eq!(fused(14, &format!("{gate} y = Div(c, six)")), ["HardSigmoid"]);
        // What computes the value stays whole.
        for inner in ["Sub(x, z)", "Div(x, z)"] {
            let body =
                format!("s = {inner} a = Add(s, three) c = Clip(a, zero, six) y = Div(c, six)");
            assert_eq!(fused(14, &body)[1..], ["HardSigmoid"], "{body}");
        }
        let turned = "a = Sub(three, x) c = Clip(a, zero, six) y = Div(c, six)";
        assert_eq!(fused(14, turned), ["HardSigmoid"]);
        assert_eq!(
            fused(14, "m = Mul(x, fifth) a = Add(m, half) y = Clip(a, zero, one)"),
            ["HardSigmoid"]
        );
    }

    #[test]
    fn declined() {
        let check =
            |opset, body: &str, why| check_pass_skip(pass().as_ref(), why, &model(opset, body));
        let swish = "c = HardSigmoid<alpha = 0.16666667>(x) y = Mul(x, c)";
        check(13, swish, "opset 13 has no HardSwish, which came with 14");
        check(14, "y = Clip(x, zero, one)", "");
        check(14, "a = Add(x, three) c = Clip(a, zero, six) y = Div(c, three)", "");
        check(14, "a = Add(x, three) c = Clip(a, half, six) y = Div(c, six)", "");
        let body = "a = Add(x, three) c = Clip(a, zero, six) d = Div(c, six) y = Mul(d, x)";
        let shared = model(14, body).replace("(float[2,3] y)", "(float[2,3] y, float[2,3] c)");
        check_pass_skip(pass().as_ref(), "", &shared);
    }
}
