//! Convolutions, and the sliding window that pooling shares.

use super::Rules;
use super::shape::ranked;
use super::site::{
    InferContext, RANK_MAX, Shapes, both, minus, one, plus, product, ratio, show, sized, times,
    unknown,
};
use super::symbolic::{self, floor};
use crate::window::{self, Padding, WindowAxis};
use crate::{Attr, Dim, Shape};

pub(super) const RULES: Rules = &[
    ("Col2Im", col2im),
    ("Conv", |site| conv(site, 1)),
    ("ConvInteger", |site| conv(site, 1)),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", |site| conv(site, 1)),
    ("QLinearConv", |site| conv(site, 3)),
];

/// A window whose sizes need not be known.
pub(super) struct Window {
    axes: Vec<WindowAxis>,
    /// Whether the standard's own inference counts windows that start beyond the input.
    counts_all: bool,
}

impl Window {
    pub(super) fn from_node(site: &InferContext<'_>, kernel: &[Dim]) -> Result<Window, String> {
        // A window without elements has no reach, and that of an unknown one is not known.
        let kernel: Vec<i64> = kernel.iter().map(|k| k.known().unwrap_or(0)).collect();
        let attr = |name: &str| site.node.attr(name).filter(|a| !matches!(a, Attr::Ref { .. }));
        Ok(Window { axes: window::axes(attr, &kernel)?, counts_all: site.opset < 22 })
    }

    /// Positions along spatial axis `i` of an input of size `input`.
    pub(super) fn positions(&self, i: usize, input: &Dim, ceil: bool) -> Result<Dim, String> {
        let axis = &self.axes[i];
        let stride = Dim::Known(axis.stride);
        match (input, axis.padding) {
            (Dim::Known(size), Padding::Explicit(_)) => self.known_positions(axis, *size, ceil),
            (_, Padding::SameUpper | Padding::SameLower) => {
                Ok(floor(&plus(input, &Dim::Known(axis.stride - 1)), &stride))
            }
            _ if ceil && axis.stride != 1 => Ok(Dim::Unknown),
            _ => Ok(axis.room(0).map_or(Dim::Unknown, |room| {
                plus(&floor(&plus(input, &Dim::Known(room)), &stride), &Dim::Known(1))
            })),
        }
    }

    fn known_positions(&self, axis: &WindowAxis, size: i64, ceil: bool) -> Result<Dim, String> {
        if let (Some(..0), Some(reach), Some(padded)) =
            (axis.room(size), axis.reach(), axis.padded(size))
        {
            return Err(format!("the kernel of {reach} does not fit the padded input of {padded}"));
        }
        // Runtimes leave such a window out, while inference of the standard counts it before opset 22.
        let unsure = ceil && self.counts_all && axis.ends_beyond(size);
        Ok(if unsure { Dim::Unknown } else { sized(axis.count(size, ceil)) })
    }

    /// Size of what a transpose convolution spreads `size` positions over.
    pub(super) fn spread(&self, i: usize, size: &Dim, extra: i64) -> Dim {
        let axis = &self.axes[i];
        let stride = Dim::Known(axis.stride);
        match (size, axis.padding) {
            (_, Padding::SameUpper | Padding::SameLower) => times(size, &stride),
            (Dim::Known(n), _) => sized(axis.transposed(*n, extra, None).map(|made| made.0)),
            _ => {
                // The room is the padding without the kernel; here the kernel comes without the padding.
                let Some(room) = axis.room(0) else { return Dim::Unknown };
                let steps = symbolic::product(&minus(size, &Dim::Known(1)), &stride);
                plus(&steps, &minus(&Dim::Known(extra), &Dim::Known(room)))
            }
        }
    }
}

/// Splits `[N, C, spatial...]`.
pub(super) fn channels_first(shape: &[Dim]) -> Result<(&Dim, &Dim, &[Dim]), String> {
    match shape {
        [n, c, spatial @ ..] => Ok((n, c, spatial)),
        _ => Err(format!("the input {} has no batch and channel axis", show(shape))),
    }
}

/// The kernel: from the weight, checked against the attribute.
fn kernel(site: &InferContext<'_>, weight: &[Dim], rank: usize) -> Result<Shape, String> {
    let (_, _, sizes) = channels_first(weight)?;
    if sizes.len() != rank {
        return Err(format!("the weight {} does not have {rank} spatial axes", show(weight)));
    }
    let Some(declared) = site.list("kernel_shape").filter(|k| !k.is_empty()) else {
        return Ok(sizes.to_vec());
    };
    let declared: Shape = declared.iter().copied().map(Dim::Known).collect();
    let agreed = sizes.iter().zip(&declared).map(|(a, b)| both(a, b));
    let agreed = agreed.collect::<Option<Shape>>().filter(|k| k.len() == declared.len());
    agreed.ok_or_else(|| {
        format!("`kernel_shape` {} is not that of the weight {}", show(&declared), show(weight))
    })
}

fn group(site: &InferContext<'_>) -> Result<i64, String> {
    let group = site.int("group", 1);
    if group < 1 { Err(format!("`group` is {group}, the least is 1")) } else { Ok(group) }
}

fn conv(site: &InferContext<'_>, weight: usize) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    conv_of(site, x, weight)
}

/// For an input of shape `x`.
pub(super) fn conv_of(site: &InferContext<'_>, x: &[Dim], weight: usize) -> Shapes {
    let Some(w) = site.shape(weight) else { return unknown() };
    let (n, c, spatial) = channels_first(x)?;
    let group = group(site)?;
    let kernel = kernel(site, w, spatial.len())?;
    let expected = times(&w[1], &Dim::Known(group));
    if both(c, &expected).is_none() {
        return Err(format!(
            "the input {} has not the channels of the weight {} in {group} groups",
            show(x),
            show(w)
        ));
    }
    if let Some(outputs) = w[0].known().filter(|m| m % group != 0) {
        return Err(format!("{outputs} output channels do not divide into {group} groups"));
    }
    let window = Window::from_node(site, &kernel)?;
    let mut out = vec![n.clone(), w[0].clone()];
    for (i, size) in spatial.iter().enumerate() {
        out.push(window.positions(i, size, false)?);
    }
    one(out)
}

fn conv_transpose(site: &InferContext<'_>) -> Shapes {
    let (Some(x), Some(w)) = (site.shape(0), site.shape(1)) else { return unknown() };
    let (n, c, spatial) = channels_first(x)?;
    let group = group(site)?;
    let kernel = kernel(site, w, spatial.len())?;
    if both(c, &w[0]).is_none() {
        return Err(format!(
            "the input {} has not the channels of the weight {}",
            show(x),
            show(w)
        ));
    }
    let window = Window::from_node(site, &kernel)?;
    let extra = site.list("output_padding").unwrap_or_default();
    let wanted = site.list("output_shape").unwrap_or_default();
    let mut out = vec![n.clone(), times(&w[1], &Dim::Known(group))];
    for (i, size) in spatial.iter().enumerate() {
        // `output_shape` may or may not count batch and channels.
        let offset = wanted.len().saturating_sub(spatial.len());
        out.push(match wanted.get(i + offset) {
            Some(size) => sized(Some(*size)),
            None => window.spread(i, size, extra.get(i).copied().unwrap_or(0)),
        });
    }
    one(out)
}

/// Columns of blocks are put together to images.
fn col2im(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    let [n, columns, _] = x else {
        return Err(format!("the input {} has not three axes", show(x)));
    };
    let channels = match site.sizes(2) {
        Some(block) => ratio(columns, &product(&block))?,
        None => Dim::Unknown,
    };
    let lists = ["strides", "dilations"].map(|name| site.list(name).map(<[i64]>::len));
    let axes = lists[0].or(lists[1]).or_else(|| Some(site.list("pads")?.len() / 2));
    let open = || Some(vec![Dim::Unknown; axes.filter(|n| *n <= RANK_MAX)?]);
    let Some(image) = site.sizes(1).or_else(|| ranked(site, 1)).or_else(open) else {
        return unknown();
    };
    one([&[n.clone(), channels], &image[..]].concat())
}
