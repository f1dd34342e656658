//! Activations: one value in, one of the same shape out.

use super::Rules;
use super::site::{InferContext, Shapes, axis, broadcast, one, unknown};

pub(super) const RULES: Rules = &[
    ("Celu", same),
    ("Clip", same),
    ("Elu", same),
    ("Gelu", same),
    ("HardSigmoid", same),
    ("HardSwish", same),
    ("Hardmax", along_axis),
    ("LeakyRelu", same),
    ("LogSoftmax", along_axis),
    ("Mish", same),
    ("PRelu", prelu),
    ("Relu", same),
    ("Selu", same),
    ("Shrink", same),
    ("Sigmoid", same),
    ("Softmax", along_axis),
    ("Softplus", same),
    ("Softsign", same),
    ("SwiGLU", same),
    ("Swish", same),
    ("Tanh", same),
    ("ThresholdedRelu", same),
];

/// The shape of the first input, for the first output.
pub(super) fn same(site: &InferContext<'_>) -> Shapes {
    match site.shape(0) {
        Some(shape) => one(shape.to_vec()),
        None => unknown(),
    }
}

/// As the input, of which the axis must exist; before opset 13 it may be the end of the shape too.
fn along_axis(site: &InferContext<'_>) -> Shapes {
    if let Some(shape) = site.shape(0) {
        let (default, end) = if site.opset >= 13 { (-1, 0) } else { (1, 1) };
        let wanted = site.int("axis", default);
        if !shape.is_empty() && wanted != default {
            axis(wanted, shape.len() + end)?;
        }
    }
    same(site)
}

/// The slope broadcasts to the input, never the other way.
fn prelu(site: &InferContext<'_>) -> Shapes {
    if let (Some(x), Some(slope)) = (site.shape(0), site.shape(1)) {
        // Before opset 7 a slope per channel has the rank 1 and belongs to axis 1.
        if site.opset >= 7 {
            broadcast(x, slope)?;
        }
    }
    same(site)
}
