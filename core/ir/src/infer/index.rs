//! Selection by index.

use super::Rules;
use super::activation::same;
use super::range::{BEGIN, END, clamped, range_len};
use super::site::{
    InferContext, Shapes, axes, axis, first_of, minus, one, plus, product, show, unknown,
};
use super::symbolic::{floor, is_natural, less, min};
use crate::{Dim, Shape};
use onnxd_diagnostics::refuse;

pub(super) const RULES: Rules = &[
    ("Compress", compress),
    ("Gather", gather),
    ("GatherElements", |site| Ok(vec![site.shape(1).map(<[Dim]>::to_vec)])),
    ("GatherND", gather_nd),
    ("NonZero", non_zero),
    ("OneHot", one_hot),
    ("Range", range_rule),
    ("ReverseSequence", same),
    ("Scatter", same),
    ("ScatterElements", same),
    ("ScatterND", same),
    ("Slice", slice),
    ("TopK", top_k),
    ("Unique", unique),
];

/// Elements that a slice takes from an axis of size `len`; nothing is known of the others.
fn taken(len: &Dim, start: &Dim, end: &Dim, step: i64) -> Dim {
    if let (Dim::Known(len), Dim::Known(start), Dim::Known(end)) = (len, start, end) {
        let found = clamped(*len, *start, *end, step);
        return found.map_or(Dim::Unknown, |(start, stop)| range_len(start, stop, step));
    }
    let whole = matches!(end, Dim::Known(END..)) || end.same(len);
    match (start, end, step) {
        (Dim::Known(0), _, 1..) if whole => {
            floor(&plus(len, &Dim::Known(step - 1)), &Dim::Known(step))
        }
        (Dim::Known(-1), Dim::Known(..=BEGIN), -1) => len.clone(),
        (Dim::Known(n @ 1..), _, 1) if whole => less(len, &Dim::Known(*n)),
        (Dim::Known(n @ BEGIN..0), _, 1) if whole => min(len, &Dim::Known(-n)),
        (Dim::Known(0), Dim::Known(n @ BEGIN..0), 1) => less(len, &Dim::Known(-n)),
        (Dim::Known(0), end, 1) if is_natural(end) => min(len, end),
        (start, _, 1) if whole && is_natural(start) => less(len, start),
        _ => Dim::Unknown,
    }
}

fn slice(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let over = match site.list_or_input("axes", 3) {
        Some(list) => axes(&list, shape.len())?,
        None if site.has(3) => return one(vec![Dim::Unknown; shape.len()]),
        None => (0..shape.len()).collect(),
    };
    let bounds = |name: &str, i: usize| match site.list(name) {
        Some(list) => Some(list.iter().copied().map(Dim::Known).collect::<Shape>()),
        None => site.data(i).map(|d| d.items),
    };
    let (starts, ends) = (bounds("starts", 1), bounds("ends", 2));
    let count = starts.as_ref().or(ends.as_ref()).map_or(over.len(), Vec::len);
    let steps = if site.has(4) { site.ints(4) } else { Some(vec![1; count]) };
    let (starts, ends) = (starts.as_deref(), ends.as_deref());
    let lengths = [starts.map(<[Dim]>::len), ends.map(<[Dim]>::len), steps.as_ref().map(Vec::len)];
    refuse!(lengths.iter().flatten().any(|n| *n != count) || over.len() < count =>
        "starts, ends, axes and steps have different lengths");
    let mut out = shape.to_vec();
    for (k, axis) in over.into_iter().take(count).enumerate() {
        out[axis] = match (starts, ends, &steps) {
            (_, _, Some(steps)) if steps[k] == 0 => return Err("a step is 0".to_owned()),
            (Some(starts), Some(ends), Some(steps)) => {
                taken(&shape[axis], &starts[k], &ends[k], steps[k])
            }
            _ => Dim::Unknown,
        };
    }
    one(out)
}

fn gather(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", 0), shape.len())?;
    let Some(indices) = site.shape(1) else { return unknown() };
    let (before, after) = (&shape[..at], &shape[at + 1..]);
    one([before, indices, after].concat())
}

fn gather_nd(site: &InferContext<'_>) -> Shapes {
    let (Some(data), Some(indices)) = (site.shape(0), site.shape(1)) else { return unknown() };
    let Some((depth, outer)) = indices.split_last() else {
        return Err("the indices are a scalar".to_owned());
    };
    let batch = usize::try_from(site.int("batch_dims", 0)).map_err(|_| "`batch_dims` < 0")?;
    let Some(depth) = depth.known() else { return unknown() };
    let taken = usize::try_from(depth).ok().and_then(|d| d.checked_add(batch));
    match taken.and_then(|t| data.get(t..)) {
        Some(rest) => one([outer, rest].concat()),
        None => Err(format!("indices {} address too many axes of {}", show(indices), show(data))),
    }
}

fn compress(site: &InferContext<'_>) -> Shapes {
    if site.node.attr("axis").is_none() {
        return one(vec![Dim::Unknown]);
    }
    let Some(shape) = site.shape(0) else { return unknown() };
    let mut out = shape.to_vec();
    out[axis(site.int("axis", 0), shape.len())?] = Dim::Unknown;
    one(out)
}

fn non_zero(site: &InferContext<'_>) -> Shapes {
    let rank = site.shape(0).map_or(Dim::Unknown, |s| Dim::Known(s.len() as i64));
    one(vec![rank, Dim::Unknown])
}

fn one_hot(site: &InferContext<'_>) -> Shapes {
    let Some(indices) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", -1), indices.len() + 1)?;
    let depth = site.sizes(1).and_then(|d| d.into_iter().next());
    let mut out: Shape = indices.to_vec();
    out.insert(at, depth.unwrap_or(Dim::Unknown));
    one(out)
}

fn range_rule(site: &InferContext<'_>) -> Shapes {
    let [start, stop, step] = [0, 1, 2].map(|i| first_of(site, i).unwrap_or(Dim::Unknown));
    one(vec![match (&start, &stop, &step) {
        (_, _, Dim::Known(0)) => return Err("the step is 0".to_owned()),
        (Dim::Known(start), Dim::Known(stop), Dim::Known(step)) => range_len(*start, *stop, *step),
        (_, _, Dim::Known(1)) => {
            Some(minus(&stop, &start)).filter(is_natural).unwrap_or_else(|| {
                match is_natural(&start) && is_natural(&stop) {
                    true => less(&stop, &start),
                    false => Dim::Unknown,
                }
            })
        }
        _ => Dim::Unknown,
    }])
}

fn top_k(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", -1), shape.len())?;
    let given = match site.node.attr("k") {
        Some(_) => Some(Dim::Known(site.int("k", 0))),
        None => site.sizes(1).and_then(|k| k.into_iter().next()),
    };
    let mut out = shape.to_vec();
    out[at] = given.unwrap_or(Dim::Unknown);
    Ok(vec![Some(out); 2])
}

/// The values, then where they are found and how often: how many there are is not known.
fn unique(site: &InferContext<'_>) -> Shapes {
    let shape = site.shape(0);
    let (values, places) = match (shape, site.node.attr("axis")) {
        (Some(shape), Some(_)) => {
            let at = axis(site.int("axis", 0), shape.len())?;
            let mut out = shape.to_vec();
            out[at] = Dim::Unknown;
            (Some(out), shape[at].clone())
        }
        (None, Some(_)) => (None, Dim::Unknown),
        (shape, None) => (Some(vec![Dim::Unknown]), shape.map_or(Dim::Unknown, product)),
    };
    let count = Some(vec![Dim::Unknown]);
    Ok(vec![values, count.clone(), Some(vec![places]), count])
}
