//! Convolutions, and the sliding window that pooling shares.

use super::Rules;
use super::shape::ranked;
use super::site::{
    RANK_MAX, Shapes, Site, both, minus, one, plus, product, ratio, show, sized, times, unknown,
};
use super::symbolic::{self, floor};
use crate::{Dim, Shape};

pub(super) const RULES: Rules = &[
    ("Col2Im", col2im),
    ("Conv", |site| conv(site, 1)),
    ("ConvInteger", |site| conv(site, 1)),
    ("ConvTranspose", conv_transpose),
    ("DeformConv", |site| conv(site, 1)),
    ("QLinearConv", |site| conv(site, 3)),
];

/// A window that slides over the spatial axes.
pub(super) struct Window<'a> {
    /// Size per axis.
    pub kernel: Shape,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// All begins, then all ends.
    pads: Vec<i64>,
    auto_pad: &'a str,
    /// Whether the standard's own inference counts windows that start beyond the input.
    counts_all: bool,
}

impl<'a> Window<'a> {
    /// Reads the attributes; lists that are left out are ones (pads: zeros).
    pub(super) fn of(site: &Site<'a>, kernel: Shape) -> Result<Window<'a>, String> {
        let n = kernel.len();
        let list = |name: &str, count: usize, default: i64, min: i64| {
            let found = site.list(name).filter(|l| !l.is_empty());
            let list = found.map_or_else(|| vec![default; count], <[i64]>::to_vec);
            if list.len() != count {
                return Err(format!("`{name}` has {} elements instead of {count}", list.len()));
            }
            match list.iter().find(|x| **x < min) {
                Some(x) => Err(format!("`{name}` has the element {x}, the least is {min}")),
                None => Ok(list),
            }
        };
        Ok(Window {
            strides: list("strides", n, 1, 1)?,
            dilations: list("dilations", n, 1, 1)?,
            pads: list("pads", 2 * n, 0, i64::MIN)?,
            auto_pad: site.text("auto_pad"),
            counts_all: site.opset < 22,
            kernel,
        })
    }

    /// How many axes it slides over.
    fn rank(&self) -> usize {
        self.kernel.len()
    }

    /// Size of the dilated kernel along spatial axis `i`; `None` if unknown or too large.
    fn extent(&self, i: usize) -> Option<i64> {
        let kernel = self.kernel[i].known()?;
        kernel.checked_sub(1)?.checked_mul(self.dilations[i])?.checked_add(1)
    }

    /// What the window reaches beyond its first position in an input of size `input`.
    fn room(&self, i: usize, input: &Dim) -> Option<Dim> {
        let pads = match self.auto_pad {
            "VALID" => 0,
            _ => self.pads[i].checked_add(self.pads[i + self.rank()])?,
        };
        Some(minus(input, &Dim::Known(self.extent(i)?.checked_sub(pads)?)))
    }

    /// Positions along spatial axis `i` of an input of size `input`.
    pub(super) fn positions(&self, i: usize, input: &Dim, ceil: bool) -> Result<Dim, String> {
        let stride = Dim::Known(self.strides[i]);
        if self.auto_pad.starts_with("SAME") {
            return Ok(floor(&plus(input, &Dim::Known(self.strides[i] - 1)), &stride));
        }
        let Some(room) = self.room(i, input) else { return Ok(Dim::Unknown) };
        let one = Dim::Known(1);
        match (&room, ceil && stride != one) {
            (Dim::Known(..0), _) => Err(format!(
                "the kernel of {} does not fit the padded input of {}",
                self.extent(i).unwrap_or_default(),
                show(&[plus(&room, &Dim::Known(self.extent(i).unwrap_or_default()))])
                    .trim_matches(['[', ']'])
            )),
            (_, false) => Ok(plus(&floor(&room, &stride), &one)),
            (Dim::Known(room), true) => Ok(self.rounded_up(i, *room, input)),
            _ => Ok(Dim::Unknown),
        }
    }

    fn rounded_up(&self, i: usize, room: i64, input: &Dim) -> Dim {
        let stride = self.strides[i];
        let mut last = room / stride;
        if room % stride != 0 {
            last += 1;
            // A window must start inside the input or the padding before it.
            let begin = if self.auto_pad == "VALID" { 0 } else { self.pads[i] };
            let end = input.known().and_then(|n| n.checked_add(begin));
            let place = last.checked_mul(stride).zip(end);
            let outside = place.is_some_and(|(start, end)| start >= end);
            // Runtimes leave such a window out, while inference of the standard counts it before opset 22.
            if outside && self.counts_all {
                return Dim::Unknown;
            }
            last -= i64::from(outside);
        }
        sized(last.checked_add(1))
    }

    /// Size of what a transpose convolution spreads `size` positions over.
    pub(super) fn spread(&self, i: usize, size: &Dim, extra: i64) -> Dim {
        let stride = Dim::Known(self.strides[i]);
        if self.auto_pad.starts_with("SAME") {
            return times(size, &stride);
        }
        // The room is the padding without the kernel; here the kernel comes without the padding.
        let Some(room) = self.room(i, &Dim::Known(0)) else { return Dim::Unknown };
        let steps = symbolic::product(&minus(size, &Dim::Known(1)), &stride);
        plus(&steps, &minus(&Dim::Known(extra), &room))
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
fn kernel(site: &Site<'_>, weight: &[Dim], rank: usize) -> Result<Shape, String> {
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

fn group(site: &Site<'_>) -> Result<i64, String> {
    let group = site.int("group", 1);
    if group < 1 { Err(format!("`group` is {group}, the least is 1")) } else { Ok(group) }
}

fn conv(site: &Site<'_>, weight: usize) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    conv_of(site, x, weight)
}

/// For an input of shape `x`.
pub(super) fn conv_of(site: &Site<'_>, x: &[Dim], weight: usize) -> Shapes {
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
    let window = Window::of(site, kernel)?;
    let mut out = vec![n.clone(), w[0].clone()];
    for (i, size) in spatial.iter().enumerate() {
        out.push(window.positions(i, size, false)?);
    }
    one(out)
}

fn conv_transpose(site: &Site<'_>) -> Shapes {
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
    let window = Window::of(site, kernel)?;
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
fn col2im(site: &Site<'_>) -> Shapes {
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
