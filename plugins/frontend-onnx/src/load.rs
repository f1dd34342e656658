//! Reading a model whose tensors may lie in other files of the submission.

use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer, shown};
use onnxd_plugin_sdk::ir::{DataType, Model};
use onnxd_plugin_sdk::onnx::{self, TensorLoader};
use onnxd_plugin_sdk::rewrite::for_each_graph_mut;
use onnxd_plugin_sdk::{Imported, Submission};

pub(crate) fn load(submission: &Submission) -> Result<Imported, Diagnostics> {
    let bytes = submission.read(submission.network())?;
    let decoded = onnx::decode(bytes, &mut External(submission))?;
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

/// `location`, which is relative to the model's folder, relative to the submission's root; without steps that lead
/// nowhere (`./weights.bin`).
pub(crate) fn beside(network: &str, location: &str) -> String {
    let folder = network.rsplit_once('/').map(|(folder, _)| folder);
    let steps = location.split('/').filter(|step| *step != ".");
    folder.into_iter().chain(steps).collect::<Vec<_>>().join("/")
}

/// Finds external data among the dropped files. Names that leave the submission are not among them.
struct External<'s>(&'s Submission);

impl TensorLoader for External<'_> {
    fn load(
        &mut self,
        dtype: DataType,
        dims: &[usize],
        entries: &[(String, String)],
    ) -> Result<Bytes, Diagnostic> {
        let entry = |key: &str| entries.iter().find(|(k, _)| k == key).map(|(_, v)| v.as_str());
        let Some(location) = entry("location") else {
            return Err(invalid("external data without a location"));
        };
        let file = self.0.read(&beside(self.0.network(), location)).map_err(|d| Diagnostic {
            code: Code::OnnxExternalData.as_str().into(),
            message: format!("external data file `{}`: {}", shown(location), d.message),
            help: Code::OnnxExternalData.help().into(),
            ..d
        })?;
        let number = |key: &str| {
            let value = entry(key).map(str::parse::<u64>).transpose();
            value.map_err(|_| invalid(&format!("external data with a bad {key}")))
        };
        let offset = number("offset")?.unwrap_or(0);
        let elements = dims.iter().try_fold(1usize, |n, d| n.checked_mul(*d));
        let wanted = elements.and_then(|n| dtype.byte_len(n)).unwrap_or(usize::MAX) as u64;
        let length = number("length")?.unwrap_or(wanted);
        match offset.checked_add(length) {
            Some(end) if end <= file.len() as u64 => Ok(file.slice(offset as usize..end as usize)),
            _ => Err(invalid(&format!(
                "`{}` has {} bytes, the tensor's data is said to be {length} bytes at {offset}",
                shown(location),
                file.len()
            ))),
        }
    }
}

fn invalid(message: &str) -> Diagnostic {
    Diagnostic::new(Code::OnnxExternalData, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::ops::Relu;
    use onnxd_plugin_sdk::ir::{Attr, Graph, Node};

    #[test]
    fn locations_are_relative_to_the_model() {
        assert_eq!(beside("net.onnx", "w.bin"), "w.bin");
        assert_eq!(beside("models/net.onnx", "./sub/./w.bin"), "models/sub/w.bin");
        assert_eq!(beside("models/net.onnx", "../w.bin"), "models/../w.bin", "no dropped file");
    }

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
