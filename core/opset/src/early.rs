//! Operators that ONNX Runtime writes into the standard's domain although the imported version, or any, has none of
//! that name. It reads them; nothing else does. They are said with operators that the version has.

use crate::context::{LowerContext, OpsetStep};
use crate::step::{edit, in_layers_of, standard};
use crate::{forget_types, table, typed};
use onnxd_build::GraphBuilder;
use onnxd_diagnostics::{Code, Diagnostic};
use onnxd_ir::{Model, NodeId, infer, schema, verify};

/// How ONNX Runtime calls them, what the standard calls them, and in which version it took them up.
const EARLY: [(&str, &str, i64); 2] = [
    ("LayerNormalization", "LayerNormalization", 17),
    ("SimplifiedLayerNormalization", "RMSNormalization", 23),
];

/// Says such nodes of `model` with operators of the versions it imports, and tells of each. What cannot be said stays
/// as it is, for the verification to look at.
pub fn settle_early(model: &mut Model) -> Vec<Diagnostic> {
    let mut any = false;
    model.for_each_graph(|g| any |= g.nodes().any(|(_, node)| early(&node.op).is_some()));
    if !any {
        return Vec::new();
    }
    let typed = typed(model);
    // Contradictions are the verification's to report.
    let _ = infer::infer(model);
    let mut found = Vec::new();
    let opset = standard(&model.opsets).unwrap_or(0);
    edit(&mut model.graph, &model.opsets, |b| settle_graph(b, opset, &mut found));
    for function in &mut model.functions {
        let opset = standard(&function.opsets).unwrap_or(opset);
        edit(&mut function.graph, &function.opsets, |b| settle_graph(b, opset, &mut found));
    }
    forget_types(model, &typed);
    found
}

fn early(op: &str) -> Option<&'static (&'static str, &'static str, i64)> {
    EARLY.iter().find(|(name, ..)| *name == op)
}

fn settle_graph(b: &GraphBuilder, opset: i64, found: &mut Vec<Diagnostic>) {
    let all = b.graph().node_ids();
    for id in all {
        let inner = b.graph()[id].subgraphs().next().is_some();
        if inner {
            b.in_subgraphs(id, |b| settle_graph(b, opset, found));
        }
        found.extend(settle_node(b, id, opset));
    }
}

fn settle_node(b: &GraphBuilder, id: NodeId, opset: i64) -> Option<Diagnostic> {
    let (op, adapter, layer) = {
        let graph = b.graph();
        let node = &graph[id];
        let (op, name, since) = *early(&node.op).filter(|_| node.is_standard())?;
        let exists = op == name && schema::find("", name, opset).is_some();
        // The statistics have no name in the standard's simplified one.
        let more = name == "RMSNormalization" && node.outputs.iter().skip(1).any(Option::is_some);
        if exists || more {
            return None;
        }
        (op, table::find(name, since)?.down?, verify::layer(&graph, node))
    };
    let step = OpsetStep { from: opset, to: opset, target: opset };
    // Types that are not known are the only reason why it cannot be said.
    let bound = b.graph().node_bound();
    if in_layers_of(b, id, || adapter(&mut LowerContext::new(b, id, step))).is_err() {
        let added = b.graph().nodes_from(bound);
        added.into_iter().for_each(|id| drop(b.graph_mut().remove_node(id)));
        return None;
    }
    let text = format!(
        "opset {opset} has no `{op}`, which ONNX Runtime writes into models that it saves; it was \
         written with operators that opset {opset} has"
    );
    Some(
        Diagnostic::new(Code::OpsetConversion, text)
            .at(layer)
            .help("ONNX Runtime joins them again."),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::text::parse_model;

    fn settled(opset: i64, ops: &str) -> (Model, usize) {
        let text = format!(
            r#"<ir_version: 8, opset_import: ["" : {opset}]> g (float[2,4] x, bool c) => (float[2,4] y)
            <float[4] s = {{1, 2, 3, 4}}, float[4] b = {{0, 1, 0, 1}}> {{ {ops} }}"#
        );
        let mut model = parse_model(&text).unwrap();
        let found = settle_early(&mut model).len();
        (model, found)
    }

    #[test]
    fn what_onnx_runtime_saved_is_said_in_the_version_that_is_imported() {
        let both = "l = LayerNormalization<axis = -1, epsilon = 0.001>(x, s, b)
            y = If(c) <then_branch = t () => (float[2,4] p) { p = SimplifiedLayerNormalization(l, s) },
                else_branch = e () => (float[2,4] q) { q = Abs(l) }>";
        for (opset, changed) in [(11, 2), (13, 2), (16, 2), (17, 1), (18, 1), (21, 1)] {
            let (mut model, found) = settled(opset, both);
            assert_eq!(found, changed, "opset {opset}");
            let findings = onnxd_ir::examine(&mut model, verify::VerifyLevel::Full);
            assert!(findings.0.is_empty(), "opset {opset}: {findings}");
            let mut left = 0;
            model.for_each_graph(|g| {
                left += g.nodes().filter(|(_, n)| early(&n.op).is_some()).count();
            });
            assert_eq!(left, 2 - changed);
        }
        let (_, found) = settled(17, "y, v = SimplifiedLayerNormalization(x, s)");
        assert_eq!(found, 0, "statistics are wanted");
    }
}
