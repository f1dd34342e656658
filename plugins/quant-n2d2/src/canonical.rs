//! Brings the layers with weights into one form, so that everything after needs to know only that:
//! `BatchNormalization` becomes part of the layer before it, or a convolution of each channel by
//! itself; `Gemm` has outputs first, and neither `alpha` nor `beta`; transpose convolutions are
//! plain ones.

use crate::constants::{constant, reals};
use crate::deconv::unfold;
use onnxd_plugin_sdk::ir::ops::{BatchNormalization, Conv, ConvTranspose, Gemm};
use onnxd_plugin_sdk::ir::{At, Graph, Node, NodeId, Op, Opsets, Reals};

/// Rewrites the graph. Nodes that do not fit are left as they are.
pub(crate) fn canonicalize(graph: &mut Graph, opsets: &Opsets) {
    for id in graph.topological().unwrap_or_default() {
        if let Some(gemm) = At::<Gemm>::find(graph, id) {
            normalize(graph, &gemm);
        }
        if let Some(deconv) = At::<ConvTranspose>::find(graph, id) {
            let _ = unfold(graph, opsets, &deconv);
        }
    }
    for id in graph.topological().unwrap_or_default() {
        if let Some(bn) = At::<BatchNormalization>::find(graph, id) {
            let _ = fold(graph, &bn);
        }
    }
}

/// Puts `op` in the place of node `old`, whose only output stays what it is.
pub(crate) fn exchange<O: Op>(graph: &mut Graph, old: NodeId, op: O) -> NodeId {
    let old = graph.remove_node(old);
    let out = old.output(0).expect("a node with a result");
    let mut node = op.into_node(out);
    (node.name, node.layers, node.metadata) = (old.name, old.layers, old.metadata);
    graph.add_node(node)
}

/// `[inputs, outputs]` as `[outputs, inputs]`.
pub(crate) fn transposed(x: &Reals) -> Reals {
    let [rows, columns] = [x.dims[0], x.dims[1]];
    let places = (0..rows * columns).map(|i| i % rows * columns + i / rows);
    let values = places.map(|i| x.values[i]).collect();
    Reals { dims: vec![columns, rows], values }
}

fn normalize(graph: &mut Graph, gemm: &At<Gemm>) -> Option<()> {
    if gemm.transA != 0 || gemm.transB != 0 && gemm.alpha == 1.0 && gemm.beta == 1.0 {
        return None;
    }
    let w = reals(graph, gemm.b).filter(|w| w.dims.len() == 2)?;
    let w = if gemm.transB == 0 { transposed(&w) } else { w };
    let w = w.map(|x| x * f64::from(gemm.alpha));
    let bias = match gemm.c {
        Some(c) => Some((c, reals(graph, c)?.map(|x| x * f64::from(gemm.beta)))),
        None => None,
    };
    let name = format!("{}_w", graph[gemm.out].name);
    let b = constant(graph, &name, gemm.b, &w)?;
    let c = match bias {
        Some((old, data)) => {
            Some(constant(graph, &format!("{}_b", graph[gemm.out].name), old, &data)?)
        }
        None => None,
    };
    exchange(graph, gemm.node, Gemm { b, c, alpha: 1.0, beta: 1.0, transB: 1, ..gemm.op.clone() });
    Some(())
}

/// Gain and bias of a normalization with constants.
fn affine(graph: &Graph, bn: &At<BatchNormalization>) -> Option<(Reals, Reals)> {
    let wanted = graph[bn.node].outputs.iter().flatten().count();
    if bn.training_mode != 0 || bn.spatial != 1 || wanted > 1 {
        return None;
    }
    let [scale, bias, mean, var] = [bn.scale, bn.b, bn.mean, bn.var].map(|v| reals(graph, v));
    let (scale, bias, mean, var) = (scale?, bias?, mean?, var?);
    let channels = scale.dims.clone();
    if channels.len() != 1 || [&bias, &mean, &var].iter().any(|x| x.dims != channels) {
        return None;
    }
    let gain = &scale / &(&var + f64::from(bn.epsilon)).sqrt();
    let bias = &bias - &(&mean * &gain);
    gain.values.iter().all(|x| x.is_finite()).then_some((gain, bias))
}

fn fold(graph: &mut Graph, bn: &At<BatchNormalization>) -> Option<()> {
    let (gain, shift) = affine(graph, bn)?;
    let before = graph.producer(bn.x).filter(|_| graph.uses(bn.x) == 1);
    let conv = before.and_then(|id| At::<Conv>::find(graph, id));
    let gemm = before.and_then(|id| At::<Gemm>::find(graph, id));
    let (w, b) = match (&conv, &gemm) {
        (Some(conv), _) => (conv.w, conv.b),
        (_, Some(gemm)) if gemm.transB == 1 && gemm.alpha == 1.0 && gemm.beta == 1.0 => {
            (gemm.b, gemm.c)
        }
        _ => return alone(graph, bn, &gain, &shift),
    };
    let weights = reals(graph, w).filter(|x| x.dims.first() == gain.dims.first());
    let bias = match b {
        Some(b) => reals(graph, b),
        None => Some(Reals::full(&gain.dims, 0.0)),
    };
    let (Some(weights), Some(bias)) = (weights, bias.filter(|x| x.dims == gain.dims)) else {
        return alone(graph, bn, &gain, &shift);
    };
    let name = graph[bn.out].name.clone();
    let w = constant(graph, &format!("{name}_w"), w, &weights.scale_axis(0, &gain))?;
    let b = constant(graph, &format!("{name}_b"), bn.b, &(&(&bias * &gain) + &shift))?;
    let Node { layers, metadata, .. } = graph[before?].clone();
    let new = match (conv, gemm) {
        (Some(conv), _) => exchange(graph, bn.node, Conv { w, b: Some(b), ..conv.op }),
        (_, Some(gemm)) => exchange(graph, bn.node, Gemm { b: w, c: Some(b), ..gemm.op }),
        _ => return None,
    };
    let own = std::mem::replace(&mut graph.node_mut(new).layers, layers);
    graph.node_mut(new).layers.add(&own);
    graph.node_mut(new).metadata.extend(metadata);
    graph.remove_node(before?);
    Some(())
}

/// A normalization of something else is a convolution of each channel by itself.
fn alone(graph: &mut Graph, bn: &At<BatchNormalization>, gain: &Reals, bias: &Reals) -> Option<()> {
    let rank = graph[bn.x].shape()?.len();
    if rank < 3 {
        return None;
    }
    let channels = gain.values.len();
    let mut dims = vec![1; rank];
    dims[0] = channels;
    let w = Reals { dims, values: gain.values.clone() };
    let name = graph[bn.out].name.clone();
    let w = constant(graph, &format!("{name}_w"), bn.scale, &w)?;
    let b = constant(graph, &format!("{name}_b"), bn.b, bias)?;
    let kernel_shape = vec![1; rank - 2];
    let group = i64::try_from(channels).ok()?;
    exchange(graph, bn.node, Conv { b: Some(b), group, kernel_shape, ..Conv::new(bn.x, w) });
    Some(())
}
