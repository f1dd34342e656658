//! Pooling.

use super::Rules;
use super::conv::{Window, channels_first};
use super::site::{InferContext, Shapes, axis, one, show, unknown};
use crate::{Dim, Shape};

pub(super) const RULES: Rules = &[
    ("AveragePool", pool),
    ("GlobalAveragePool", global),
    ("GlobalLpPool", global),
    ("GlobalMaxPool", global),
    ("LpPool", pool),
    ("MaxPool", pool),
    ("MaxRoiPool", roi),
    ("MaxUnpool", max_unpool),
    ("RoiAlign", roi_align),
];

fn kernel(site: &InferContext<'_>, x: &[Dim]) -> Result<Shape, String> {
    let sizes = site.list("kernel_shape").unwrap_or_default();
    let kernel: Shape = sizes.iter().copied().map(Dim::Known).collect();
    match kernel.len() + 2 == x.len() {
        true => Ok(kernel),
        false => Err(format!("the kernel {} does not fit the input {}", show(&kernel), show(x))),
    }
}

/// Also for the indices that MaxPool may give.
fn pool(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    pool_of(site, x)
}

/// For an input of shape `x`.
pub(super) fn pool_of(site: &InferContext<'_>, x: &[Dim]) -> Shapes {
    let (n, c, spatial) = channels_first(x)?;
    let window = Window::from_node(site, &kernel(site, x)?)?;
    let ceil = site.int("ceil_mode", 0) != 0;
    let mut out = vec![n.clone(), c.clone()];
    for (i, size) in spatial.iter().enumerate() {
        out.push(window.positions(i, size, ceil)?);
    }
    Ok(vec![Some(out); 2])
}

fn global(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    global_of(x)
}

/// For an input of shape `x`.
pub(super) fn global_of(x: &[Dim]) -> Shapes {
    let (n, c, spatial) = channels_first(x)?;
    let mut out = vec![n.clone(), c.clone()];
    out.resize(2 + spatial.len(), Dim::Known(1));
    one(out)
}

fn roi(site: &InferContext<'_>) -> Shapes {
    let (Some(x), Some(rois)) = (site.shape(0), site.shape(1)) else { return unknown() };
    axis(0, rois.len())?;
    let (_, c, _) = channels_first(x)?;
    let pooled = site.list("pooled_shape").unwrap_or_default();
    let sizes = pooled.iter().copied().map(Dim::Known);
    one([rois[0].clone(), c.clone()].into_iter().chain(sizes).collect())
}

fn roi_align(site: &InferContext<'_>) -> Shapes {
    let (Some(x), Some(rois)) = (site.shape(0), site.shape(1)) else { return unknown() };
    axis(0, rois.len())?;
    let (_, c, _) = channels_first(x)?;
    let size = |name: &str| Dim::Known(site.int(name, 1));
    one(vec![rois[0].clone(), c.clone(), size("output_height"), size("output_width")])
}

fn max_unpool(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    if site.has(2) {
        return Ok(vec![Some(site.sizes(2).unwrap_or_else(|| vec![Dim::Unknown; x.len()]))]);
    }
    let (n, c, spatial) = channels_first(x)?;
    let window = Window::from_node(site, &kernel(site, x)?)?;
    let sizes = spatial.iter().enumerate().map(|(i, size)| window.spread(i, size, 0));
    one([n.clone(), c.clone()].into_iter().chain(sizes).collect())
}
