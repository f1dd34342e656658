//! From pairs of `QuantizeLinear` and `DequantizeLinear` around operators on floats to operators
//! on integers. Which operator becomes which is told by the tables in [`crate::emit::forms`]; here is
//! what all have in common.
//!
//! Both forms compute the same: sums of integers are exact in both, and what differs is where
//! they are rounded. `QLinearConv`, `QLinearMatMul` and `QGemm` multiply the exact sum by one
//! `float` factor, where the other form adds up products of floats, so that a result which lies
//! almost between two integers may become the other one. The same holds for operators that round
//! once where the other form rounds several times (`QLinearAdd`, `QLinearMul`, pooling), and
//! `QLinearSoftmax` takes its exponentials from a table. What only moves elements is equal always.

use crate::emit::forms::{self, FoldContext, Folded, SUFFIX};
use crate::graph::quantized::{MICROSOFT, dequantize_source, each_graph, is_linear, sweep};
use crate::graph::weighted::is_weighted;
use crate::report::name_of;
use onnxd_ir::{Graph, Layers, Model, Node, NodeId};
use std::collections::BTreeSet;

/// Turns operators between `DequantizeLinear` and `QuantizeLinear` into operators on integers
/// (`QLinearConv`, ...), where ONNX Runtime has a kernel for them. Types should be inferred.
pub fn fold(model: &mut Model) -> Folded {
    fold_for(model, true)
}

/// As [`fold`]. If it is not to be `exact` on every processor, weights of `int8` stay, which run faster on those with
/// instructions for sums of 8-bit products.
pub fn fold_for(model: &mut Model, exact: bool) -> Folded {
    fold_if(model, forms::drop_needless, &|_| true, exact)
}

/// As [`fold`], of weighted operators only: `Conv`, `ConvTranspose`, `Gemm` and `MatMul`.
pub fn fold_weighted(model: &mut Model) -> Folded {
    fold_if(model, |_, _| {}, &is_weighted, true)
}

fn fold_if(
    model: &mut Model,
    first: fn(&mut Graph, &mut Folded),
    wanted: &dyn Fn(&Node) -> bool,
    exact: bool,
) -> Folded {
    let opset = model.opset();
    let mut report = Folded::default();
    each_graph(&mut model.graph, &mut |graph| {
        first(graph, &mut report);
        fold_graph(graph, (opset, exact), wanted, &mut report);
    });
    let mut uses_microsoft = false;
    model.for_each_graph(|graph| {
        uses_microsoft |= graph.nodes().any(|(_, node)| node.domain == MICROSOFT);
    });
    if uses_microsoft {
        model.opsets.entry(MICROSOFT.into()).or_insert(1);
    }
    report
}

fn fold_graph(
    graph: &mut Graph,
    (opset, exact): (i64, bool),
    wanted: &dyn Fn(&Node) -> bool,
    report: &mut Folded,
) {
    let Ok(order) = graph.topological() else { return };
    for id in order {
        let Some(node) = graph.node(id).cloned() else { continue };
        let between = node.inputs.iter().flatten().any(|v| dequantize_source(graph, *v).is_ok());
        if !between || is_linear(&node, "QuantizeLinear") || !wanted(&node) {
            continue;
        }
        let (name, op) = (name_of(graph, &node), node.op.clone());
        let rule = forms::fold_of(&node);
        let made = match rule {
            Some(rule) => rule(&mut FoldContext { graph, opset, node, exact }),
            None => Err(format!("no operator on integers stands for {op}")),
        };
        match made {
            Ok(made) => {
                report.folded.push((name, op, made.op.clone()));
                replace(graph, id, made);
            }
            Err(why) => report.left.push((name, why)),
        }
    }
}

/// Puts `made` in the place of the node `id` and of those that quantized of its results.
fn replace(graph: &mut Graph, id: NodeId, mut made: Node) {
    let stale = graph.remove_node(id);
    let mut gone = vec![stale];
    for v in made.outputs.iter().flatten() {
        if let Some(quantize) = graph.producer(*v) {
            gone.push(graph.remove_node(quantize));
        }
    }
    let reads = gone.iter().flat_map(Node::reads).collect::<BTreeSet<_>>();
    if made.op == gone[0].op {
        made.name.clone_from(&gone[0].name);
    } else if !gone[0].name.is_empty() {
        made.name = format!("{}{SUFFIX}", gone[0].name);
    }
    let id = graph.add_node(made);
    gone.extend(sweep(graph, reads.into_iter().collect()));
    let layers: Layers = gone.into_iter().map(|node| node.layers).collect();
    graph.node_mut(id).layers.add(&layers);
}
