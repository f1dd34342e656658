//! Shape, layout and type of tensors.

mod build;
mod cast;
mod gather;
mod grid;
mod join;
mod layout;
mod minifloat;
mod resize;
mod scatter;
mod select;
mod slice;

use crate::call::{KernelRow, raw, row};

pub(crate) use build::densified;
pub(crate) use cast::{cast, dtype_attr};
pub(crate) use minifloat::format;
pub(crate) use select::trilu;

pub(crate) const ROWS: &[KernelRow] = &[
    raw("BitCast", cast::bit_cast),
    raw("Cast", cast::cast_op),
    raw("CastLike", cast::cast_like),
    row("AffineGrid", grid::affine_grid),
    raw("CenterCropPad", slice::center_crop_pad),
    raw("Compress", select::compress),
    raw("Concat", join::concat),
    raw("ConstantOfShape", build::constant_of_shape),
    raw("DepthToSpace", layout::depth_to_space),
    raw("Expand", join::expand),
    raw("EyeLike", build::eye_like),
    raw("Flatten", layout::flatten),
    raw("Gather", gather::gather),
    raw("GatherElements", gather::gather_elements),
    raw("GatherND", gather::gather_nd),
    row("GridSample", grid::grid_sample),
    raw("NonZero", select::non_zero),
    raw("OneHot", build::one_hot),
    raw("Pad", slice::pad),
    row("Range", build::range),
    raw("Reshape", layout::reshape),
    row("Resize", resize::resize_10).since(10).until(10),
    row("Resize", resize::resize_11).since(11),
    raw("ReverseSequence", select::reverse_sequence),
    raw("Scatter", scatter::scatter_elements),
    raw("ScatterElements", scatter::scatter_elements),
    raw("ScatterND", scatter::scatter_nd),
    raw("Shape", layout::shape),
    raw("Size", layout::size),
    raw("Slice", slice::slice),
    raw("SpaceToDepth", layout::space_to_depth),
    raw("Split", join::split),
    raw("Squeeze", layout::squeeze),
    raw("Tile", join::tile),
    raw("Transpose", layout::transpose),
    raw("Trilu", select::trilu),
    row("Unique", select::unique),
    raw("Unsqueeze", layout::unsqueeze),
    row("Upsample", resize::upsample),
];

#[cfg(test)]
mod tests;
