//! What a written model needs although a source may do without: types of outputs and distinct names
//! of nodes, because checkers and runtimes insist on them.

use onnxd_ir::{Graph, Model, NodeId, ValueId, ValueType, infer};
use std::collections::HashSet;

/// Infers what the outputs do not declare; whether anything was missing.
pub(crate) fn complete_outputs(model: &mut Model) -> bool {
    let outputs = model.graph.outputs().to_vec();
    let complete = |graph: &Graph, v: &ValueId| match &graph[*v].ty {
        Some(ValueType::Tensor { dtype, shape }) => dtype.is_some() && shape.is_some(),
        other => other.is_some(),
    };
    if outputs.iter().all(|v| complete(&model.graph, v)) {
        return false;
    }
    let mut inferred = model.clone();
    // Contradictions are the verification's to report.
    let _ = infer::infer(&mut inferred);
    for v in outputs {
        if !complete(&model.graph, &v) {
            model.graph[v].ty = inferred.graph[v].ty.take();
        }
    }
    true
}

/// Gives a node whose name another one of its graph has a number; nameless ones stay so.
pub(crate) fn distinct_node_names(model: &mut Model) {
    model.for_each_graph_mut(&mut |graph, _| distinct_in(graph));
}

fn distinct_in(graph: &mut Graph) {
    let mut taken: HashSet<String> = graph.nodes().map(|(_, n)| n.name.clone()).collect();
    let mut seen: HashSet<String> = HashSet::new();
    let repeated: Vec<NodeId> = graph
        .nodes()
        .filter(|(_, n)| !n.name.is_empty() && !seen.insert(n.name.clone()))
        .map(|(id, _)| id)
        .collect();
    for (i, id) in repeated.into_iter().enumerate() {
        let base = graph[id].name.clone();
        // Counting on from `i` keeps a million equal names from costing a quadratic search.
        let mut numbered = (i + 1..).map(|n| format!("{base}_{n}"));
        let name = numbered.find(|name| !taken.contains(name)).expect("names do not run out");
        taken.insert(name.clone());
        graph.node_mut(id).name = name;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onnxd_ir::ops::Relu;
    use onnxd_ir::{DataType, Node};

    fn model() -> Model {
        let mut g = Graph::new("g");
        let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2, 3])));
        let y = g.add("y", Relu::new(x));
        g.mark_output(y);
        Model::new(g, 8, 17)
    }

    #[test]
    fn an_output_without_a_type_gets_one() {
        let mut model = model();
        assert!(complete_outputs(&mut model));
        let y = model.graph.outputs()[0];
        assert_eq!(model.graph[y].ty.as_ref().unwrap().to_string(), "float[2,3]");
        assert!(!complete_outputs(&mut model));
    }

    #[test]
    fn names_of_nodes_become_distinct() {
        let mut model = model();
        let g = &mut model.graph;
        let x = g.inputs()[0];
        for name in ["same", "same_1", "same", "same", "", ""] {
            let out = g.add_value("v", None);
            g.add_node(Node { name: name.into(), ..Node::new("Relu", [x], [out]) });
        }
        distinct_node_names(&mut model);
        let names: Vec<&str> = model.graph.nodes().map(|(_, n)| n.name.as_str()).collect();
        assert_eq!(names, ["", "same", "same_1", "same_2", "same_3", "", ""]);
    }
}
