//! Small tensors of whole numbers followed through the graph: how exporters compute shapes.
//!
//! Also truth values, and whole numbers in floating point.

use super::range::{range_len, slice_indices};
use super::site::{Data, ELEMENTS_MAX, InferContext, axis, data_of};
use super::symbolic::{self, difference, is_natural, named, product, sum};
use crate::{Attr, DataType, Dim};

/// The elements of the node's outputs, as far as they follow from what is known.
pub(super) fn elements_of(site: &InferContext<'_>) -> Vec<Option<Data>> {
    if !site.node.is_standard() {
        return vec![];
    }
    match site.node.op.as_str() {
        "Split" => split(site).unwrap_or_default(),
        _ => vec![first(site)],
    }
}

fn first(site: &InferContext<'_>) -> Option<Data> {
    match site.node.op.as_str() {
        "Constant" => constant(site),
        "Shape" => Some(Data { scalar: false, items: super::shape::shape_slice(site)?.to_vec() }),
        "Size" => Some(Data { scalar: true, items: vec![super::site::product(site.shape(0)?)] }),
        "Identity" => site.data(0),
        "Ceil" => elementwise(site, &|x| symbolic::rounded(x[0], true)),
        "Floor" => elementwise(site, &|x| symbolic::rounded(x[0], false)),
        "Round" => elementwise(site, &|x| match symbolic::divided(x[0]) {
            Some(_) => Dim::Unknown,
            None => x[0].clone(),
        }),
        "Cast" => cast(site),
        "CastLike" => site.data(0).filter(|_| site.dtype(0) == site.dtype(1)),
        "Gather" => gather(site),
        "Concat" => concat(site),
        "Slice" => slice(site),
        "Squeeze" => site.data(0).filter(|d| d.items.len() == 1).map(|d| reshaped(d, true)),
        // More axes than one hold no list.
        "Unsqueeze" if site.list_or_input("axes", 1).is_some_and(|axes| axes.len() == 1) => {
            site.data(0).filter(|d| d.scalar).map(|d| reshaped(d, false))
        }
        "Reshape" => {
            let rank = match site.list("shape") {
                Some(list) => list.len(),
                None => site.data(1)?.items.len(),
            };
            site.data(0).filter(|_| rank < 2).map(|d| reshaped(d, rank == 0))
        }
        "Flatten" | "Transpose" if site.shape(0).is_none_or(|s| s.len() != 1) => None,
        "Transpose" => site.data(0),
        "Range" => range(site),
        "ConstantOfShape" => constant_of_shape(site),
        "Expand" => expand(site),
        "Where" => elementwise(site, &|x| match x[0] {
            Dim::Known(0) => x[2].clone(),
            Dim::Known(_) => x[1].clone(),
            _ if x[1].same(x[2]) => x[1].clone(),
            _ => Dim::Unknown,
        }),
        "ReduceMax" => reduced(site, &symbolic::max),
        "ReduceMin" => reduced(site, &min),
        "ReduceProd" => reduced(site, &product),
        "ReduceSum" => reduced(site, &sum),
        op => arithmetic(site, op),
    }
}

fn arithmetic(site: &InferContext<'_>, op: &str) -> Option<Data> {
    let real = site.dtype(0).is_some_and(DataType::is_float);
    let fold = |f: fn(&Dim, &Dim) -> Dim| {
        elementwise(site, &move |x| x[1..].iter().fold(x[0].clone(), |a, b| f(&a, b)))
    };
    match op {
        "Abs" => site.data(0).filter(|d| d.items.iter().all(is_natural)),
        "Neg" => elementwise(site, &|x| product(x[0], &Dim::Known(-1))),
        "Add" | "Sum" => fold(sum),
        "Sub" => fold(difference),
        "Mul" if real => fold(real_product),
        "Mul" => fold(product),
        "Div" if real => fold(|a, b| match b.known() {
            Some(by @ 1..) => symbolic::fraction(a, by),
            _ => symbolic::exact(a, b).unwrap_or(Dim::Unknown),
        }),
        "Div" => fold(quotient),
        "Mod" if !real => fold(remainder),
        "Min" => fold(min),
        "Max" => fold(symbolic::max),
        "Not" => elementwise(site, &|x| truth(x[0].known().map(|x| x == 0))),
        "And" => fold(|a, b| match (a.known(), b.known()) {
            (Some(0), _) | (_, Some(0)) => Dim::Known(0),
            (a, b) => truth(a.and(b).map(|_| true)),
        }),
        "Or" => fold(|a, b| match (a.known(), b.known()) {
            (Some(1), _) | (_, Some(1)) => Dim::Known(1),
            (a, b) => truth(a.and(b).map(|_| false)),
        }),
        "Equal" => fold(|a, b| truth(order(a, b, &|d| d == 0))),
        "Less" => fold(|a, b| truth(order(a, b, &|d| d < 0))),
        "LessOrEqual" => fold(|a, b| truth(order(a, b, &|d| d <= 0))),
        "Greater" => fold(|a, b| truth(order(a, b, &|d| d > 0))),
        "GreaterOrEqual" => fold(|a, b| truth(order(a, b, &|d| d >= 0))),
        _ => None,
    }
}

fn truth(known: Option<bool>) -> Dim {
    known.map_or(Dim::Unknown, |x| Dim::Known(i64::from(x)))
}

/// What `test` says of `a - b`, if it says the same for all sizes.
fn order(a: &Dim, b: &Dim, test: &dyn Fn(i64) -> bool) -> Option<bool> {
    let less = || symbolic::is_positive(&difference(b, a));
    match difference(a, b) {
        Dim::Known(d) => Some(test(d)),
        more if symbolic::is_positive(&more) && test(1) == test(i64::MAX) => Some(test(1)),
        more if is_natural(&more) && test(0) == test(1) => Some(test(0)),
        _ if less() => Some(test(-1)),
        _ => None,
    }
}

fn min(a: &Dim, b: &Dim) -> Dim {
    let natural = is_natural(a) && is_natural(b);
    match (a, b) {
        (Dim::Known(x), Dim::Known(y)) => Dim::Known(*x.min(y)),
        (Dim::Known(..0), other) | (other, Dim::Known(..0)) if is_natural(other) => {
            let known = a.known().or(b.known());
            known.map_or(Dim::Unknown, Dim::Known)
        }
        _ if natural => symbolic::min(a, b),
        _ => Dim::Unknown,
    }
}

/// As floating-point numbers: a number of halves, quarters and so on is exact.
fn real_product(a: &Dim, b: &Dim) -> Dim {
    let part = |(of, by): (Dim, i64), times: &Dim| match by.count_ones() {
        1 => symbolic::fraction(&product(&of, times), by),
        _ => Dim::Unknown,
    };
    match (symbolic::divided(a), symbolic::divided(b)) {
        (Some(a), None) => part(a, b),
        (None, Some(b)) => part(b, a),
        _ => product(a, b),
    }
}

/// Rounded toward zero.
fn quotient(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (_, Dim::Known(0)) => Dim::Unknown,
        (Dim::Known(a), Dim::Known(b)) => a.checked_div(*b).map_or(Dim::Unknown, Dim::Known),
        _ => symbolic::exact(a, b).unwrap_or_else(|| match is_natural(a) && is_natural(b) {
            true => symbolic::floor(a, b),
            false => Dim::Unknown,
        }),
    }
}

fn remainder(a: &Dim, b: &Dim) -> Dim {
    match (a, b) {
        (Dim::Known(0..), Dim::Known(1..)) | (_, Dim::Known(1)) => {
            let known = a.known().zip(b.known());
            known.and_then(|(a, b)| a.checked_rem(b)).map_or(Dim::Known(0), Dim::Known)
        }
        (a, Dim::Known(1..)) if symbolic::exact(a, b).is_some() => Dim::Known(0),
        (a, Dim::Known(1..)) => named("mod", a, b, true),
        _ => Dim::Unknown,
    }
}

fn reshaped(data: Data, scalar: bool) -> Data {
    Data { scalar: scalar && data.items.len() == 1, ..data }
}

/// Numbers keep their value where the type is wide enough.
fn cast(site: &InferContext<'_>) -> Option<Data> {
    use DataType::{Bool, Double, Float, Int32, Int64};
    let to = i32::try_from(site.int("to", 0)).ok().and_then(DataType::from_number)?;
    let data = site.data(0)?;
    match to {
        Float | Double => Some(data),
        // Toward zero; negative fractions are not rounded.
        Int64 | Int32 => elementwise(site, &|x| symbolic::rounded(x[0], false)),
        Bool => {
            let truth = |x: &Dim| match x {
                Dim::Known(n) => Dim::Known(i64::from(*n != 0)),
                x if symbolic::is_positive(x) => Dim::Known(1),
                _ => Dim::Unknown,
            };
            Some(Data { scalar: data.scalar, items: data.items.iter().map(truth).collect() })
        }
        _ => None,
    }
}

fn constant(site: &InferContext<'_>) -> Option<Data> {
    match site.node.attrs.first()? {
        (_, Attr::Tensor(tensor)) => data_of(tensor),
        (_, Attr::Int(x)) => Some(Data { scalar: true, items: vec![Dim::Known(*x)] }),
        (_, Attr::Ints(xs)) => {
            Some(Data { scalar: false, items: xs.iter().copied().map(Dim::Known).collect() })
        }
        _ => None,
    }
}

fn gather(site: &InferContext<'_>) -> Option<Data> {
    let (data, at) = (site.data(0)?, site.data(1)?);
    if data.scalar || axis(site.int("axis", 0), 1) != Ok(0) {
        return None;
    }
    let pick = |i: &Dim| Some(data.items[axis(i.known()?, data.items.len()).ok()?].clone());
    Some(Data { scalar: at.scalar, items: at.items.iter().map(pick).collect::<Option<_>>()? })
}

/// A part of unknown elements still has its place if its length is known.
fn concat(site: &InferContext<'_>) -> Option<Data> {
    let mut items = Vec::new();
    for i in 0..site.node.inputs.len() {
        match site.data(i).filter(|d| !d.scalar) {
            Some(data) => items.extend(data.items),
            None => match site.shape(i)? {
                [Dim::Known(n)] if *n <= ELEMENTS_MAX as i64 => {
                    items.resize(items.len() + usize::try_from(*n).ok()?, Dim::Unknown);
                }
                _ => return None,
            },
        }
        if items.len() > ELEMENTS_MAX {
            return None;
        }
    }
    Some(Data { scalar: false, items })
}

fn slice(site: &InferContext<'_>) -> Option<Data> {
    let data = site.data(0).filter(|d| !d.scalar)?;
    let start = *site.list_or_input("starts", 1)?.first()?;
    let end = *site.list_or_input("ends", 2)?.first()?;
    let step = if site.has(4) { *site.ints(4)?.first()? } else { 1 };
    let range = slice_indices(data.items.len() as i64, start, end, step)?;
    Some(Data { scalar: false, items: range.map(|i| data.items[i].clone()).collect() })
}

fn split(site: &InferContext<'_>) -> Option<Vec<Option<Data>>> {
    let data = site.data(0).filter(|d| !d.scalar)?;
    let shapes = super::shape::split(site).ok()?;
    let mut left = data.items.into_iter();
    let mut take = |shape: &[Dim]| {
        let [Dim::Known(n)] = shape else { return None };
        Some(Data { scalar: false, items: left.by_ref().take(usize::try_from(*n).ok()?).collect() })
    };
    Some(shapes.into_iter().map_while(|s| take(&s?).map(Some)).collect())
}

fn elementwise(site: &InferContext<'_>, f: &dyn Fn(&[&Dim]) -> Dim) -> Option<Data> {
    let operands: Vec<Data> =
        (0..site.node.inputs.len()).map(|i| site.data(i)).collect::<Option<_>>()?;
    let lengths = || operands.iter().map(|d| d.items.len());
    let count = lengths().find(|n| *n != 1).or(lengths().next())?;
    if lengths().any(|n| n != 1 && n != count) {
        return None;
    }
    let at = |i: usize| -> Vec<&Dim> {
        operands.iter().map(|d| &d.items[if d.items.len() == 1 { 0 } else { i }]).collect()
    };
    let items = (0..count).map(|i| f(&at(i))).collect();
    Some(Data { scalar: operands.iter().all(|d| d.scalar), items })
}

/// All elements of a vector as one.
fn reduced(site: &InferContext<'_>, f: &dyn Fn(&Dim, &Dim) -> Dim) -> Option<Data> {
    let data = site.data(0).filter(|d| !d.scalar)?;
    let all = site.list_or_input("axes", 1).is_some_and(|axes| !axes.is_empty());
    if !all && (site.has(1) || site.int("noop_with_empty_axes", 0) != 0) {
        return None;
    }
    let total = data.items.into_iter().reduce(|a, b| f(&a, &b))?;
    Some(Data { scalar: site.int("keepdims", 1) == 0, items: vec![total] })
}

fn constant_of_shape(site: &InferContext<'_>) -> Option<Data> {
    let shape = site.ints(0).filter(|s| s.len() <= 1)?;
    let count = shape.first().copied().unwrap_or(1);
    let count = usize::try_from(count).ok().filter(|n| *n <= ELEMENTS_MAX)?;
    let value = match site.node.attr("value") {
        Some(Attr::Tensor(value)) => data_of(value)?.items.into_iter().next()?,
        _ => Dim::Known(0),
    };
    Some(Data { scalar: shape.is_empty(), items: vec![value; count] })
}

fn expand(site: &InferContext<'_>) -> Option<Data> {
    let data = site.data(0).filter(|d| d.items.len() == 1)?;
    match site.ints(1)?[..] {
        [] => Some(data),
        [n] => {
            let count = usize::try_from(n).ok().filter(|n| *n <= ELEMENTS_MAX)?;
            Some(Data { scalar: false, items: vec![data.items[0].clone(); count] })
        }
        _ => None,
    }
}

fn range(site: &InferContext<'_>) -> Option<Data> {
    let number = |i: usize| site.ints(i)?.first().copied();
    let (start, stop, step) = (number(0)?, number(1)?, number(2)?);
    let count = range_len(start, stop, step).known().filter(|n| *n <= ELEMENTS_MAX as i64)?;
    let item = |i: i64| Some(Dim::Known(start.checked_add(i.checked_mul(step)?)?));
    Some(Data { scalar: false, items: (0..count).map(item).collect::<Option<_>>()? })
}
