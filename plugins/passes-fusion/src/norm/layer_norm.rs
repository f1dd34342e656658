//! Makes LayerNormalization of its parts. The multiplication and the addition that follow become its scale and bias.
//!
//! The spread may be divided by, or multiplied with as a reciprocal. TensorFlow multiplies it with the scale first, and
//! adds what the bias is without the mean. Values of 16 bits must be normalized in 32 bits,
//! as the operator does it; so the parts stand between two casts there.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,3] y)
//! <float eps = {0.5}, float two = {2.0}, float[3] gain = {1.0, 2.0, 3.0},
//!  float[3] shift = {4.0, 5.0, 6.0}>
//! {
//!   mean = ReduceMean<axes = [-1]>(x)
//!   d = Sub(x, mean)
//!   square = Pow(d, two)
//!   var = ReduceMean<axes = [-1]>(square)
//!   raised = Add(var, eps)
//!   std = Sqrt(raised)
//!   normal = Div(d, std)
//!   scaled = Mul(normal, gain)
//!   y = Add(scaled, shift)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,3] y)
//! <float[3] gain = {1.0, 2.0, 3.0}, float[3] shift = {4.0, 5.0, 6.0}>
//! {
//!   y = LayerNormalization<epsilon = 0.5>(x, gain, shift)
//! }
//! ```

use super::{CENTRED, beside, changed, has_shape, last_axes, ones};
use crate::parts::{needs, of_type, unlike};
use crate::pattern::{Pattern, PatternMatch, first};
use onnxd_plugin_sdk::ir::ops::{Add, Cast, Div, LayerNormalization, Mul};
use onnxd_plugin_sdk::ir::{At, DataType, Op, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-layer-norm",
        vec![
            rule("divided", |cx, at: At<Div>| normalized(cx, at.out)),
            rule("multiplied", |cx, at: At<Mul>| normalized(cx, at.out)),
            rule("affine", affine),
            rule("cast", between_casts),
            rule("scaled", scaled),
            rule("shifted", shifted),
        ],
    )
}

/// As TensorFlow normalizes, with a gain for each element or with one number.
static AFFINE: [(&str, Pattern); 2] = [
    (
        "values",
        Pattern::new(
            "x * m - mean * m + shift?; m = gain? / Sqrt(ReduceMean(d^2) + {epsilon}); \
             d = x - mean; mean = ReduceMean(x)",
        ),
    ),
    (
        "number",
        Pattern::new(
            "x * m - mean * m + shift?; m = {gain} / Sqrt(ReduceMean(d^2) + {epsilon}); \
             d = x - mean; mean = ReduceMean(x)",
        ),
    ),
];

fn normalized(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let found = CENTRED.at(cx, out)?;
    let (scale, axis) = along(cx, &found)?;
    let (x, epsilon) = (found.value("x"), found.number("epsilon"));
    cx.rebuild(out, |b| b.layer_normalization(x, scale).axis(axis).epsilon(epsilon).one())
}

/// Scale and bias follow as nodes of their own, which the other rules take in.
fn affine(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
    let (gains, found) = first(cx, add.out, &AFFINE)?;
    let (scale, axis) = along(cx, &found)?;
    let (x, epsilon) = (found.value("x"), found.number("epsilon"));
    cx.rebuild(add.out, |b| {
        let normal = b.layer_normalization(x, scale).axis(axis).epsilon(epsilon).one()?;
        let scaled = match found.optional("gain") {
            Some(gain) => b.mul(normal, gain)?,
            None if gains == "number" => b.mul(normal, found.number("gain"))?,
            None => normal,
        };
        match found.optional("shift") {
            Some(shift) => b.add(scaled, shift),
            None => Ok(scaled),
        }
    })
}

/// A scale of ones, and the attribute `axis`.
fn along(cx: &mut Rewriter, found: &PatternMatch) -> Result<(ValueId, i64), Skip> {
    let count = last_axes(found)?;
    needs(cx, LayerNormalization::NAME, 17)?;
    // The operator computes in 32 bits: less than 64, and more than 16.
    of_type(cx, found.value("x"), &[DataType::Float])?;
    Ok((ones(cx, found.value("x"), count)?, -(count as i64)))
}

/// Values of 16 bits, widened to be normalized.
fn between_casts(cx: &mut Rewriter, narrow: At<Cast>) -> Rewrite {
    let Ok(norm) = cx.sole_producer::<LayerNormalization>(narrow.input) else {
        return Skip::unlike();
    };
    let wide = cx.producer::<Cast>(norm.x).map_err(|_| unlike())?;
    of_type(cx, wide.input, &[DataType::Float16, DataType::Bfloat16])?;
    if cx.dtype(wide.input)? != cx.dtype(narrow.out)? || norm.stash_type != 1 {
        return Skip::unlike();
    }
    let scale = cx.reals(norm.scale)?;
    if norm.b.is_some() || scale.values.iter().any(|s| *s != 1.0) {
        return Skip::because("scale and bias apply before the values are rounded to 16 bits");
    }
    only_result(cx, &norm)?;
    let scale = ones(cx, wide.input, scale.dims.len())?;
    cx.replace(narrow.out, LayerNormalization { x: wide.input, scale, ..norm.op })
}

fn scaled(cx: &mut Rewriter, mul: At<Mul>) -> Rewrite {
    let (norm, by) = beside_constant(cx, [mul.a, mul.b])?;
    let scale = cx.reals(norm.scale)?;
    let fresh = scale.values.iter().all(|s| *s == 1.0);
    let times = |a: f64, b: f64| a * b;
    let b = match norm.b {
        Some(b) => Some(changed(cx, b, "scaled", by, times)?),
        None => None,
    };
    let scale = match fresh && has_shape(cx, by, &scale) {
        true => by,
        false => changed(cx, norm.scale, "scaled", by, times)?,
    };
    cx.replace(mul.out, LayerNormalization { scale, b, ..norm.op })
}

fn shifted(cx: &mut Rewriter, add: At<Add>) -> Rewrite {
    let (norm, by) = beside_constant(cx, [add.a, add.b])?;
    let b = match norm.b {
        Some(b) => changed(cx, b, "shifted", by, |a, b| a + b)?,
        None if has_shape(cx, by, &cx.reals(norm.scale)?) => by,
        None => changed(cx, norm.scale, "bias", by, |_, b| b)?,
    };
    cx.replace(add.out, LayerNormalization { b: Some(b), ..norm.op })
}

/// The normalization that nothing else reads, and a constant.
fn beside_constant(
    cx: &Rewriter,
    pair: [ValueId; 2],
) -> Result<(At<LayerNormalization>, ValueId), Skip> {
    let (norm, by) = beside::<LayerNormalization>(cx, pair)?;
    if cx.constant(by)?.rank() > cx.rank(norm.x)? {
        return Skip::because(format!("{} has more axes than the result", cx.name(by)));
    }
    cx.read_once(norm.out)?;
    only_result(cx, &norm)?;
    Ok((norm, by))
}

fn only_result(cx: &Rewriter, norm: &At<LayerNormalization>) -> Rewrite {
    match cx.graph[norm.node].outputs.iter().flatten().count() {
        1 => Ok(()),
        _ => Skip::because("LayerNormalization also gives mean and spread"),
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
        check_doc_example_of(include_str!("layer_norm.rs"), pass().as_ref());
    }

    /// The parts, of which some are written in another way.
    fn parts(head: &str, normal: &str, tail: &str) -> String {
        format!(
            "g (float[2,3,4] x) => {head}
             <float eps = {{0.5}}, float two = {{2.0}}, float one = {{1.0}}, float half = {{0.5}},
              float minus = {{-0.5}}, float[4] gain = {{1.0, 2.0, 3.0, 4.0}}, float three = {{3.0}},
              float[1,1,1] shift = {{5.0}}, float[1,1,1,1] wide = {{5.0}}, float[3,1] column = {{1.0, 2.0, 3.0}}>
             {{
               mean = ReduceMean<axes = [2]>(x)
               d = Sub(x, mean)
               {normal}
               {tail}
             }}"
        )
    }

    const USUAL: &str =
        "s = Mul(d, d) v = ReduceMean<axes = [-1]>(s) e = Add(eps, v) r = Sqrt(e) n = Div(d, r)";

    #[test]
    fn all_ways_to_divide_by_the_spread() {
        for normal in [
            USUAL,
            "s = Pow(d, two) v = ReduceMean<axes = [-1]>(s) e = Add(v, eps) r = Pow(e, half) n = Div(d, r)",
            "s = Mul(d, d) v = ReduceMean<axes = [2]>(s) e = Add(v, eps) r = Pow(e, minus) n = Mul(r, d)",
            "s = Mul(d, d) v = ReduceMean<axes = [2]>(s) e = Add(v, eps) r = Sqrt(e) i = Reciprocal(r) n = Mul(d, i)",
            "s = Mul(d, d) v = ReduceMean<axes = [2]>(s) e = Add(v, eps) r = Sqrt(e) i = Div(one, r) n = Mul(i, d)",
        ] {
            for tail in [
                "y = Identity(n)", "m = Mul(n, gain) y = Add(shift, m)",
                "m = Mul(three, n) y = Add(m, gain)", "a = Add(n, gain) y = Add(a, shift)",
            ] {
                let model =
                    check_pass_same(pass().as_ref(), &parts("(float[2,3,4] y)", normal, tail));
                assert_eq!(
                    model.graph.node_count(),
                    1 + tail.matches("Identity").count(),
                    "{normal} {tail}"
                );
            }
        }
    }

    #[test]
    fn scale_before_the_mean_is_taken_off() {
        let inverse = "s = Mul(d, d) v = ReduceMean<axes = [-1]>(s) e = Add(v, eps) r = Sqrt(e) i = Reciprocal(r)";
        for tail in [
            "m = Mul(i, gain) a = Mul(x, m) o = Neg(mean) p = Mul(o, m) q = Add(p, shift) y = Add(a, q)",
            "m = Mul(gain, i) a = Mul(m, x) p = Mul(m, mean) q = Sub(gain, p) y = Add(q, a)",
            "a = Mul(x, i) o = Neg(mean) p = Mul(o, i) y = Add(a, p)",
            "m = Mul(i, gain) a = Mul(x, m) p = Mul(mean, m) q = Neg(p) y = Add(a, q)",
            "m = Mul(i, three) a = Mul(x, m) p = Mul(mean, m) q = Sub(shift, p) y = Add(a, q)",
        ] {
            let model = check_pass_same(pass().as_ref(), &parts("(float[2,3,4] y)", inverse, tail));
            assert_eq!(model.graph.node_count(), 1, "{tail}");
        }
    }

    #[test]
    fn a_value_that_is_read_elsewhere() {
        for (name, output) in
            [("v", "float[2,3,1] v"), ("d", "float[2,3,4] d"), ("mean", "float[2,3,1] mean")]
        {
            let head = format!("(float[2,3,4] y, {output})");
            let graph = parts(&head, USUAL, "y = Identity(n)");
            check_pass_skip(pass().as_ref(), &format!("`{name}` is read elsewhere, too"), &graph);
        }
    }

    #[test]
    fn other_axes_and_sizes() {
        let graph = parts("(float[2,3,4] y)", USUAL, "y = Identity(n)")
            .replace("[-1]", "[1]")
            .replace("[2]", "[1]");
        check_pass_skip(pass().as_ref(), "it does not normalize along the last axes", &graph);
        let graph =
            parts("(float[2,3,n] y)", USUAL, "y = Identity(n)").replace("[2,3,4]", "[2,3,N]");
        let why = "the sizes that `x` is normalized along are not known";
        check_pass_skip(pass().as_ref(), why, &graph.replace("float[2,3,n] y", "float[2,3,N] y"));
    }

    #[test]
    fn what_is_no_scale_stays_behind() {
        let model = check_pass_same(
            pass().as_ref(),
            &parts("(float[2,3,4] y)", USUAL, "y = Mul(n, column)"),
        );
        assert_eq!(model.graph.node_count(), 2);
        let model = check_pass_same(
            pass().as_ref(),
            &parts("(float[1,2,3,4] y)", USUAL, "y = Add(n, wide)"),
        );
        assert_eq!(model.graph.node_count(), 2);
    }

    #[test]
    fn half_precision_between_casts() {
        let graph = "g (float16[2,4] h) => (float16[2,4] y)
             <float eps = {0.5}, float16[4] gain = {1.0, 2.0, 3.0, 4.0}>
             {
               x = Cast<to = 1>(h)
               mean = ReduceMean<axes = [1]>(x)
               d = Sub(x, mean)
               s = Mul(d, d) v = ReduceMean<axes = [-1]>(s) e = Add(eps, v) r = Sqrt(e) n = Div(d, r)
               c = Cast<to = 10>(n)
               y = Mul(c, gain)
             }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
        let graph = graph.replace("x = Cast<to = 1>(h)", "").replace("c = Cast<to = 10>(n)", "");
        let graph = graph.replace("(h", "(x").replace("] h", "] x").replace("(c,", "(n,");
        let graph = graph.replace("<float eps", "<float16 eps");
        check_pass_skip(pass().as_ref(), "`x` is of type float16", &graph);
    }
}
