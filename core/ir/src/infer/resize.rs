//! Resampling.

use super::Rules;
use super::site::{InferContext, Shapes, axes, sized, times, unknown};
use super::symbolic::floor;
use crate::{Attr, Dim, Shape, resize};

pub(super) const RULES: Rules = &[("Resize", resized), ("Upsample", upsample)];

fn resized(site: &InferContext<'_>) -> Shapes {
    let (scales, sizes) = if site.opset < 11 { (1, None) } else { (2, Some(3)) };
    let Some(x) = site.shape(0) else { return unknown() };
    let over = match site.list("axes") {
        Some(list) => axes(list, x.len())?,
        None => (0..x.len()).collect(),
    };
    if let Some(sizes) = sizes.filter(|i| site.has(*i)) {
        let wanted = site.sizes(sizes).map(|wanted| fitted(site, x, &over, wanted)).transpose()?;
        return apply(x, &over, wanted, "sizes", |_, wanted| wanted.clone());
    }
    let factors = reals(site, scales);
    apply(x, &over, factors, "scales", scaled)
}

/// The sizes of the axes `over` where `wanted` are asked for.
fn fitted(
    site: &InferContext<'_>,
    x: &[Dim],
    over: &[usize],
    wanted: Shape,
) -> Result<Shape, String> {
    let policy = site.text("keep_aspect_ratio_policy");
    if matches!(policy, "" | "stretch") || wanted.len() != over.len() {
        return Ok(wanted);
    }
    let known =
        |dims: &mut dyn Iterator<Item = &Dim>| dims.map(Dim::known).collect::<Option<Vec<i64>>>();
    let sizes = known(&mut over.iter().map(|axis| &x[*axis])).zip(known(&mut wanted.iter()));
    let Some((sizes, asked)) = sizes else { return Ok(vec![Dim::Unknown; wanted.len()]) };
    let made = resize::fitted(policy, &sizes, &asked)?;
    Ok(made.into_iter().map(|(size, _)| sized(Some(size))).collect())
}

fn upsample(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    let factors = match site.node.attr("scales") {
        Some(Attr::Floats(scales)) => Some(scales.iter().map(|s| f64::from(*s)).collect()),
        _ => reals(site, 1),
    };
    apply(x, &(0..x.len()).collect::<Vec<_>>(), factors, "scales", scaled)
}

fn reals(site: &InferContext<'_>, i: usize) -> Option<Vec<f64>> {
    Some(site.constant(i)?.to_reals()?.values)
}

fn scaled(size: &Dim, factor: &f64) -> Dim {
    match size {
        size if *factor == 1.0 => size.clone(),
        Dim::Known(n) => sized(resize::scaled(*n, *factor)),
        // A whole factor, or the half and so on, is exact also in f32.
        size if factor.fract() == 0.0 && (1.0..1e6).contains(factor) => {
            times(size, &Dim::Known(*factor as i64))
        }
        size if [0.5, 0.25, 0.125, 0.0625].contains(factor) => {
            floor(size, &Dim::Known((1.0 / factor) as i64))
        }
        _ => Dim::Unknown,
    }
}

/// The shape with `change` made along the axes `over`; unknown sizes if the changes are not known.
fn apply<T>(
    x: &[Dim],
    over: &[usize],
    changes: Option<Vec<T>>,
    name: &str,
    change: impl Fn(&Dim, &T) -> Dim,
) -> Shapes {
    let mut out: Shape = x.to_vec();
    let Some(changes) = changes else {
        over.iter().for_each(|a| out[*a] = Dim::Unknown);
        return Ok(vec![Some(out)]);
    };
    if changes.len() != over.len() {
        return Err(format!("`{name}` has {} elements for {} axes", changes.len(), over.len()));
    }
    for (axis, by) in over.iter().zip(&changes) {
        out[*axis] = change(&x[*axis], by);
    }
    Ok(vec![Some(out)])
}
