//! The model around a graph that was lowered.

use onnxd_ir::{Graph, Model};
use std::collections::BTreeSet;

/// Version of the file format.
const IR_VERSION: i64 = 8;

/// A model around a graph. Operators of other domains, which passes lower, are those of version 1.
pub fn model(graph: Graph, opset: i64) -> Model {
    let mut model = Model::new(graph, IR_VERSION, opset);
    let mut domains = BTreeSet::new();
    model.for_each_graph(|graph| {
        let nodes = graph.nodes().filter(|(_, node)| !node.is_standard());
        domains.extend(nodes.map(|(_, node)| node.domain.clone()));
    });
    for domain in domains {
        model.opsets.entry(domain).or_insert(1);
    }
    model
}

/// Writes to nodes where in the source they come from, as far as they do not say it.
pub fn documented(graph: &mut Graph) {
    for id in graph.node_ids() {
        let node = graph.node_mut(id);
        if let (true, Some(layer)) = (node.doc.is_empty(), node.layers.first()) {
            node.doc = match layer.place.as_str() {
                "" => layer.name.clone(),
                place => place.to_owned(),
            };
        }
        graph.edit_subgraphs(id, documented);
    }
}
