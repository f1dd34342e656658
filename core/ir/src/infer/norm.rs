//! Normalization.

use super::Rules;
use super::activation::same;
use super::site::{InferContext, Shapes, axis, unknown};
use crate::Dim;

pub(super) const RULES: Rules = &[
    ("BatchNormalization", batch_normalization),
    ("Dropout", with_mask),
    ("GroupNormalization", same),
    ("InstanceNormalization", same),
    ("LRN", same),
    ("LayerNormalization", layer_normalization),
    ("LpNormalization", same),
    ("MeanVarianceNormalization", same),
    ("RMSNormalization", same),
    ("SimplifiedLayerNormalization", same),
];

/// The statistics have one element per channel.
fn batch_normalization(site: &InferContext<'_>) -> Shapes {
    if let (Some([_, channels, ..]), Some([scale])) = (site.shape(0), site.shape(1))
        && let (Some(c), Some(s)) = (channels.known(), scale.known())
        && c != s
    {
        return Err(format!("the input has {c} channels, the scale {s} elements"));
    }
    let channel = site.shape(1).map(<[Dim]>::to_vec);
    let mut shapes = vec![site.shape(0).map(<[Dim]>::to_vec)];
    shapes.resize(site.node.outputs.len().max(1), channel);
    Ok(shapes)
}

fn with_mask(site: &InferContext<'_>) -> Shapes {
    Ok(vec![site.shape(0).map(<[Dim]>::to_vec); 2])
}

/// Mean and inverse deviation keep the normalized axes with size 1.
pub(super) fn layer_normalization(site: &InferContext<'_>) -> Shapes {
    let Some(shape) = site.shape(0) else { return unknown() };
    let first = axis(site.int("axis", -1), shape.len())?;
    let mut reduced = shape.to_vec();
    reduced[first..].fill(Dim::Known(1));
    Ok(vec![Some(shape.to_vec()), Some(reduced.clone()), Some(reduced)])
}
