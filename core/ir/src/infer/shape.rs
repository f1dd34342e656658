//! Shape, layout and type of tensors.

use super::Rules;
use super::activation::same;
use super::site::{
    InferContext, RANK_MAX, Shapes, axes, axis, both, broadcast, one, plus, product, ratio, show,
    times, unknown,
};
use super::symbolic;
use crate::{Dim, Shape};
use onnxd_diagnostics::refuse;

pub(super) const RULES: Rules = &[
    ("Cast", same),
    ("CastLike", same),
    ("Concat", concat),
    ("ConstantOfShape", |site| Ok(vec![site.data(0).map(|d| d.items).or(ranked(site, 0))])),
    ("DepthToSpace", depth_to_space),
    ("Expand", expand),
    ("EyeLike", same),
    ("Flatten", flatten),
    ("Identity", same),
    ("Pad", pad),
    ("RandomNormal", random),
    ("RandomNormalLike", same),
    ("RandomUniform", random),
    ("RandomUniformLike", same),
    ("Reshape", reshape),
    ("Shape", shape),
    ("Size", |_| one(vec![])),
    ("SpaceToDepth", space_to_depth),
    ("Split", split),
    ("Squeeze", squeeze),
    ("Tile", tile),
    ("Transpose", transpose),
    ("Trilu", same),
    ("Unsqueeze", unsqueeze),
];

/// Unknown sizes, as many as input `i` (a shape) has elements.
pub(super) fn ranked(site: &InferContext<'_>, i: usize) -> Option<Shape> {
    let [Dim::Known(rank)] = site.shape(i)? else { return None };
    let rank = usize::try_from(*rank).ok().filter(|rank| *rank <= RANK_MAX)?;
    Some(vec![Dim::Unknown; rank])
}

/// The sizes that `Shape` gives.
pub(super) fn shape_slice<'a>(site: &InferContext<'a>) -> Option<&'a [Dim]> {
    let shape = site.shape(0)?;
    let rank = shape.len() as i64;
    let clamp = |x: i64| (if x < 0 { x.saturating_add(rank) } else { x }).clamp(0, rank) as usize;
    let (start, end) = (clamp(site.int("start", 0)), clamp(site.int("end", rank)));
    Some(shape.get(start..end).unwrap_or_default())
}

fn shape(site: &InferContext<'_>) -> Shapes {
    one(vec![shape_slice(site).map_or(Dim::Unknown, |s| Dim::Known(s.len() as i64))])
}

fn concat(site: &InferContext<'_>) -> Shapes {
    let mut out: Option<Shape> = None;
    for i in 0..site.node.inputs.len() {
        let Some(shape) = site.shape(i) else { return unknown() };
        let at = axis(site.int("axis", 1), shape.len())?;
        let Some(so_far) = &mut out else {
            out = Some(shape.to_vec());
            continue;
        };
        let wrong = || format!("{} does not fit {} at axis {at}", show(shape), show(so_far));
        refuse!(so_far.len() != shape.len() => wrong());
        let dims = so_far.iter().zip(shape).enumerate();
        let joined = dims.map(|(k, (a, b))| if k == at { Some(plus(a, b)) } else { both(a, b) });
        let joined: Option<Shape> = joined.collect();
        *so_far = joined.ok_or_else(wrong)?;
    }
    Ok(vec![out])
}

fn flatten(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = site.int("axis", 1);
    // The axis may also lie behind the last one.
    let at = if at == shape.len() as i64 { shape.len() } else { axis(at, shape.len())? };
    one(vec![product(&shape[..at]), product(&shape[at..])])
}

fn reshape(site: &InferContext<'_>) -> Shapes {
    let given = match site.list("shape") {
        Some(list) => Some(list.iter().copied().map(Dim::Known).collect::<Shape>()),
        None => site.data(1).map(|d| d.items),
    };
    let Some(wanted) = given else { return Ok(vec![ranked(site, 1)]) };
    let input = site.shape(0);
    let copies = site.int("allowzero", 0) == 0;
    let mut out: Shape = Vec::with_capacity(wanted.len());
    let mut open = None;
    for (i, size) in wanted.iter().enumerate() {
        out.push(match size {
            Dim::Known(-1) if open.is_none() => {
                open = Some(i);
                Dim::Known(1)
            }
            Dim::Known(0) if copies => match input.map(|s| s.get(i)) {
                Some(Some(dim)) => dim.clone(),
                Some(None) => return Err(format!("size {i} is 0, but the input has no axis {i}")),
                None => Dim::Unknown,
            },
            Dim::Known(..0) => return Err(format!("{} is no shape", show(&wanted))),
            size => size.clone(),
        });
    }
    // A size that is not known follows from the others, whatever it says.
    let unknown: Vec<usize> = (0..out.len()).filter(|i| out[*i] == Dim::Unknown).collect();
    match unknown[..] {
        [i] if open.is_none() => {
            open = Some(i);
            out[i] = Dim::Known(1);
        }
        _ => {}
    }
    let wrong = |input: &[Dim]| format!("{} cannot become {}", show(input), show(&wanted));
    match (open, input) {
        (Some(i), Some(input)) => {
            out[i] = quotient(input, &out).map_err(|()| wrong(input))?;
        }
        (Some(i), None) => out[i] = Dim::Unknown,
        (None, Some(input)) => {
            refuse!(both(&product(input), &product(&out)).is_none() => wrong(input));
        }
        (None, None) => {}
    }
    one(out)
}

/// Product of `all` by product of `part`; an error if that is no whole number.
fn quotient(all: &[Dim], part: &[Dim]) -> Result<Dim, ()> {
    let mut rest: Shape = all.to_vec();
    let mut by = Dim::Known(1);
    for dim in part {
        match rest.iter().position(|s| s.known().is_none() && s.same(dim)) {
            Some(i) => drop(rest.swap_remove(i)),
            None => by = times(&by, dim),
        }
    }
    match (product(&rest), by) {
        (_, Dim::Known(0)) => Ok(Dim::Unknown),
        (Dim::Known(all), Dim::Known(by)) if all % by != 0 => Err(()),
        (all, by) => Ok(symbolic::exact(&all, &by).unwrap_or_else(|| symbolic::floor(&all, &by))),
    }
}

fn transpose(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let Some(perm) = site.list("perm") else {
        return one(shape.iter().rev().cloned().collect());
    };
    let order = axes(perm, shape.len())?;
    let mut sorted = order.clone();
    sorted.sort_unstable();
    refuse!(!sorted.into_iter().eq(0..shape.len()) => "{perm:?} is no permutation of the axes of {}", show(shape));
    one(order.into_iter().map(|a| shape[a].clone()).collect())
}

fn squeeze(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let gone = match site.list_or_input("axes", 1) {
        Some(list) => axes(&list, shape.len())?,
        // Several axes may be the same one.
        None if ranked(site, 1).is_some_and(|axes| axes.len() == 1) && !shape.is_empty() => {
            return one(vec![Dim::Unknown; shape.len() - 1]);
        }
        None if site.has(1) || shape.iter().any(|d| d.known().is_none()) => return unknown(),
        None => (0..shape.len()).filter(|i| shape[*i] == Dim::Known(1)).collect(),
    };
    refuse!(let Some(a) = gone.iter().find(|a| shape[**a].known().is_some_and(|n| n != 1)) =>
        "axis {a} of {} is not of size 1", show(shape));
    let kept = shape.iter().enumerate().filter(|(i, _)| !gone.contains(i));
    one(kept.map(|(_, dim)| dim.clone()).collect())
}

fn unsqueeze(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let Some(list) = site.list_or_input("axes", 1) else {
        let more = ranked(site, 1).map(|axes| axes.len());
        return Ok(vec![more.map(|more| vec![Dim::Unknown; shape.len() + more])]);
    };
    if list.len() > RANK_MAX {
        return unknown();
    }
    let mut new = axes(&list, shape.len() + list.len())?;
    new.sort_unstable();
    refuse!(new.windows(2).any(|pair| pair[0] == pair[1]) => "an axis is given twice");
    let mut out = shape.to_vec();
    new.into_iter().for_each(|a| out.insert(a, Dim::Known(1)));
    one(out)
}

fn pad(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let over = match site.ints(3) {
        Some(list) => axes(&list, shape.len())?,
        None if site.has(3) => return one(vec![Dim::Unknown; shape.len()]),
        None => (0..shape.len()).collect(),
    };
    let pads = site.list("paddings").map(<[i64]>::to_vec);
    let Some(pads) = pads.or_else(|| site.list_or_input("pads", 1)) else {
        let mut out = shape.to_vec();
        over.iter().for_each(|a| out[*a] = Dim::Unknown);
        return one(out);
    };
    refuse!(pads.len() != 2 * over.len() => "{} pads do not fit {} axes", pads.len(), over.len());
    let mut out = shape.to_vec();
    for (k, a) in over.iter().enumerate() {
        let both_ends = pads[k].checked_add(pads[k + over.len()]);
        out[*a] = match (&shape[*a], both_ends) {
            (size, Some(0)) => size.clone(),
            (size, Some(p)) => plus(size, &Dim::Known(p)),
            _ => Dim::Unknown,
        };
    }
    one(out)
}

pub(super) fn split(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let at = axis(site.int("axis", 0), shape.len())?;
    let count = site.node.outputs.len();
    let sizes: Vec<Dim> = match site.list_or_input("split", 1) {
        Some(sizes) if sizes.len() != count => {
            return Err(format!("{} sizes do not fit {count} outputs", sizes.len()));
        }
        Some(sizes) => sizes.into_iter().map(Dim::Known).collect(),
        None if site.has(1) => vec![Dim::Unknown; count],
        None => equal_parts(&shape[at], count),
    };
    if let (Dim::Known(whole), Some(parts)) =
        (&shape[at], sizes.iter().map(Dim::known).collect::<Option<Vec<_>>>())
        && parts.iter().try_fold(0i64, |sum, n| sum.checked_add(*n)) != Some(*whole)
    {
        return Err(format!("the parts {parts:?} do not add up to the {whole} of axis {at}"));
    }
    let with = |size: Dim| {
        let mut out = shape.to_vec();
        out[at] = size;
        Some(out)
    };
    Ok(sizes.into_iter().map(with).collect())
}

/// Parts of equal size, the last one smaller if need be.
fn equal_parts(whole: &Dim, count: usize) -> Vec<Dim> {
    let Ok(n) = i64::try_from(count) else { return vec![Dim::Unknown; count] };
    let Some(whole) = whole.known() else {
        let part = symbolic::exact(whole, &Dim::Known(n)).unwrap_or(Dim::Unknown);
        return vec![part; count];
    };
    let part = whole.checked_add(n - 1).map_or(0, |w| w / n.max(1));
    let mut left = whole;
    let mut parts = Vec::with_capacity(count);
    for _ in 0..count {
        let size = part.min(left);
        left -= size;
        parts.push(Dim::Known(size));
    }
    parts
}

fn tile(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let Some(repeats) = site.sizes(1).filter(|_| site.opset >= 6) else {
        return one(vec![Dim::Unknown; shape.len()]);
    };
    refuse!(repeats.len() != shape.len() => "{} repeats do not fit {}", repeats.len(), show(shape));
    one(shape.iter().zip(&repeats).map(|(a, b)| times(a, b)).collect())
}

fn expand(site: &InferContext<'_>) -> Shapes {
    let (Some(shape), Some(to)) = (site.shape(0), site.sizes(1)) else {
        return Ok(vec![site.shape(0).and(expanded_rank(site))]);
    };
    one(broadcast(shape, &to)?)
}

/// Unknown sizes where only the rank of the wanted shape is known.
fn expanded_rank(site: &InferContext<'_>) -> Option<Shape> {
    broadcast(site.shape(0)?, &ranked(site, 1)?).ok()
}

fn random(site: &InferContext<'_>) -> Shapes {
    let shape = site.list("shape");
    Ok(vec![shape.map(|s| s.iter().copied().map(Dim::Known).collect())])
}

/// An image, and the size of the blocks that its channels fold into.
struct Blocks<'a> {
    dims: &'a [Dim; 4],
    size: Dim,
    area: i64,
}

fn blocks<'a>(site: &InferContext<'a>) -> Result<Option<Blocks<'a>>, String> {
    let Some(shape) = site.shape(0) else { return Ok(None) };
    let dims = <&[Dim; 4]>::try_from(shape);
    let dims = dims.map_err(|_| format!("{} has not four axes", show(shape)))?;
    let size = site.int("blocksize", 0);
    let area = size.checked_mul(size).filter(|_| size > 0);
    let area = area.ok_or_else(|| format!("`blocksize` is {size}"))?;
    Ok(Some(Blocks { dims, size: Dim::Known(size), area }))
}

fn depth_to_space(site: &InferContext<'_>) -> Shapes {
    let Some(Blocks { dims: [n, c, h, w], size, area }) = blocks(site)? else { return unknown() };
    one(vec![n.clone(), ratio(c, &Dim::Known(area))?, times(h, &size), times(w, &size)])
}

fn space_to_depth(site: &InferContext<'_>) -> Shapes {
    let Some(Blocks { dims: [n, c, h, w], size, area }) = blocks(site)? else { return unknown() };
    one(vec![n.clone(), times(c, &Dim::Known(area)), ratio(h, &size)?, ratio(w, &size)?])
}
