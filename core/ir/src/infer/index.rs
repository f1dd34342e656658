//! Selection by index.

use super::Rules;
use super::activation::same;
use super::data::range_len;
use super::site::{Shapes, Site, axes, axis, one, show, unknown};
use crate::{Dim, Shape};

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
];

/// Ends from here on mean "to the end".
const END: i64 = i32::MAX as i64;

/// Start, stop and step of a slice of an axis of size `len`, clamped as the standard says.
fn clamped(len: i64, start: i64, end: i64, step: i64) -> Option<(i64, i64)> {
    let from_front = |x: i64| if x < 0 { x.saturating_add(len) } else { x };
    let (start, end) = (from_front(start), from_front(end));
    match step {
        0 => None,
        1.. => Some((start.clamp(0, len), end.clamp(0, len))),
        _ if len == 0 => Some((0, 0)),
        _ => Some((start.clamp(0, len - 1), end.clamp(-1, len - 1))),
    }
}

/// The indices that a slice takes.
pub(super) fn range(
    len: i64,
    start: i64,
    end: i64,
    step: i64,
) -> Option<impl Iterator<Item = usize>> {
    let (first, stop) = clamped(len, start, end, step)?;
    let count = range_len(first, stop, step).known()?;
    Some((0..count).map(move |i| (first + i * step) as usize))
}

fn slice(site: &Site<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let (starts, ends) = (site.list_or_input("starts", 1), site.list_or_input("ends", 2));
    let over = match site.list_or_input("axes", 3) {
        Some(list) => axes(&list, shape.len())?,
        None if site.has(3) => return one(vec![Dim::Unknown; shape.len()]),
        None => (0..shape.len()).collect(),
    };
    let count = starts.as_ref().or(ends.as_ref()).map_or(over.len(), Vec::len);
    let mut steps = Some(vec![1; count]);
    if site.has(4) {
        steps = site.ints(4);
    }
    let (Some(starts), Some(ends), Some(steps)) = (starts, ends, steps) else {
        let mut out = shape.to_vec();
        over.iter().take(count).for_each(|a| out[*a] = Dim::Unknown);
        return one(out);
    };
    if starts.len() != ends.len() || starts.len() != steps.len() || over.len() < starts.len() {
        return Err("starts, ends, axes and steps have different lengths".to_owned());
    }
    let mut out = shape.to_vec();
    for (k, axis) in over.into_iter().take(count).enumerate() {
        let (start, end, step) = (starts[k], ends[k], steps[k]);
        out[axis] = match &shape[axis] {
            _ if step == 0 => return Err("a step is 0".to_owned()),
            Dim::Known(len) => clamped(*len, start, end, step)
                .map_or(Dim::Unknown, |(start, stop)| range_len(start, stop, step)),
            whole if start == 0 && end >= END && step == 1 => whole.clone(),
            _ => Dim::Unknown,
        };
    }
    one(out)
}

fn gather(site: &Site<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", 0), shape.len())?;
    let Some(indices) = site.shape(1) else { return unknown() };
    let (before, after) = (&shape[..at], &shape[at + 1..]);
    one([before, indices, after].concat())
}

fn gather_nd(site: &Site<'_>) -> Shapes {
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

fn compress(site: &Site<'_>) -> Shapes {
    if site.node.attr("axis").is_none() {
        return one(vec![Dim::Unknown]);
    }
    let Some(shape) = site.shape(0) else { return unknown() };
    let mut out = shape.to_vec();
    out[axis(site.int("axis", 0), shape.len())?] = Dim::Unknown;
    one(out)
}

fn non_zero(site: &Site<'_>) -> Shapes {
    let rank = site.shape(0).map_or(Dim::Unknown, |s| Dim::Known(s.len() as i64));
    one(vec![rank, Dim::Unknown])
}

fn one_hot(site: &Site<'_>) -> Shapes {
    let Some(indices) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", -1), indices.len() + 1)?;
    let depth = site.ints(1).and_then(|d| d.first().copied());
    let mut out: Shape = indices.to_vec();
    out.insert(at, depth.map_or(Dim::Unknown, Dim::Known));
    one(out)
}

fn range_rule(site: &Site<'_>) -> Shapes {
    let number = |i: usize| site.ints(i).and_then(|x| x.first().copied());
    let (Some(start), Some(stop), Some(step)) = (number(0), number(1), number(2)) else {
        return one(vec![Dim::Unknown]);
    };
    if step == 0 {
        return Err("the step is 0".to_owned());
    }
    one(vec![range_len(start, stop, step)])
}

fn top_k(site: &Site<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", -1), shape.len())?;
    let given = match site.node.attr("k") {
        Some(_) => Some(site.int("k", 0)),
        None => site.ints(1).and_then(|k| k.first().copied()),
    };
    let mut out = shape.to_vec();
    out[at] = given.map_or(Dim::Unknown, Dim::Known);
    Ok(vec![Some(out); 2])
}
