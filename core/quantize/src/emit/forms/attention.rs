//! Attention with its projections, which is one operator of ONNX Runtime: `Attention` becomes
//! `QAttention`, which projects integers and computes scores in floating point.

use super::FoldContext;
use super::linear::{columns, has_kernel};
use super::{Float, UnfoldContext};
use super::{Folds, Unfolds};
use crate::graph::quantized::{MICROSOFT, Why, name};
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, DataType, Graph, Node, Tensor, ValueId};

/// Of ONNX Runtime: the operator of the standard with this name has no projections.
pub(crate) const FOLDS: Folds = &[(&["Attention"], attention)];

pub(crate) const UNFOLDS: Unfolds = &[(&["QAttention"], attention_back)];

/// Attributes of `Attention` that `QAttention` lacks.
pub(crate) const DROPPED: [&str; 2] = ["qkv_hidden_sizes", "rotary_embedding_dim"];

fn attention(site: &mut FoldContext) -> Result<Node, Why> {
    plain(&site.node)?;
    let (x, w) = (site.input(0)?, site.weight(1)?.along(site.graph, 1)?);
    has_kernel(site.graph, &x, &w, None)?;
    refuse!(x.dtype != DataType::Uint8 => "no kernel of QAttention reads {} {}", x.dtype, name(site.graph, x.q));
    let w = site.exact(&x, w);
    let y = site.node.output(0).ok_or("it has no output")?;
    let [mask, past] = [3, 4].map(|slot| site.node.input(slot));
    let bias = match site.node.input(2) {
        Some(bias) => bias,
        None => no_bias(site.graph, w.q)?,
    };
    let ([x, x_scale, x_zero], [w, w_scale, w_zero]) = (site.triple(&x), site.triple(&w));
    let inputs = vec![x, w, Some(bias), x_scale, w_scale, mask, x_zero, w_zero, past];
    let mut made = site.made((MICROSOFT, "QAttention"), inputs, y, &DROPPED);
    made.outputs.clone_from(&site.node.outputs);
    Ok(made)
}

fn attention_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let axis = columns(site, 1, 4)?;
    let x = site.real([0, 3, 6], None)?;
    let w = site.real([1, 4, 7], axis)?;
    let [bias, mask, past] = [2, 5, 8].map(|slot| site.node.input(slot));
    let mut float = site.plain("Attention", vec![Some(x), Some(w), bias, mask, past]);
    float.node.domain = MICROSOFT.to_owned();
    Ok(float)
}

/// Zeros to be added, which `QAttention` cannot go without.
pub(crate) fn no_bias(graph: &mut Graph, w: ValueId) -> Result<ValueId, Why> {
    let columns = graph.constant(w).and_then(|w| w.dims().last().copied());
    let columns = columns.ok_or_else(|| format!("{} is not a constant", name(graph, w)))?;
    let zeros = Tensor::from_vec([columns], vec![0f32; columns]);
    let name = format!("{}_bias", graph[w].name);
    Ok(graph.add_initializer(&name, zeros))
}

/// Demands that a node has nothing that `QAttention` does not know.
pub(crate) fn plain(node: &Node) -> Result<(), Why> {
    refuse!([5, 6].iter().any(|slot| node.input(*slot).is_some()) =>
        "QAttention has no bias of scores, and no length of what went before");
    if let Some(Attr::Ints(sizes)) = node.attr("qkv_hidden_sizes")
        && sizes.windows(2).any(|pair| pair[0] != pair[1])
    {
        return Err("QAttention has queries, keys and values of one size".into());
    }
    for flag in ["do_rotary", "past_present_share_buffer"] {
        refuse!(node.int(flag, 0) != 0 => "no kernel of QAttention has `{flag}`");
    }
    Ok(())
}
