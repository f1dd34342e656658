//! Quantization.

use super::Rules;
use super::activation::same;
use super::site::{InferContext, Shapes};
use crate::Dim;

pub(super) const RULES: Rules =
    &[("DequantizeLinear", same), ("DynamicQuantizeLinear", dynamic), ("QuantizeLinear", same)];

/// Scale and zero point are scalars.
fn dynamic(site: &InferContext<'_>) -> Shapes {
    Ok(vec![site.shape(0).map(<[Dim]>::to_vec), Some(vec![]), Some(vec![])])
}
