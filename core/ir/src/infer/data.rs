//! Small integer tensors followed through the graph: how exporters compute shapes.

use super::site::{Data, Site, axis, data_of, plus, product, sized, times};
use crate::{Attr, DataType, Dim};

/// The elements of the node's first output, if they follow from what is known.
pub(super) fn of(site: &Site<'_>) -> Option<Data> {
    if !site.node.is_standard() {
        return None;
    }
    match site.node.op.as_str() {
        "Constant" => constant(site),
        "Shape" => Some(Data { scalar: false, items: super::shape::shape_slice(site)?.to_vec() }),
        "Size" => Some(Data { scalar: true, items: vec![product(site.shape(0)?)] }),
        "Identity" => site.data(0),
        "Cast" => {
            let integer = [DataType::Int64, DataType::Int32].map(|t| i64::from(t.number()));
            site.data(0).filter(|_| integer.contains(&site.int("to", 0)))
        }
        "Gather" => gather(site),
        "Concat" => concat(site),
        "Slice" => slice(site),
        "Squeeze" => site.data(0).filter(|d| d.items.len() == 1).map(|d| reshaped(d, true)),
        "Unsqueeze" => site.data(0).filter(|d| d.scalar).map(|d| reshaped(d, false)),
        "Reshape" => {
            let rank = site.ints(1)?.len();
            site.data(0).filter(|_| rank < 2).map(|d| reshaped(d, rank == 0))
        }
        "Add" => elementwise(site, plus),
        "Mul" => elementwise(site, times),
        "Sub" => elementwise(site, |a, b| number(a, b, i64::checked_sub)),
        // Sizes are not negative, so rounding toward zero and down is the same.
        "Div" => elementwise(site, |a, b| match (a, b) {
            (x, Dim::Known(1)) => x.clone(),
            _ => number(a, b, i64::checked_div),
        }),
        "Min" => elementwise(site, |a, b| number(a, b, |x, y| Some(x.min(y)))),
        "Max" => elementwise(site, |a, b| number(a, b, |x, y| Some(x.max(y)))),
        "ReduceProd" => {
            let scalar = site.int("keepdims", 1) == 0;
            Some(Data { scalar, items: vec![product(&site.data(0)?.items)] })
        }
        "ConstantOfShape" => constant_of_shape(site),
        _ => None,
    }
}

fn reshaped(data: Data, scalar: bool) -> Data {
    Data { scalar, ..data }
}

/// Numbers that are not sizes may be negative.
fn number(a: &Dim, b: &Dim, f: impl Fn(i64, i64) -> Option<i64>) -> Dim {
    let (Some(x), Some(y)) = (a.known(), b.known()) else { return Dim::Unknown };
    f(x, y).map_or(Dim::Unknown, Dim::Known)
}

fn constant(site: &Site<'_>) -> Option<Data> {
    match site.node.attrs.first()? {
        (_, Attr::Tensor(tensor)) => data_of(tensor),
        (_, Attr::Int(x)) => Some(Data { scalar: true, items: vec![Dim::Known(*x)] }),
        (_, Attr::Ints(xs)) => {
            Some(Data { scalar: false, items: xs.iter().copied().map(Dim::Known).collect() })
        }
        _ => None,
    }
}

fn gather(site: &Site<'_>) -> Option<Data> {
    let (data, at) = (site.data(0)?, site.data(1)?);
    if data.scalar || axis(site.int("axis", 0), 1) != Ok(0) {
        return None;
    }
    let pick = |i: &Dim| Some(data.items[axis(i.known()?, data.items.len()).ok()?].clone());
    Some(Data { scalar: at.scalar, items: at.items.iter().map(pick).collect::<Option<_>>()? })
}

fn concat(site: &Site<'_>) -> Option<Data> {
    let mut items = Vec::new();
    for i in 0..site.node.inputs.len() {
        items.extend(site.data(i).filter(|d| !d.scalar)?.items);
        if items.len() > super::site::ELEMENTS_MAX {
            return None;
        }
    }
    Some(Data { scalar: false, items })
}

fn slice(site: &Site<'_>) -> Option<Data> {
    let data = site.data(0).filter(|d| !d.scalar)?;
    let start = *site.list_or_input("starts", 1)?.first()?;
    let end = *site.list_or_input("ends", 2)?.first()?;
    let step = if site.has(4) { *site.ints(4)?.first()? } else { 1 };
    let range = super::index::range(data.items.len() as i64, start, end, step)?;
    Some(Data { scalar: false, items: range.map(|i| data.items[i].clone()).collect() })
}

fn elementwise(site: &Site<'_>, f: impl Fn(&Dim, &Dim) -> Dim) -> Option<Data> {
    if site.node.inputs.len() != 2 {
        return None;
    }
    let (a, b) = (site.data(0)?, site.data(1)?);
    let count = match (a.items.len(), b.items.len()) {
        (x, y) if x == y => x,
        (1, n) | (n, 1) => n,
        _ => return None,
    };
    let at = |data: &Data, i: usize| data.items[if data.items.len() == 1 { 0 } else { i }].clone();
    let items = (0..count).map(|i| f(&at(&a, i), &at(&b, i))).collect();
    Some(Data { scalar: a.scalar && b.scalar, items })
}

fn constant_of_shape(site: &Site<'_>) -> Option<Data> {
    let shape = site.ints(0).filter(|s| s.len() <= 1)?;
    let count = shape.first().copied().unwrap_or(1);
    let count = usize::try_from(count).ok().filter(|n| *n <= super::site::ELEMENTS_MAX)?;
    let Some(Attr::Tensor(value)) = site.node.attr("value") else { return None };
    let value = data_of(value)?.items.into_iter().next()?;
    Some(Data { scalar: shape.is_empty(), items: vec![value; count] })
}

/// `(stop - start) / step`, rounded up.
pub(super) fn range_len(start: i64, stop: i64, step: i64) -> Dim {
    let length = || {
        let distance = stop.checked_sub(start)?;
        let whole = distance.checked_div(step)?;
        let partial = distance.checked_rem(step)? != 0 && (distance < 0) == (step < 0);
        whole.max(0).checked_add(i64::from(partial))
    };
    sized(length())
}
