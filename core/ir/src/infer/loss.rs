//! Losses.

use super::Rules;
use super::site::InferContext;
use crate::{Dim, Shape};

pub(super) const RULES: Rules = &[
    ("NegativeLogLikelihoodLoss", |site| Ok(vec![loss(site)])),
    ("SoftmaxCrossEntropyLoss", |site| Ok(vec![loss(site), site.shape(0).map(<[Dim]>::to_vec)])),
];

/// One element per label, unless they are reduced.
fn loss(site: &InferContext<'_>) -> Option<Shape> {
    match site.text("reduction") {
        "none" => site.shape(1).map(<[Dim]>::to_vec),
        _ => Some(vec![]),
    }
}
