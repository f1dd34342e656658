//! Convolution: `DQ(x), DQ(w), DQ(b) -> Conv -> Q` is `QLinearConv`.

use super::FoldContext;
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds, bias, linear};
use crate::graph::quantized::Why;
use onnxd_diagnostics::refuse;
use onnxd_ir::Node;

pub(crate) const FOLDS: Folds = &[(&["Conv"], conv)];

pub(crate) const UNFOLDS: Unfolds =
    &[(&["ConvInteger"], linear::integer_chain), (&["QLinearConv"], conv_back)];

fn conv(site: &mut FoldContext) -> Result<Node, Why> {
    let (x, w, y) = (site.input(0)?, site.weight(1)?.along(site.graph, 0)?, site.output(0)?);
    linear::has_kernel(site.graph, &x, &w, Some(&y))?;
    let b = match site.node.input(2) {
        Some(_) => {
            let steps = bias::steps(site.graph, [x.scale, w.scale], 1.0)?;
            bias::folded(site, 2, &steps, 1.0)?
        }
        None => None,
    };
    let w = site.exact(&x, w);
    let mut inputs = [site.triple(&x), site.triple(&w)].concat();
    inputs.extend(site.pair(&y));
    inputs.push(b);
    Ok(site.made(("", "QLinearConv"), inputs, y.q, &[]))
}

fn conv_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    refuse!(site.node.int("channels_last", 0) != 0 => "its channels are the last axis, which Conv does not know");
    let steps = match (site.node.input(8), site.given(1)?, site.given(4)?) {
        (Some(_), x, w) => bias::steps(site.graph, [x, w], 1.0)?,
        _ => vec![],
    };
    let x = site.real([0, 1, 2], None)?;
    let w = site.real([3, 4, 5], Some(0))?;
    let b = bias::real(site, 8, &steps)?;
    site.float("Conv", vec![Some(x), Some(w), b], &["channels_last"], [6, 7])
}
