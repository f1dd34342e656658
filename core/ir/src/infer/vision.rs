//! Images: grids, boxes, crops.

use super::Rules;
use super::site::{InferContext, Shapes, axes, one, show, unknown};
use crate::Dim;
use onnxd_diagnostics::refuse;

pub(super) const RULES: Rules = &[
    ("AffineGrid", affine_grid),
    ("CenterCropPad", center_crop_pad),
    ("GridSample", grid_sample),
    ("ImageDecoder", image_decoder),
    ("NonMaxSuppression", |_| one(vec![Dim::Unknown, Dim::Known(3)])),
];

fn affine_grid(site: &InferContext<'_>) -> Shapes {
    let batch = site.shape(0).and_then(|theta| theta.first()).cloned().unwrap_or(Dim::Unknown);
    let rank = match site.shape(1) {
        Some([Dim::Known(rank @ (4 | 5))]) => *rank,
        Some([Dim::Known(rank)]) => return Err(format!("the size has {rank} elements")),
        _ => return unknown(),
    };
    let sizes = site.sizes(1).filter(|s| s.len() == rank as usize);
    let sizes = sizes.unwrap_or_else(|| vec![Dim::Unknown; rank as usize]);
    let batch = if sizes[0] == Dim::Unknown { batch } else { sizes[0].clone() };
    one([&[batch], &sizes[2..], &[Dim::Known(rank - 2)]].concat())
}

fn grid_sample(site: &InferContext<'_>) -> Shapes {
    let (x, grid) = (site.shape(0), site.shape(1));
    let rank = x.or(grid).map_or(0, <[Dim]>::len);
    let (Some(x), Some(grid)) = (x, grid) else {
        return if rank < 3 { unknown() } else { one(vec![Dim::Unknown; rank]) };
    };
    match (x, grid) {
        ([n, c, spatial @ ..], [_, to @ .., _]) if spatial.len() == to.len() => {
            one([&[n.clone(), c.clone()], to].concat())
        }
        _ => Err(format!("the grid {} does not fit the input {}", show(grid), show(x))),
    }
}

fn center_crop_pad(site: &InferContext<'_>) -> Shapes {
    let Some(x) = site.shape(0) else { return unknown() };
    let over = match site.list("axes") {
        Some(list) => axes(list, x.len())?,
        None => (0..x.len()).collect(),
    };
    let wanted = site.sizes(1).unwrap_or_else(|| vec![Dim::Unknown; over.len()]);
    refuse!(wanted.len() != over.len() => "{} does not fit {} axes", show(&wanted), over.len());
    let mut out = x.to_vec();
    over.into_iter().zip(wanted).for_each(|(a, size)| out[a] = size);
    one(out)
}

fn image_decoder(site: &InferContext<'_>) -> Shapes {
    let channels = if site.text("pixel_format") == "Grayscale" { 1 } else { 3 };
    one(vec![Dim::Unknown, Dim::Unknown, Dim::Known(channels)])
}
