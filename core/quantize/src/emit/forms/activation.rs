//! Functions of one element, and softmax.

use super::{Float, UnfoldContext};
use super::{FoldContext, Folded};
use super::{Folds, Unfolds, elementwise, elementwise_back, shape};
use crate::graph::quantized::{
    QuantizedValue, Why, dequantize_source, floats, quantize_target, sweep,
};
use crate::range::{Levels, Scale, integers};
use crate::report::name_of;
use onnxd_diagnostics::refuse;
use onnxd_ir::{Attr, Graph, Node, NodeId};

pub(crate) const FOLDS: Folds = &[
    (&["Clip"], clip),
    (&["LeakyRelu"], |site| elementwise(site, "QLinearLeakyRelu", 1, &[])),
    (&["Relu"], clip),
    (&["Sigmoid"], |site| elementwise(site, "QLinearSigmoid", 1, &[])),
    (&["Softmax"], softmax),
];

pub(crate) const UNFOLDS: Unfolds = &[
    (&["Clip"], clip_back),
    (&["QLinearLeakyRelu"], |site| elementwise_back(site, "LeakyRelu", 1, &[])),
    (&["QLinearSigmoid"], |site| elementwise_back(site, "Sigmoid", 1, &[])),
    (&["QLinearSoftmax"], softmax_back),
];

fn softmax(site: &mut FoldContext) -> Result<Node, Why> {
    let y = site.output(0)?;
    refuse!(y.scale_value(site.graph)? > 1.0 => "a step of its result is more than the largest result");
    let axis = site.node.int("axis", if site.opset < 13 { 1 } else { -1 });
    elementwise(site, "QLinearSoftmax", 1, &[("axis", axis), ("opset", site.opset)])
}

fn softmax_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    refuse!((site.node.int("opset", 13) < 13) != (site.opset < 13) =>
        "it follows another version of Softmax than the model");
    elementwise_back(site, "Softmax", 1, &["opset"])
}

/// The smallest and largest result of a `Relu` or `Clip`; `None` if that is not constant.
fn bounds(graph: &Graph, node: &Node) -> Option<[f32; 2]> {
    if node.op == "Relu" {
        return Some([0.0, f32::INFINITY]);
    }
    let bound = |i: usize, name: &str, none: f32| match (node.input(i), node.attr(name)) {
        (Some(v), _) => floats(graph, v).ok()?.first().copied(),
        (None, Some(Attr::Float(x))) => Some(*x),
        (None, _) => Some(none),
    };
    let [low, high] = [bound(1, "min", f32::NEG_INFINITY)?, bound(2, "max", f32::INFINITY)?];
    (low <= high).then_some([low, high])
}

/// The integers of `bounds`, and the smallest and largest of the type.
fn limits(
    graph: &Graph,
    value: &QuantizedValue,
    bounds: [f32; 2],
) -> Result<([i64; 2], [i64; 2]), Why> {
    let levels = Levels::of(value.dtype).ok_or_else(|| format!("{} is wide", value.dtype))?;
    let (scale, zero_point) = (f64::from(value.scale_value(graph)?), value.zero_point(graph)?);
    let scale = Scale { dtype: value.dtype, scale, zero_point };
    Ok((bounds.map(|x| scale.quantize(x)), [levels.min, levels.max]))
}

/// Bounds on integers are integers, since both kinds are in the same order.
fn clip(site: &mut FoldContext) -> Result<Node, Why> {
    let bounds = bounds(site.graph, &site.node).ok_or("its bounds are not constant")?;
    let (x, y) = shape::moved(site)?;
    let (kept, _) = limits(site.graph, &x, bounds)?;
    refuse!(site.opset < 12 => "Clip takes integers from opset 12 on");
    let mut inputs = vec![Some(x.q)];
    for (n, role) in kept.into_iter().zip(["min", "max"]) {
        let bound = integers(x.dtype, &[], &[n]).ok_or("its type is not packed")?;
        let name = format!("{}_{role}", site.graph[y.q].name);
        inputs.push(Some(site.shared(&name, bound)));
    }
    Ok(site.made(("", "Clip"), inputs, y.q, &["min", "max"]))
}

fn clip_back(site: &mut UnfoldContext) -> Result<Float, Why> {
    let x = site.quantized_value(0)?;
    let (step, zero) = (x.scale_value(site.graph)?, x.zero_point(site.graph)?);
    let mut inputs = vec![None; 3];
    for (i, role) in [(1, "min"), (2, "max")] {
        let Some(v) = site.node.input(i) else { continue };
        let found = site.graph.constant(v).and_then(onnxd_ir::Tensor::to_i64s);
        let bound = found.and_then(|n| n.first().copied()).ok_or("its bounds are not constant")?;
        let name = format!("{}_{role}_float", site.out());
        let bound = onnxd_ir::Tensor::scalar((bound - zero) as f32 * step);
        inputs[i] = Some(site.graph.add_initializer(&name, bound));
    }
    inputs[0] = Some(site.real_of(x.q, x.scale, x.zero, None));
    site.moved("Clip", inputs, &x, 1)
}

/// Takes away every `Relu` and `Clip` whose bounds lie at or beyond what the integers that are made
/// of its result can mean: those saturate there themselves.
pub(crate) fn drop_needless(graph: &mut Graph, report: &mut Folded) {
    for id in graph.node_ids() {
        // It may have gone together with one before it.
        let Some(node) = graph.node(id) else { continue };
        if node.is_standard() && matches!(node.op.as_str(), "Relu" | "Clip") {
            let (name, op) = (name_of(graph, node), node.op.clone());
            if drop_clip(graph, id).is_some() {
                report.folded.push((name, op, "QuantizeLinear".into()));
            }
        }
    }
}

fn drop_clip(graph: &mut Graph, id: NodeId) -> Option<()> {
    let node = &graph[id];
    let (x, y) = (node.input(0)?, node.output(0)?);
    let value = quantize_target(graph, y).ok()?;
    let (kept, all) = limits(graph, &value, bounds(graph, node)?).ok()?;
    if kept != all {
        return None;
    }
    let quantize = *graph.readers(y).first()?;
    let unchanged = dequantize_source(graph, x).ok().filter(|from| from.same(&value, graph));
    if let Some(from) = unchanged {
        // A graph output keeps its name: bounds on integers compute it.
        if graph.is_output(value.q) {
            return None;
        }
        graph.replace_uses(value.q, from.q);
        sweep(graph, vec![value.q]);
        return Some(());
    }
    if graph.uses(x) != 1 {
        return None;
    }
    graph.set_input(quantize, 0, Some(x));
    let gone = graph.remove_node(id);
    graph.node_mut(quantize).layers.add(&gone.layers);
    Some(())
}
