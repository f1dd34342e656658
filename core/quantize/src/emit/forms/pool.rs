//! Averages over windows and areas.

use super::FoldContext;
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds, elementwise, elementwise_back};
use crate::graph::quantized::Why;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Node};

pub(crate) const FOLDS: Folds = &[
    (&["AveragePool"], average),
    (&["GlobalAveragePool"], |site| {
        elementwise(site, "QLinearGlobalAveragePool", 1, &[("channels_last", 0)])
    }),
];

pub(crate) const UNFOLDS: Unfolds = &[
    (&["QLinearAveragePool"], |site| back(site, "AveragePool")),
    (&["QLinearGlobalAveragePool"], |site| back(site, "GlobalAveragePool")),
];

fn average(site: &mut FoldContext) -> Result<Node, Why> {
    if let Some(Attr::Ints(dilations)) = site.node.attr("dilations")
        && dilations.iter().any(|d| *d != 1)
    {
        return Err("QLinearAveragePool has no dilations".into());
    }
    site.node.attrs.retain(|(name, _)| name != "dilations");
    elementwise(site, "QLinearAveragePool", 1, &[])
}

fn back(site: &mut UnfoldContext, op: &str) -> Result<Float, Why> {
    refuse!(site.node.int("channels_last", 0) != 0 => "its channels are the last axis, which {op} does not know");
    elementwise_back(site, op, 1, &["channels_last"])
}
