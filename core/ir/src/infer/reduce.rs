//! Reductions.

use super::Rules;
use super::site::{InferContext, Shapes, axes, axis, one, unknown};
use crate::{Dim, Shape};

pub(super) const RULES: Rules = &[
    ("ArgMax", arg),
    ("ArgMin", arg),
    ("ReduceL1", reduce),
    ("ReduceL2", reduce),
    ("ReduceLogSum", reduce),
    ("ReduceLogSumExp", reduce),
    ("ReduceMax", reduce),
    ("ReduceMean", reduce),
    ("ReduceMin", reduce),
    ("ReduceProd", reduce),
    ("ReduceSum", reduce),
    ("ReduceSumSquare", reduce),
];

/// `shape` with the axes reduced to 1, or left out.
fn reduced(shape: &[Dim], axes: &[usize], keep: bool) -> Shape {
    let dims = shape.iter().enumerate();
    dims.filter_map(|(i, dim)| match (axes.contains(&i), keep) {
        (false, _) => Some(dim.clone()),
        (true, true) => Some(Dim::Known(1)),
        (true, false) => None,
    })
    .collect()
}

pub(super) fn reduce(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let keep = site.int("keepdims", 1) != 0;
    let given = site.list_or_input("axes", 1);
    let over = match given {
        Some(list) if !list.is_empty() => axes(&list, shape.len())?,
        None if site.has(1) => {
            // Which axes is not known; how many remain is.
            let rank = keep.then_some(shape.len());
            return Ok(vec![rank.map(|n| vec![Dim::Unknown; n])]);
        }
        _ if site.int("noop_with_empty_axes", 0) != 0 => return one(shape.to_vec()),
        _ => (0..shape.len()).collect(),
    };
    one(reduced(shape, &over, keep))
}

fn arg(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let over = axis(site.int("axis", 0), shape.len())?;
    one(reduced(shape, &[over], site.int("keepdims", 1) != 0))
}
