//! Makes RMSNormalization of its parts. The multiplication that follows becomes its scale.
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! before (float[2,3] x) => (float[2,3] y)
//! <float eps = {0.5}, float[3] gain = {1.0, 2.0, 3.0}, int64[1] last = {-1}>
//! {
//!   square = Mul(x, x)
//!   mean = ReduceMean(square, last)
//!   raised = Add(mean, eps)
//!   root = Sqrt(raised)
//!   normal = Div(x, root)
//!   y = Mul(gain, normal)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! <ir_version: 11, opset_import: ["" : 23]>
//! after (float[2,3] x) => (float[2,3] y)
//! <float[3] gain = {1.0, 2.0, 3.0}>
//! {
//!   y = RMSNormalization<epsilon = 0.5>(x, gain)
//! }
//! ```

use super::{beside, changed, has_shape, last_axes, ones};
use crate::parts::{PatternNodes, needs, of_type, unlike};
use crate::pattern::Pattern;
use onnxd_plugin_sdk::ir::ops::{Cast, Div, Mul, RMSNormalization};
use onnxd_plugin_sdk::ir::{At, DataType, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-rms-norm",
        vec![
            rule("divided", |cx, at: At<Div>| normalized(cx, at.out)),
            rule("multiplied", |cx, at: At<Mul>| normalized(cx, at.out)),
            rule("cast", between_casts),
            rule("scaled", scaled),
        ],
    )
}

static RMS: Pattern = Pattern::new("x / Sqrt(ReduceMean(x^2) + {epsilon})");

/// `x`, the number of axes and epsilon of the normalization.
pub(crate) fn form(parts: &PatternNodes, out: ValueId) -> Result<(ValueId, usize, f64), Skip> {
    let found = RMS.find(parts, out)?;
    Ok((found.value("x"), last_axes(&found)?, found.number("epsilon")))
}

fn normalized(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let (x, count, epsilon) = form(&parts, out)?;
    parts.closed()?;
    needs(cx, "RMSNormalization", 23)?;
    // The operator computes in 32 bits: less than 64, and more than 16.
    of_type(cx, x, &[DataType::Float])?;
    let (scale, axis) = (ones(cx, x, count)?, -(count as i64));
    cx.rebuild(out, |b| b.rms_normalization(x, scale).axis(axis).epsilon(epsilon).one())
}

/// Values of 16 bits, widened to be normalized.
fn between_casts(cx: &mut Rewriter, narrow: At<Cast>) -> Rewrite {
    let norm = cx.sole_producer::<RMSNormalization>(narrow.input).map_err(|_| unlike())?;
    let wide = cx.producer::<Cast>(norm.x).map_err(|_| unlike())?;
    of_type(cx, wide.input, &[DataType::Float16, DataType::Bfloat16])?;
    if cx.dtype(wide.input)? != cx.dtype(narrow.out)? || norm.stash_type != 1 {
        return Skip::unlike();
    }
    let scale = cx.reals(norm.scale)?;
    if scale.values.iter().any(|s| *s != 1.0) {
        return Skip::because("the scale applies before the values are rounded to 16 bits");
    }
    let scale = ones(cx, wide.input, scale.dims.len())?;
    cx.replace(narrow.out, RMSNormalization { x: wide.input, scale, ..norm.op })
}

fn scaled(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let (norm, by) = beside::<RMSNormalization>(cx, [mul.a, mul.b])?;
    if cx.constant(by)?.rank() > cx.rank(norm.x)? {
        return Skip::because(format!("{} has more axes than the result", cx.name(by)));
    }
    cx.read_once(norm.out)?;
    let scale = cx.reals(norm.scale)?;
    let scale = match scale.values.iter().all(|s| *s == 1.0) && has_shape(cx, by, &scale) {
        true => by,
        false => changed(cx, norm.scale, "scaled", by, |a, b| a * b)?,
    };
    cx.replace(mul.out, RMSNormalization { scale, ..norm.op })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("rms_norm.rs"), pass().as_ref());
    }

    fn model(opset: i64, body: &str) -> String {
        format!(
            "<ir_version: 11, opset_import: [\"\" : {opset}]> g (float[2,3] x) => (float[2,3] y)
             <float eps = {{0.5}}, float two = {{2.0}}, int64[1] last = {{1}}, int64[1] first = {{0}},
              float[1,1] half = {{0.5}}> {{ {body} }}"
        )
    }

    const PARTS: &str =
        "s = Pow(x, two) m = ReduceMean(s, last) e = Add(eps, m) r = Sqrt(e) i = Reciprocal(r)";

    #[test]
    fn by_a_reciprocal_and_one_factor() {
        let graph = model(23, &format!("{PARTS} n = Mul(x, i) y = Mul(n, half)"));
        assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 1);
    }

    #[test]
    fn half_precision_between_casts() {
        let graph = "<ir_version: 11, opset_import: [\"\" : 23]> g (float16[2,3] h) => (float16[2,3] y)
            <float eps = {0.5}, int64[1] last = {1}, float16[3] gain = {1.0, 2.0, 3.0}>
            { x = Cast<to = 1>(h) s = Mul(x, x) m = ReduceMean(s, last) e = Add(eps, m) r = Sqrt(e) n = Div(x, r)
              c = Cast<to = 10>(n) y = Mul(c, gain) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
    }

    #[test]
    fn declined() {
        let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
        let body = format!("{PARTS} y = Mul(x, i)");
        check(&model(22, &body), "opset 22 has no RMSNormalization, which came with 23");
        check(
            &model(23, &body.replace("last", "first")),
            "it does not normalize along the last axes",
        );
        let shared = model(23, &body).replace("(float[2,3] y)", "(float[2,3] y, float[2,1] r)");
        check(&shared, "`r` is read elsewhere, too");
    }
}
