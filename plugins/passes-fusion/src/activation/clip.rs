//! Makes one Clip of several operators that bound the same value: Max and Min with a number, Relu, Clip.
//!
//! ```onnx
//! before (float[2,3] x) => (float[2,3] y)
//! <float low = {-0.5}, float high = {1.0}>
//! {
//!   a = Max(x, low)
//!   y = Min(high, a)
//! }
//! ```
//!
//! becomes
//!
//! ```onnx
//! after (float[2,3] x) => (float[2,3] y)
//! <float y_min = {-0.5}, float y_max = {1.0}>
//! {
//!   y = Clip(x, y_min, y_max)
//! }
//! ```

use crate::parts::{PatternNodes, of_type, unlike};
use onnxd_plugin_sdk::build::Operand;
use onnxd_plugin_sdk::ir::ops::{Clip, Max, Min, Relu};
use onnxd_plugin_sdk::ir::{At, Attr, DataType, ValueId};
use onnxd_plugin_sdk::rewrite::{Pass, Rewrite, Rewriter, Skip, rule, rules};

/// Smaller whole numbers are exact in `f64`.
const EXACT_MAX: f64 = 9_007_199_254_740_992.0;

/// The first operator set in which Clip takes integers.
const CLIP_INTEGERS: i64 = 12;

pub(crate) fn pass() -> Box<dyn Pass> {
    rules(
        "fuse-clip",
        vec![
            rule("minimum", |cx, at: At<Min>| clip(cx, at.out)),
            rule("maximum", |cx, at: At<Max>| clip(cx, at.out)),
            rule("clip", |cx, at: At<Clip>| clip(cx, at.out)),
            rule("relu", |cx, at: At<Relu>| clip(cx, at.out)),
        ],
    )
}

/// `x` between bounds.
pub(crate) struct Interval {
    pub(crate) x: ValueId,
    pub(crate) low: Option<f64>,
    pub(crate) high: Option<f64>,
}

fn clip(cx: &mut Rewriter, out: ValueId) -> Rewrite {
    let parts = PatternNodes::from_root(cx, out);
    let outer = interval(&parts, out)?;
    cx.read_once(outer.x).map_err(|_| unlike())?;
    let inner = interval(&parts, outer.x)?;
    parts.closed()?;
    let low = wider(inner.low, outer.low, f64::max);
    let high = wider(inner.high, outer.high, f64::min);
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        return Skip::because(format!("nothing is above {low} and below {high}"));
    }
    let x = inner.x;
    if low.is_none() || high.is_none() {
        return Skip::because("it is bounded on one side only");
    }
    of_type(
        cx,
        x,
        &[DataType::Float, DataType::Double, DataType::Float16, DataType::Int32, DataType::Int64],
    )?;
    let dtype = cx.dtype(x)?;
    if dtype != DataType::Float && cx.opset < CLIP_INTEGERS {
        return Skip::because(format!(
            "in opset {} Clip takes no bounds of type {dtype}",
            cx.opset
        ));
    }
    if dtype.is_integer() && [low, high].iter().flatten().any(|b| b.abs() >= EXACT_MAX) {
        return Skip::because("a bound is too large to be compared");
    }
    let bound = |bound: Option<f64>| match (bound, dtype.is_integer()) {
        (Some(b), true) => Operand::Int(b as i64),
        (Some(b), false) => Operand::Float(b),
        (None, _) => Operand::Absent,
    };
    let (low, high) = (bound(low), bound(high));
    cx.rebuild(out, |b| b.clip(x).min(low).max(high).one())
}

fn wider(a: Option<f64>, b: Option<f64>, f: fn(f64, f64) -> f64) -> Option<f64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(f(a, b)),
        (a, b) => a.or(b),
    }
}

/// `v` as what one operator bounds by numbers.
pub(crate) fn interval(parts: &PatternNodes, v: ValueId) -> Result<Interval, Skip> {
    let relu = || Ok(Interval { x: parts.unary("Relu", v)?, low: Some(0.0), high: None });
    let max = || {
        let (x, c) = parts.with_number("Max", v)?;
        Ok(Interval { x, low: Some(c), high: None })
    };
    let min = || {
        let (x, c) = parts.with_number("Min", v)?;
        Ok(Interval { x, low: None, high: Some(c) })
    };
    let found = parts.attempt(relu).or_else(|_| parts.attempt(max));
    let found =
        found.or_else(|_| parts.attempt(min)).or_else(|_| parts.attempt(|| of_clip(parts, v)))?;
    let is_nan = |bound: Option<f64>| bound.is_some_and(f64::is_nan);
    match is_nan(found.low) || is_nan(found.high) {
        true => Skip::because("a bound is not a number"),
        false => Ok(found),
    }
}

fn of_clip(parts: &PatternNodes, v: ValueId) -> Result<Interval, Skip> {
    let node = parts.node("Clip", v)?;
    let x = node.input(0).ok_or_else(unlike)?;
    let bound = |i: usize, name: &str| match (node.input(i), node.attr(name)) {
        (Some(bound), _) => parts.number(bound).map(Some).ok_or_else(unlike),
        (None, Some(Attr::Float(bound))) => Ok(Some(f64::from(*bound))),
        (None, Some(_)) => Skip::unlike(),
        (None, None) => Ok(None),
    };
    let (low, high) = (bound(1, "min")?, bound(2, "max")?);
    // Then the upper bound wins, whatever bounds there are around it.
    if let (Some(low), Some(high)) = (low, high)
        && low > high
    {
        return Skip::because(format!("Clip has the bounds {low} and {high}"));
    }
    Ok(Interval { x, low, high })
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::rewrite::check::{
        check_doc_example_of, check_pass_same, check_pass_skip,
    };

    #[test]
    fn doc_example() {
        check_doc_example_of(include_str!("clip.rs"), pass().as_ref());
    }

    fn model(body: &str) -> String {
        format!(
            "g (float[2,3] x) => (float[2,3] y) <float zero = {{0.0}}, float[1] one = {{1.0}}, float half = {{0.5}},
             float minus = {{-1.0}}, float nan = {{nan}}, float[1,1,1] wide = {{0.5}}> {{ {body} }}"
        )
    }

    #[test]
    fn all_forms() {
        for body in [
            "a = Min(one, x) y = Max(a, minus)", "a = Relu(x) y = Min(a, one)",
            "a = Clip(x, minus) b = Clip(a, , one) y = Max(half, b)",
            "a = Clip(x, minus, half) y = Relu(a)",
        ] {
            let fused = check_pass_same(pass().as_ref(), &model(body));
            assert_eq!(fused.graph.node_count(), 1, "{body}");
        }
    }

    #[test]
    fn whole_numbers() {
        let graph = "g (int64[2,3] x) => (int64[2,3] y) <int64 low = {-1}, int64 high = {1}>
            { a = Max(x, low) y = Min(a, high) }";
        assert_eq!(check_pass_same(pass().as_ref(), graph).graph.node_count(), 1);
        let large = graph.replace("{1}", "{9007199254740993}");
        check_pass_skip(pass().as_ref(), "a bound is too large to be compared", &large);
    }

    #[test]
    fn declined() {
        let check = |body: &str, why| check_pass_skip(pass().as_ref(), why, &model(body));
        check("a = Min(x, zero) y = Max(a, one)", "nothing is above 1 and below 0");
        check("a = Max(x, zero) y = Max(a, one)", "it is bounded on one side only");
        check("a = Max(x, minus) b = Min(a, one) y = Add(a, b)", "");
        let wide = model("a = Max(x, minus) y = Min(a, wide)");
        check_pass_skip(pass().as_ref(), "", &wide.replace("(float[2,3] y)", "(float[1,2,3] y)"));
    }
}
