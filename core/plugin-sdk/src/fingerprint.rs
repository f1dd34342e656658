//! Tells models apart by what they compute.

use crate::diagnostics::Diagnostic;
use crate::ir::{Layers, Model, Tensor};
use onnxd_onnx::Placement;
use xxhash_rust::xxh3::Xxh3;

/// A digest of what `model` computes and of all its names, in hexadecimal. Where it came from, documentation and
/// other metadata make no difference. It tells models apart that differ by accident, not by intent: for that,
/// weights are read at the speed of memory.
///
/// # Errors
/// If the model cannot be encoded.
pub fn fingerprint(model: &Model) -> Result<String, Diagnostic> {
    let mut model = model.clone();
    model.metadata.clear();
    (model.doc, model.producer_name, model.producer_version) = Default::default();
    model.for_each_graph_mut(&mut |graph, _| {
        graph.doc.clear();
        for id in graph.node_ids() {
            let node = graph.node_mut(id);
            node.doc.clear();
            node.layers = Layers::default();
            node.metadata.clear();
        }
        for v in graph.value_ids() {
            graph[v].doc.clear();
        }
    });
    let mut hasher = Xxh3::new();
    let mut tensors = 0;
    let mut hashed = |tensor: &Tensor| {
        tensors += 1;
        tensor.in_blocks(|block| {
            hasher.update(block);
            Ok(())
        })?;
        Ok(Placement::Handle(tensors))
    };
    let graph = onnxd_onnx::encode_to_bytes(&model, &mut hashed)?;
    hasher.update(&graph);
    Ok(format!("{:032x}", hasher.digest128()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ir::ops::Add;
    use crate::ir::{DataType, Graph, ValueType};

    fn model(weight: f32) -> Model {
        let mut g = Graph::new("g");
        let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2])));
        let w = g.add_initializer("w", Tensor::vector(vec![weight, 1.0]));
        let y = g.add("y", Add::new(x, w));
        g.mark_output(y);
        Model::new(g, 8, 17)
    }

    #[test]
    fn weights_and_names_count_and_remarks_do_not() {
        let first = fingerprint(&model(1.0)).unwrap();
        assert_eq!(first.len(), 32);
        assert_ne!(first, fingerprint(&model(2.0)).unwrap());
        let mut same = model(1.0);
        same.doc = "a remark".into();
        same.set_metadata("source", "elsewhere.ini");
        assert_eq!(first, fingerprint(&same).unwrap());
        let mut other = model(1.0);
        let y = other.graph.outputs()[0];
        other.graph.rename(y, "z");
        assert_ne!(first, fingerprint(&other).unwrap());
    }
}
