//! Makes ONNX Runtime's SkipLayerNormalization and SkipSimplifiedLayerNormalization of an addition and a normalization.
//! The sum stays an output if it is read elsewhere, too.
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! before (float[1,2,3] x, float[1,2,3] z) => (float[1,2,3] y, float[1,2,3] s)
//! <float[3] gain = {1.0, 2.0, 3.0}, float[3] bias = {1.0, 2.0, 3.0}>
//! {
//!   s = Add(x, z)
//!   y = LayerNormalization<epsilon = 0.5>(s, gain, bias)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
//! after (float[1,2,3] x, float[1,2,3] z) => (float[1,2,3] y, float[1,2,3] s)
//! <float[3] gain = {1.0, 2.0, 3.0}, float[3] bias = {1.0, 2.0, 3.0}>
//! {
//!   y, "", "", s = com.microsoft.SkipLayerNormalization<epsilon = 0.5>(x, z, gain, bias)
//! }
//! ```

use super::{TYPES, node};
use crate::norm::rms_norm;
use crate::parts::{PatternNodes, dims, of_type, unlike};
use onnxd_plugin_sdk::ir::ops::{Add, LayerNormalization, Mul, RMSNormalization};
use onnxd_plugin_sdk::ir::{At, Attr, NodeId, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    named("fuse-microsoft-skip-norm")
}

/// The same, which a profile chooses for ONNX Runtime GenAI.
pub(crate) fn genai() -> Box<dyn Pass> {
    named("fuse-genai-skip-norm")
}

fn named(id: &'static str) -> Box<dyn Pass> {
    let rules = vec![
        rule("centred", layer_norm),
        rule("rms", rms_normalization),
        rule("simplified", simplified),
    ];
    super::pass(id, rules)
}

fn layer_norm(cx: &mut Rewriter, norm: At<LayerNormalization>) -> Rewrite {
    if cx.graph[norm.node].outputs.iter().flatten().count() > 1 {
        return Skip::because("LayerNormalization also gives mean and spread");
    }
    let gains = [Some(norm.scale), norm.b];
    let gains = if norm.b.is_none() { &gains[..1] } else { &gains[..] };
    by_operator(
        cx,
        ("SkipLayerNormalization", gains),
        &Normalization {
            node: norm.node,
            x: norm.x,
            out: norm.out,
            axis: norm.axis,
            stash_type: norm.stash_type,
            epsilon: norm.epsilon,
        },
    )
}

fn rms_normalization(cx: &mut Rewriter, norm: At<RMSNormalization>) -> Rewrite {
    let gains = [Some(norm.scale)];
    by_operator(
        cx,
        ("SkipSimplifiedLayerNormalization", &gains),
        &Normalization {
            node: norm.node,
            x: norm.x,
            out: norm.out,
            axis: norm.axis,
            stash_type: norm.stash_type,
            epsilon: norm.epsilon,
        },
    )
}

/// What both operators say.
struct Normalization {
    node: NodeId,
    x: ValueId,
    out: ValueId,
    axis: i64,
    stash_type: i64,
    epsilon: f32,
}

/// A normalization of a sum becomes the operator of this name with these gains and biases.
fn by_operator(
    cx: &mut Rewriter,
    (op, gains): (&str, &[Option<ValueId>]),
    norm: &Normalization,
) -> Rewrite {
    let sum = cx.producer::<Add>(norm.x).map_err(|_| unlike())?;
    let rank = cx.rank(norm.x)? as i64;
    if (norm.axis != -1 && norm.axis != rank - 1) || norm.stash_type != 1 {
        return Skip::because("it does not normalize along the last axis");
    }
    let scale = gains.iter().flatten().next().copied().ok_or_else(unlike)?;
    fits(cx, &sum, scale)?;
    let kept = cx.graph.uses(sum.out) > 1;
    let inputs = [&[Some(sum.a), Some(sum.b)], gains].concat();
    let made = node(op, inputs, outputs(norm.out, kept.then_some(sum.out)));
    cx.exchange(&[norm.node, sum.node], made.with("epsilon", Attr::Float(norm.epsilon)));
    Ok(())
}

fn simplified(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let parts = PatternNodes::from_root(cx, mul.out);
    let is_gain = |v: ValueId| cx.graph.constant(v).is_some_and(|t| t.rank() == 1);
    let (gain, normal) = match (is_gain(mul.a), is_gain(mul.b)) {
        (true, false) => (mul.a, mul.b),
        (false, true) => (mul.b, mul.a),
        _ => return Skip::unlike(),
    };
    let (x, count, epsilon) = rms_norm::form(&parts, normal)?;
    let sum = cx.producer::<Add>(x).map_err(|_| unlike())?;
    if count != 1 {
        return Skip::because("it does not normalize along the last axis");
    }
    parts.closed()?;
    let kept = parts.is_read_elsewhere(x);
    fits(cx, &sum, gain)?;
    let inputs = vec![Some(sum.a), Some(sum.b), Some(gain)];
    let made =
        node("SkipSimplifiedLayerNormalization", inputs, outputs(mul.out, kept.then_some(x)));
    cx.exchange(&[mul.node, sum.node], made.with("epsilon", Attr::Float(epsilon as f32)));
    Ok(())
}

fn outputs(result: ValueId, sum: Option<ValueId>) -> Vec<Option<ValueId>> {
    match sum {
        Some(sum) => vec![Some(result), None, None, Some(sum)],
        None => vec![Some(result)],
    }
}

/// Demands two values of one shape with three axes, and a scale for the last one.
fn fits(cx: &Rewriter, sum: &At<Add>, scale: ValueId) -> Rewrite {
    of_type(cx, sum.out, TYPES)?;
    let (a, b, scale) = (dims(cx, sum.a)?, dims(cx, sum.b)?, dims(cx, scale)?);
    let same = a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a.same(b));
    let along_last = scale.len() == 1 && a.last().is_some_and(|d| d.same(&scale[0]));
    match a.len() == 3 && same && along_last {
        true => Ok(()),
        false => Skip::because("it does not add two values of one known shape with three axes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("skip_norm.rs"), pass().as_ref());
    }

    const RMS: &str = "g (float[N,2,3] x, float[N,2,3] z) => (float[N,2,3] y)
        <float[3] gain = {1.0, 2.0, 3.0}, float eps = {0.5}, float two = {2.0}>
        { s = Add(x, z) q = Pow(s, two) m = ReduceMean<axes = [-1]>(q) e = Add(m, eps) r = Sqrt(e)
          n = Div(s, r) y = Mul(gain, n) }";

    #[test]
    fn simplified_with_and_without_the_sum() {
        assert_eq!(check_pass_same(pass().as_ref(), RMS).graph.node_count(), 1);
        let kept =
            RMS.replace("] y)", "] y, float[N,2,3] w)").replace("y = Mul", "w = Neg(s) y = Mul");
        let model = check_pass_same(pass().as_ref(), &kept);
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn the_operator_of_root_mean_squares() {
        let model = check_pass_same(
            genai().as_ref(),
            "<opset_import: [\"\" : 23]>
            g (float[N,2,3] x, float[N,2,3] z) => (float[N,2,3] y, float[N,2,3] w)
            <float[3] gain = {1.0, 2.0, 3.0}>
            { s = Add(x, z) y = RMSNormalization<axis = -1, epsilon = 0.5>(s, gain) w = Neg(s) }",
        );
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let why = "it does not add two values of one known shape with three axes";
        check(&RMS.replace("float[N,2,3] z", "float[1,2,3] z"), why);
        check(&RMS.replace("float", "double"), "`s` is of type double");
        check(&RMS.replace("] y)", "] y, float[N,2,1] m)"), "`m` is read elsewhere, too");
    }
}
