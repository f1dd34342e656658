//! Reading a model whose tensors may lie in other files of the submission.

use onnxd_plugin_sdk::diagnostics::{Code, Diagnostic, Diagnostics, Layer};
use onnxd_plugin_sdk::ir::{Model, settle_shapes};
use onnxd_plugin_sdk::opset::settle_early;
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
    let mut notes: Vec<Diagnostic> = decoded.notes.into_iter().map(note).collect();
    let dense = write_out_sparse(&mut model);
    if dense > 0 {
        notes.push(note(format!(
            "{dense} sparse initializers were written out, because the standard's operators take none"
        )));
    }
    notes.extend(settle_early(&mut model));
    notes.extend(settle_shapes(&mut model).0);
    Ok(Imported { model, notes, ..Imported::default() })
}

/// Bytes that sparse initializers may take when they are written out.
const DENSE_BYTES_MAX: usize = 1 << 30;

/// Makes sparse initializers dense, as ONNX Runtime does: the checker takes them for tensors without sizes. How many
/// there were.
fn write_out_sparse(model: &mut Model) -> usize {
    let (mut count, mut left) = (0, DENSE_BYTES_MAX);
    model.for_each_graph_mut(&mut |graph, _| {
        for (id, sparse) in std::mem::take(&mut graph.sparse) {
            match sparse.to_dense(left) {
                Some(dense) => {
                    left -= dense.byte_len();
                    count += 1;
                    graph.set_initializer(id, Some(dense));
                }
                None => {
                    graph.sparse.insert(id, sparse);
                }
            }
        }
    });
    count
}

/// The nodes of the file, those of sub-graphs and functions too, are the layers that later diagnostics and the report
/// speak of.
fn name_layers(model: &mut Model) {
    model.for_each_graph_mut(&mut |graph, _| {
        for id in graph.node_ids() {
            let node = &graph[id];
            let output = || node.output(0).map(|v| graph[v].name.clone()).unwrap_or_default();
            let name = if node.name.is_empty() { output() } else { node.name.clone() };
            // A model that onnxd wrote knows more: the layers that a fused node came from. Then the name of an output
            // tells nothing, and neither does the operator of a layer that is known.
            let told = !node.layers.is_empty()
                && (node.name.is_empty() || node.layers.iter().any(|known| known.name == name));
            if !told {
                let layer = Layer::new(name, node.op.clone());
                graph.node_mut(id).layers.push(layer);
            }
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_plugin_sdk::ir::ops::Relu;
    use onnxd_plugin_sdk::ir::{Attr, Graph, Node, SparseTensor, Tensor};

    #[test]
    fn sparse_initializers_are_written_out() {
        let mut graph = Graph::new("g");
        let w = graph.add_value("w", None);
        let (values, indices) = (Tensor::vector(vec![1.5f32]), Tensor::vector(vec![2i64]));
        graph.sparse.insert(w, SparseTensor { values, indices, dims: vec![2, 2] });
        let mut model = Model::new(graph, 8, 17);
        assert_eq!(write_out_sparse(&mut model), 1);
        let dense = Tensor::from_vec(vec![2, 2], vec![0f32, 0.0, 1.5, 0.0]);
        assert_eq!(model.graph[w].initializer(), Some(&dense));
        assert!(model.graph.sparse.is_empty());
        let (values, indices) = (Tensor::vector(vec![1.5f32]), Tensor::vector(vec![2i64]));
        let huge = SparseTensor { values, indices, dims: vec![1 << 20, 1 << 20] };
        model.graph.sparse.insert(w, huge);
        assert_eq!(write_out_sparse(&mut model), 0);
        assert_eq!(model.graph.sparse.len(), 1);
    }

    #[test]
    fn layers_that_the_file_tells_stay_as_they_are() {
        let named = |name: &str, told: &[(&str, &str)]| {
            let mut graph = Graph::new("g");
            let x = graph.add_input("x", None);
            let y = graph.add("y", Relu::new(x));
            let id = graph.producer(y).unwrap();
            name.clone_into(&mut graph.node_mut(id).name);
            graph.node_mut(id).layers =
                told.iter().map(|(n, kind)| Layer::new(*n, *kind)).collect();
            let mut model = Model::new(graph, 8, 17);
            name_layers(&mut model);
            let layers = model.graph[id].layers.iter();
            layers.map(|l| format!("{} {}", l.name, l.kind)).collect::<Vec<_>>().join(", ")
        };
        assert_eq!(named("", &[]), "y Relu");
        assert_eq!(named("", &[("a", "Add")]), "a Add");
        assert_eq!(named("a", &[("a", "Add")]), "a Add");
        assert_eq!(named("b", &[("a", "Add")]), "a Add, b Relu");
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
