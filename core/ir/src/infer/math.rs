//! Elementwise arithmetic.

use super::Rules;
use super::activation::same;
use super::site::{InferContext, Shapes, broadcast, one, show, sized, unknown};
use crate::Dim;

pub(super) const RULES: Rules = &[
    ("Abs", same),
    ("Acos", same),
    ("Acosh", same),
    ("Add", binary),
    ("Asin", same),
    ("Asinh", same),
    ("Atan", same),
    ("Atanh", same),
    ("Bernoulli", same),
    ("BitCast", same),
    ("BitShift", binary),
    ("Ceil", same),
    ("Cos", same),
    ("Cosh", same),
    ("CumProd", same),
    ("CumSum", same),
    ("Det", determinant),
    ("Div", binary),
    ("Erf", same),
    ("Exp", same),
    ("Floor", same),
    ("Log", same),
    ("Max", variadic),
    ("Mean", variadic),
    ("Min", variadic),
    ("Mod", binary),
    ("Mul", binary),
    ("Multinomial", multinomial),
    ("Neg", same),
    ("Pow", binary),
    ("Reciprocal", same),
    ("Round", same),
    ("Sign", same),
    ("Sin", same),
    ("Sinh", same),
    ("Sqrt", same),
    ("Sub", binary),
    ("Sum", variadic),
    ("Tan", same),
];

/// Two inputs that broadcast. Before opset 7 the second one aligns with `axis` of the first.
pub(super) fn binary(site: &InferContext<'_>) -> Shapes {
    if site.opset < 7 { same(site) } else { variadic(site) }
}

/// Any number of inputs that broadcast.
pub(super) fn variadic(site: &InferContext<'_>) -> Shapes {
    let mut common = vec![];
    for i in 0..site.node.inputs.len() {
        let Some(shape) = site.shape(i) else { return unknown() };
        common = broadcast(&common, shape)?;
    }
    one(common)
}

fn determinant(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    match shape {
        [batch @ .., Dim::Known(m), Dim::Known(n)] if m == n => one(batch.to_vec()),
        [.., Dim::Known(_), Dim::Known(_)] | [] | [_] => {
            Err(format!("{} is no stack of square matrices", show(shape)))
        }
        [batch @ .., _, _] => one(batch.to_vec()),
    }
}

fn multinomial(site: &InferContext<'_>) -> Shapes {
    let batch = site.shape(0).and_then(|shape| shape.first()).cloned();
    one(vec![batch.unwrap_or(Dim::Unknown), sized(Some(site.int("sample_size", 1)))])
}
