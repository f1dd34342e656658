//! Reading a model whose tensors may lie in other files of the submission.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::Model;
use onnxd_plugin_sdk::rewrite::for_each_graph_mut;
use onnxd_plugin_sdk::{External, Imported, Submission, onnx};

pub(crate) fn load(submission: &Submission) -> Result<Imported, Diagnostics> {
    let bytes = submission.read(submission.network())?;
    let decoded = onnx::decode(
        bytes,
        &mut External::new(submission.network(), &|path| submission.read(path)),
    )?;
    let mut model = decoded.model;
    name_layers(&mut model);
    let note = |text: String| Diagnostic::new(Code::LayerParameterIgnored, text).help("");
    Ok(Imported { model, notes: decoded.notes.into_iter().map(note).collect(), metadata: vec![] })
}

/// The nodes of the file, those of sub-graphs and functions too, are the layers that later diagnostics and the report
/// speak of.
fn name_layers(model: &mut Model) {
    for_each_graph_mut(model, &mut |graph, _| {
        for id in graph.node_ids() {
            let node = &graph[id];
            let output = || node.output(0).map(|v| graph[v].name.clone()).unwrap_or_default();
            let name = if node.name.is_empty() { output() } else { node.name.clone() };
            let layer = Layer::new(name, node.op.clone());
            let layers = &mut graph.node_mut(id).layers;
            // A model that onnxd wrote knows more: the layers that a fused node came from.
            if !layers.contains(&layer) {
                layers.push(layer);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::ops::Relu;
    use onnxd_plugin_sdk::ir::{Attr, Graph, Node};

    #[test]
    fn nodes_of_subgraphs_are_layers_too() {
        let mut inner = Graph::new("body");
        let x = inner.add_input("x", None);
        let y = inner.add("inner_y", Relu::new(x));
        inner.mark_output(y);
        let mut graph = Graph::new("g");
        let out = graph.add_value("out", None);
        let node = Node { name: "branch".into(), ..Node::new("If", [], [out]) };
        let id = graph.add_node(node);
        graph.node_mut(id).attrs.push(("then_branch".into(), Attr::Graph(Box::new(inner))));
        graph.mark_output(out);
        let mut model = Model::new(graph, 8, 17);
        name_layers(&mut model);
        assert_eq!(model.graph[id].layers, [Layer::new("branch", "If")]);
        let inner = model.graph[id].subgraphs().next().unwrap();
        let (_, relu) = inner.nodes().next().unwrap();
        assert_eq!(relu.layers, [Layer::new("inner_y", "Relu")]);
    }
}
