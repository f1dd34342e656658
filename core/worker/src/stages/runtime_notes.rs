//! The runtimes and processors that a quantized model is meant for, and what ONNX Runtime makes of it elsewhere.

use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::runtime::{rounds_input, saturates, slows};
use onnxd_ir::{Model, verify};

/// Nodes that are named, of those that something is said of.
const NAMED_MAX: usize = 2;

/// What is said of a model that was quantized before it came here, if ONNX Runtime does not compute it exactly on every
/// processor.
pub(super) fn quantized_before(model: &Model) -> Option<Diagnostic> {
    let mut is_inexact = false;
    model.for_each_graph(|graph| {
        let inexact = |node| saturates(graph, node) || rounds_input(graph, node);
        is_inexact |= graph.nodes().any(|(_, node)| inexact(node));
    });
    let text = || format!("the model came quantized, and is for {}", meant_for(model));
    let help = "Set the option in the program that runs the model.";
    is_inexact.then(|| Diagnostic::new(Code::QuantizationLoss, text()).help(help))
}

/// Nodes whose accumulators of `int8` saturate in ONNX Runtime on processors without VNNI, in words. Those of integer
/// graphs (`MatMulInteger`) are as the scheme defines them.
pub(super) fn saturating(model: &Model) -> Option<String> {
    let mut found = Vec::new();
    model.for_each_graph(|graph| {
        let nodes = graph.nodes().map(|(_, node)| node).filter(|node| !node.is("MatMulInteger"));
        let nodes = nodes.filter(|node| saturates(graph, node));
        found.extend(nodes.map(|node| verify::layer(graph, node).name));
    });
    (!found.is_empty()).then(|| named(&found))
}

/// What the receipt says behind `for`.
pub(super) fn meant_for(model: &Model) -> String {
    // Whether its option keeps them from saturating.
    let (mut own, mut help) = (false, true);
    let (mut saturating, mut rounded) = (Vec::new(), Vec::new());
    let (mut slow, mut slowing) = (Vec::new(), Vec::new());
    model.for_each_graph(|graph| {
        for (_, node) in graph.nodes() {
            own |= node.domain == "com.microsoft";
            let name = || verify::layer(graph, node).name;
            if saturates(graph, node) {
                help &= node.op != "QLinearMatMul";
                saturating.push(name());
            }
            rounded.extend(rounds_input(graph, node).then(name));
            slow.extend(node.is("ConvInteger").then(name));
            slowing.extend(slows(graph, node).then(name));
        }
    });
    let runtime = if own { "ONNX Runtime" } else { "runtimes of the ONNX standard" };
    let processors =
        if saturating.is_empty() { "every processor" } else { "ARM and on x86-64 with VNNI" };
    let mut text = format!("{runtime} on {processors}");
    if !saturating.is_empty() {
        // The option turns weights of `int8` into `uint8`, but not those of this operator.
        let option = match help {
            true => " unless its option `session.x64quantprecision` is 1",
            false => "",
        };
        let nodes = named(&saturating);
        text += &format!(
            "; without VNNI, accumulators of int8 in {nodes} saturate in ONNX Runtime{option}"
        );
    }
    if !rounded.is_empty() {
        text += &format!(
            "; ONNX Runtime's optimizations round to 8 bits what {} read, unless its option \
             `session.qdq_matmulnbits_accuracy_level` is 1",
            named(&rounded)
        );
    }
    if !slow.is_empty() {
        // Seen in ONNX Runtime 1.31: two to three times as long (`judges/speed_quantized.py`).
        text += &format!(
            "; ONNX Runtime is slower on the ConvInteger of {} than in float",
            named(&slow)
        );
    }
    if !slowing.is_empty() {
        text += &format!(
            "; ONNX Runtime may be slower on it than in float: {} read depthwise convolutions",
            named(&slowing)
        );
    }
    text
}

/// How many nodes, and the first of them by name.
fn named(nodes: &[String]) -> String {
    let some = nodes[..nodes.len().min(NAMED_MAX)].join(", ");
    let more = if nodes.len() > NAMED_MAX { ", ..." } else { "" };
    let count = if nodes.len() == 1 { "1 node" } else { &format!("{} nodes", nodes.len()) };
    format!("{count} ({some}{more})")
}
