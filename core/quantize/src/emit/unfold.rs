//! From operators on integers back to operators on floats between `DequantizeLinear` and
//! `QuantizeLinear`. Integers, scales and zero points stay as they are, so nothing is lost: folding
//! the result gives the operators on integers again. Which operator becomes which is told by the
//! tables in [`crate::emit::forms`].

use crate::emit::forms::{self, Float, Folded, SUFFIX, UnfoldContext, made_of};
use crate::emit::placer::add_linear;
use crate::graph::quantized::{each_graph, sweep};
use crate::report::name_of;
use onnxd_ir::ops::is_quantization;
use onnxd_ir::{Graph, Layers, Model, Node, NodeId};

/// Turns operators on integers (`QLinearConv`, ...) into operators on floats between
/// `DequantizeLinear` and `QuantizeLinear`.
pub fn unfold(model: &mut Model) -> Folded {
    let opset = model.opset();
    let mut report = Folded::default();
    each_graph(&mut model.graph, &mut |graph| unfold_graph(graph, opset, &mut report));
    report
}

/// Whether a model is quantized already: it computes with quantized integers, or makes them.
pub fn is_quantized(model: &Model) -> bool {
    let mut found = false;
    model.for_each_graph(|graph| found |= graph.nodes().any(|(_, n)| is_quantization(&n.op)));
    found
}

fn unfold_graph(graph: &mut Graph, opset: i64, report: &mut Folded) {
    let Ok(order) = graph.topological() else { return };
    for id in order {
        let Some(node) = graph.node(id).cloned() else { continue };
        let Some(rule) = forms::unfold_of(&node) else { continue };
        // What the standard has for floats too is only of interest where integers are quantized.
        let also_on_floats = forms::fold_of(&node).is_some();
        if also_on_floats && !node.inputs.iter().flatten().any(|v| made_of(graph, *v).is_ok()) {
            continue;
        }
        let (name, op) = (name_of(graph, &node), node.op.clone());
        let mut site = UnfoldContext { graph, opset, node };
        match rule(&mut site) {
            Ok(float) => {
                report.folded.push((name, op, float.node.op.clone()));
                replace(graph, id, float);
            }
            Err(why) => report.left.push((name, why)),
        }
    }
}

fn replace(graph: &mut Graph, id: NodeId, mut float: Float) {
    let mut gone = vec![graph.remove_node(id)];
    let further = float.instead.unwrap_or_default();
    gone.extend(further.into_iter().map(|id| graph.remove_node(id)));
    let layers: Layers = gone.iter().map(|node| node.layers.clone()).collect();
    float.node.outputs = gone[gone.len() - 1].outputs.clone();
    for i in 0..float.count.min(float.node.outputs.len()) {
        let (Some(out), Some((scale, zero))) = (float.node.outputs[i], float.made) else {
            continue;
        };
        let real = format!("{}_float", graph[out].name);
        let real = graph.add_value(&real, None);
        float.node.outputs[i] = Some(real);
        let name = graph[out].name.clone();
        let quantize = ("QuantizeLinear", real, out);
        add_linear(graph, quantize, (scale, zero), None, (&name, &layers));
    }
    let name = &gone[0].name;
    float.node.name = name.strip_suffix(SUFFIX).unwrap_or(name).to_owned();
    float.node.layers.add(&layers);
    graph.add_node(float.node);
    sweep(graph, gone.iter().flat_map(Node::reads).collect());
}
