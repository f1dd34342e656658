use super::*;
use onnxd_plugin_sdk::ir::DataType;

fn network() -> (Graph, ValueId, ValueId) {
    let mut graph = Graph::new("net");
    let sizes = [Dim::Symbol("n".into()), Dim::Known(4), Dim::Known(5), Dim::Known(3)];
    let ty = Some(ValueType::tensor(DataType::Float, sizes.to_vec()));
    let x = graph.add_input("x", ty.clone());
    let y = graph.add_value("y", ty);
    graph.add_node(Node::new("Relu", [x], [y]));
    graph.mark_output(y);
    (graph, x, y)
}

fn words(graph: &Graph) -> Vec<String> {
    let all = graph.inputs().iter().chain(graph.outputs());
    all.map(|id| format!("{} {}", graph[*id].name, graph[*id].ty.as_ref().unwrap())).collect()
}

#[test]
fn borders_have_channels_first() {
    let (mut graph, x, y) = network();
    assert_eq!(named(&graph, &[x, y], "k", &["*".into()]).unwrap(), [x, y]);
    input(&mut graph, x);
    output(&mut graph, y);
    assert_eq!(words(&graph), ["x float[n,3,4,5]", "y float[n,3,4,5]"]);
    let ops: Vec<&str> = graph.nodes().map(|(_, node)| node.op.as_str()).collect();
    assert_eq!(ops, ["Relu", "Transpose", "Transpose"]);
}

#[test]
fn an_output_that_is_an_input_has_both_orders() {
    let (mut graph, x, _) = network();
    graph.set_outputs(vec![x]);
    output(&mut graph, x);
    assert_eq!(words(&graph), ["x float[n,4,5,3]", "x_channels_first float[n,3,4,5]"]);
}

#[test]
fn names_that_do_not_fit_are_told() {
    let (mut graph, x, _) = network();
    let said = |graph: &Graph, name: &str| named(graph, &[x], "k", &[name.into()]).unwrap_err();
    assert_eq!(said(&graph, "z").message, "`k` names `z`, which is none of: x.");
    graph[x].ty = Some(ValueType::tensor(DataType::Float, vec![Dim::Known(4); 2]));
    assert_eq!(said(&graph, "x").message, "`k` names `x`, which has no channels.");
    assert!(named(&graph, &[x], "k", &["*".into()]).unwrap().is_empty());
}
