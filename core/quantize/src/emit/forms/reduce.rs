//! Means along axes.

use super::FoldContext;
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds, elementwise_back};
use crate::graph::quantized::{Why, rank_of};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Node, Tensor, ValueId};
use std::collections::BTreeSet;

pub(crate) const FOLDS: Folds = &[(&["ReduceMean"], mean)];

pub(crate) const UNFOLDS: Unfolds = &[(&["QLinearReduceMean"], mean_back)];

/// The axes, which are an attribute before opset 18 and an input after.
fn axes(site: &FoldContext) -> Option<Vec<i64>> {
    match (site.node.attr("axes"), site.node.input(1)) {
        (Some(Attr::Ints(axes)), None) => Some(axes.clone()),
        (None, Some(v)) => site.graph.constant(v)?.to_i64s(),
        _ => None,
    }
}

/// The mean of all but the first two axes is that of `QLinearGlobalAveragePool`. ONNX Runtime has
/// no kernel for others.
fn mean(site: &mut FoldContext) -> Result<Node, Why> {
    let (x, y) = (site.input(0)?, site.output(0)?);
    site.alike(&[x, y])?;
    let rank = rank_of(site.graph, x.q).ok_or("the rank of its input is not known")? as i64;
    let declared_axes = axes(site).ok_or("its axes are not constant")?;
    let reduced_axes: BTreeSet<i64> =
        declared_axes.iter().map(|a| if *a < 0 { a + rank } else { *a }).collect();
    refuse!(rank < 3 || reduced_axes.len() != declared_axes.len() || !reduced_axes.iter().copied().eq(2..rank) =>
        "no kernel on integers takes the mean of these axes");
    let kept = site.node.int("keepdims", 1) != 0;
    refuse!(!kept && site.opset < 13 => "without its axes in opsets before 13");
    let mut inputs = site.triple(&x).to_vec();
    inputs.extend(site.pair(&y));
    let attrs = [("channels_last", 0)];
    let drop = |mut node: Node| {
        node.attrs.retain(|(name, _)| {
            !["axes", "keepdims", "noop_with_empty_axes"].contains(&name.as_str())
        });
        node
    };
    if kept {
        return Ok(drop(site.microsoft("QLinearGlobalAveragePool", inputs, y.q, &attrs)));
    }
    let name = site.graph[y.q].name.clone();
    let mean = site.graph.add_value(&format!("{name}_mean"), None);
    let mut node = drop(site.microsoft("QLinearGlobalAveragePool", inputs, mean, &attrs));
    node.name = format!("{}_mean{}", site.node.name, super::SUFFIX);
    node.layers.clone_from(&site.node.layers);
    site.graph.add_node(node);
    let axes =
        site.shared(&format!("{name}_axes"), Tensor::vector(reduced_axes.into_iter().collect()));
    let mut squeeze = Node::new("Squeeze", [mean, axes], [y.q]);
    squeeze.metadata.clone_from(&site.node.metadata);
    Ok(squeeze)
}

fn mean_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    if site.opset < 18 {
        return elementwise_back(site, "ReduceMean", 1, &[]);
    }
    let Some(Attr::Ints(axes)) = site.node.attr("axes") else {
        return Err("it has no axes".into());
    };
    let axes = Tensor::vector(axes.clone());
    let x: ValueId = site.real([0, 1, 2], None)?;
    let name = format!("{}_axes", site.out());
    let axes = site.graph.add_initializer(&name, axes);
    site.float("ReduceMean", vec![Some(x), Some(axes)], &["axes"], [3, 4])
}
