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
use onnxd_plugin_sdk::ir::ops::{Add, LayerNormalization, Mul};
use onnxd_plugin_sdk::ir::{At, Attr, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule};

pub(crate) fn pass() -> Box<dyn Pass> {
    super::pass(
        "fuse-microsoft-skip-norm",
        vec![rule("centred", layer_norm), rule("simplified", simplified)],
    )
}

fn layer_norm(cx: &mut Rewriter, norm: At<LayerNormalization>) -> Rewrite {
    let sum = cx.producer::<Add>(norm.x).map_err(|_| unlike())?;
    let rank = cx.rank(norm.x)? as i64;
    if (norm.axis != -1 && norm.axis != rank - 1) || norm.stash_type != 1 {
        return Skip::because("it does not normalize along the last axis");
    }
    if cx.graph[norm.node].outputs.iter().flatten().count() > 1 {
        return Skip::because("LayerNormalization also gives mean and spread");
    }
    fits(cx, &sum, norm.scale)?;
    let kept = cx.graph.uses(sum.out) > 1;
    let inputs = vec![Some(sum.a), Some(sum.b), Some(norm.scale), norm.b];
    let outputs = outputs(norm.out, kept.then_some(sum.out));
    let mut made = node("SkipLayerNormalization", inputs, outputs);
    if norm.b.is_none() {
        made.inputs.pop();
    }
    let made = made.with("epsilon", Attr::Float(norm.epsilon));
    cx.exchange(&[norm.node, sum.node], made);
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
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let why = "it does not add two values of one known shape with three axes";
        check(&RMS.replace("float[N,2,3] z", "float[1,2,3] z"), why);
        check(&RMS.replace("float", "double"), "`s` is of type double");
        check(&RMS.replace("] y)", "] y, float[N,2,1] m)"), "`m` is read elsewhere, too");
    }
}
