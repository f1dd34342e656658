//! What breaks the standard is named: the code, the place, all at once.

use crate::build::*;
use bytes::Bytes;
use onnxd_diagnostics::Diagnostics;
use onnxd_ir::Origin;
use onnxd_onnx::{Decoded, Inline, NoExternalData, from_proto, to_proto};
use onnxd_proto::onnx::*;

fn model(graph: GraphProto) -> ModelProto {
    let import = OperatorSetIdProto { domain: Some(String::new()), version: Some(17) };
    ModelProto {
        ir_version: Some(8),
        opset_import: vec![import],
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn node(op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    NodeProto {
        op_type: Some(op.into()),
        name: Some(format!("{}_node", op.to_lowercase())),
        input: inputs.iter().map(|s| (*s).to_owned()).collect(),
        output: outputs.iter().map(|s| (*s).to_owned()).collect(),
        ..NodeProto::default()
    }
}

fn value(name: &str) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.into()), ..ValueInfoProto::default() }
}

fn tensor(name: &str, dims: &[i64], data_type: i32, raw: &[u8]) -> TensorProto {
    TensorProto {
        name: Some(name.into()),
        dims: dims.to_vec(),
        data_type: Some(data_type),
        raw_data: Some(Bytes::copy_from_slice(raw)),
        ..TensorProto::default()
    }
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto { name: Some(name.into()), r#type: Some(kind), ..AttributeProto::default() }
}

fn graph(nodes: Vec<NodeProto>) -> GraphProto {
    let g = GraphProto { node: nodes, input: vec![value("x")], ..GraphProto::default() };
    GraphProto { name: Some("g".into()), ..g }
}

fn run(proto: ModelProto) -> Result<Decoded, Diagnostics> {
    from_proto(proto, &mut NoExternalData)
}

/// Exactly one finding, with this code and these words.
#[track_caller]
fn finds(proto: ModelProto, code: &str, words: &[&str]) {
    let findings = run(proto).unwrap_err();
    assert_eq!(findings.0.len(), 1, "{findings}");
    assert_eq!(findings.0[0].code, code, "{findings}");
    for word in words {
        assert!(findings.0[0].message.contains(word), "no `{word}` in: {findings}");
    }
}

#[test]
fn names_that_nothing_defines() {
    let g = graph(vec![node("Relu", &["q"], &["y"])]);
    finds(model(g), "N0502", &["graph `g`, node 0 `relu_node` (Relu)", "`q` is read"]);

    let mut g = graph(vec![node("Relu", &["x"], &["y"])]);
    g.output = vec![value("z")];
    finds(model(g), "N0502", &["value `z`"]);
}

#[test]
fn nodes_may_be_unsorted_but_not_cyclic() {
    let mut g = graph(vec![node("Relu", &["h"], &["y"]), node("Neg", &["x"], &["h"])]);
    g.output = vec![value("y")];
    let decoded = run(model(g)).unwrap();
    assert_eq!(decoded.notes, ["the nodes of a graph are not in topological order"]);
    let proto = to_proto(&decoded.model, &mut Inline).unwrap();
    let ops: Vec<&str> =
        proto.graph.as_ref().unwrap().node.iter().map(NodeProto::op_type).collect();
    assert_eq!(ops, ["Neg", "Relu"]);
    assert!(run(proto).unwrap().notes.is_empty());

    let cyclic = graph(vec![node("Relu", &["h"], &["y"]), node("Neg", &["y"], &["h"])]);
    finds(model(cyclic), "N0502", &["2 nodes", "`relu_node` (Relu), `neg_node` (Neg)"]);
    finds(model(graph(vec![node("Relu", &["y"], &["y"])])), "N0502", &["1 nodes"]);
}

#[test]
fn a_sub_graph_may_read_what_a_later_node_defines() {
    let branch = |body: GraphProto| AttributeProto { g: Some(body), ..attribute("body", 5) };
    let inner = GraphProto { input: vec![], ..graph(vec![node("Neg", &["h"], &["n"])]) };
    let middle = NodeProto { attribute: vec![branch(inner)], ..node("If", &["x"], &["m"]) };
    let middle = GraphProto { input: vec![], ..graph(vec![middle]) };
    let user = NodeProto { attribute: vec![branch(middle)], ..node("If", &["x"], &["y"]) };
    let decoded = run(model(graph(vec![user, node("Relu", &["x"], &["h"])]))).unwrap();
    let order = decoded.model.graph.topological().unwrap();
    let ops = order.iter().map(|id| decoded.model.graph[*id].op.as_str());
    assert_eq!(ops.collect::<Vec<_>>(), ["Relu", "If"]);
}

#[test]
fn the_node_is_the_layer_of_the_finding() {
    let g = graph(vec![node("Relu", &["q"], &["y"])]);
    let findings = run(model(g)).unwrap_err();
    let layer = findings.0[0].layer.as_ref().unwrap();
    assert_eq!([&layer.name, &layer.kind], ["relu_node", "Relu"]);
}

#[test]
fn second_definitions() {
    let twice = graph(vec![node("Relu", &["x"], &["y"]), node("Neg", &["x"], &["y"])]);
    finds(model(twice), "N0502", &["node 1 `neg_node`", "defines `y` a second time"]);
    let same_node = graph(vec![node("Split", &["x"], &["y", "y"])]);
    finds(model(same_node), "N0502", &["defines `y` a second time"]);
    let mut inputs = graph(vec![]);
    inputs.input.push(value("x"));
    finds(model(inputs), "N0502", &["graph `g`", "defines `x` a second time"]);
    let mut initializers = graph(vec![]);
    initializers.initializer = vec![tensor("w", &[1], 2, &[1]), tensor("w", &[1], 2, &[2])];
    finds(model(initializers), "N0502", &["initializer `w`", "second time"]);
    let mut over_initializer = graph(vec![node("Relu", &["x"], &["w"])]);
    over_initializer.initializer = vec![tensor("w", &[1], 2, &[1])];
    finds(model(over_initializer), "N0502", &["defines `w` a second time"]);
}

#[test]
fn missing_names_and_types() {
    finds(model(graph(vec![node("", &["x"], &["y"])])), "N0502", &["no operator type"]);
    let mut g = graph(vec![]);
    g.input.push(value(""));
    finds(model(g), "N0502", &["input has no name"]);
    let mut g = graph(vec![]);
    g.initializer = vec![tensor("", &[1], 2, &[1])];
    finds(model(g), "N0502", &["initializer 0", "no name"]);
}

#[test]
fn tensors() {
    let cases: Vec<(TensorProto, &str, &str)> = vec![
        (tensor("w", &[2], 1, &[0; 7]), "N0502", "demand 8 bytes, it has 7"),
        (tensor("w", &[-1], 1, &[]), "N0502", "dimension -1"),
        (tensor("w", &[i64::MAX, i64::MAX], 1, &[]), "N0502", "overflows"),
        (tensor("w", &[1], 0, &[1]), "N0502", "no element type"),
        (tensor("w", &[1], 27, &[1]), "N0504", "element type 27"),
        (tensor("w", &[1], 8, b"text"), "N0502", "string_data, not in raw_data"),
        (TensorProto { int64_data: vec![1], ..tensor("w", &[1], 7, &[0; 8]) }, "N0502", "several"),
        (TensorProto { float_data: vec![1.0], ..tensor("w", &[1], 7, &[]) }, "N0502", "int64_data"),
        (TensorProto { int32_data: vec![256], ..tensor("w", &[1], 2, &[]) }, "N0502", "is 256"),
        (TensorProto { int32_data: vec![1], ..tensor("w", &[2], 2, &[]) }, "N0502", "has 1"),
        (
            TensorProto { segment: Some(Default::default()), ..tensor("w", &[1], 2, &[1]) },
            "N0214",
            "segments",
        ),
        (TensorProto { data_location: Some(1), ..tensor("w", &[1], 2, &[]) }, "N0503", "not in"),
        (TensorProto { data_location: Some(1), ..tensor("w", &[1], 8, &[]) }, "N0502", "strings"),
    ];
    for (proto, code, word) in cases {
        let mut g = graph(vec![]);
        g.initializer = vec![proto.clone()];
        finds(model(g), code, &["initializer `w`", word]);
        let t = AttributeProto { t: Some(proto), ..attribute("value", 4) };
        let g = graph(vec![NodeProto { attribute: vec![t], ..node("Constant", &[], &["y"]) }]);
        finds(model(g), code, &["(Constant), attribute `value`", word]);
    }
}

#[test]
fn sparse_tensors() {
    let sparse = |dims: &[i64], index_type: i32, index_dims: &[i64], indices: &[i64]| {
        let raw: Vec<u8> = indices.iter().flat_map(|i| i.to_le_bytes()).collect();
        let mut g = graph(vec![]);
        g.sparse_initializer = vec![SparseTensorProto {
            values: Some(tensor("s", &[2], 2, &[1, 2])),
            indices: Some(tensor("", index_dims, index_type, &raw)),
            dims: dims.to_vec(),
        }];
        model(g)
    };
    assert!(run(sparse(&[4], 7, &[2], &[1, 3])).is_ok());
    assert!(run(sparse(&[2, 3], 7, &[2, 2], &[0, 2, 1, 0])).is_ok());
    finds(sparse(&[4], 7, &[2], &[1, 4]), "N0502", &["initializer `s`", "index 1 lies outside"]);
    finds(sparse(&[4], 7, &[2], &[-1, 3]), "N0502", &["index 0 lies outside"]);
    finds(sparse(&[4], 7, &[2], &[3, 3]), "N0502", &["index 1 is not greater"]);
    finds(sparse(&[2, 3], 7, &[2, 2], &[1, 0, 0, 2]), "N0502", &["index 1 is not greater"]);
    finds(sparse(&[4], 7, &[3], &[0, 1, 2]), "N0502", &["do not fit"]);
    finds(sparse(&[4], 13, &[2], &[0, 1]), "N0502", &["int64, not uint64"]);
    finds(sparse(&[i64::MAX, 9], 7, &[2], &[0, 1]), "N0502", &["overflows"]);
}

#[test]
fn attributes() {
    let cases: Vec<(AttributeProto, &str, &str)> = vec![
        (
            AttributeProto { i: Some(1), f: Some(1.0), ..attribute("a", 2) },
            "N0502",
            "several values",
        ),
        (AttributeProto { f: Some(1.0), ..attribute("a", 2) }, "N0502", "has field f"),
        (attribute("a", 4), "N0502", "says type TENSOR, but has no value"),
        (attribute("a", 0), "N0502", "no value"),
        (AttributeProto { i: Some(1), ..attribute("a", 99) }, "N0504", "type 99"),
        (AttributeProto { i: Some(1), ..attribute("", 2) }, "N0502", "no name"),
        (
            AttributeProto { ref_attr_name: Some("b".into()), ..attribute("a", 2) },
            "N0502",
            "is in none",
        ),
    ];
    for (proto, code, word) in cases {
        let g = graph(vec![NodeProto { attribute: vec![proto], ..node("Op", &["x"], &["y"]) }]);
        finds(model(g), code, &["node 0 `op_node` (Op)", word]);
    }
    let absent = vec![attribute("i", 2), attribute("s", 3), attribute("ints", 7)];
    let untyped = AttributeProto { r#type: None, floats: vec![1.0], ..attribute("old", 0) };
    let attributes = absent.into_iter().chain([untyped]).collect();
    let g = graph(vec![NodeProto { attribute: attributes, ..node("Op", &["x"], &["y"]) }]);
    let decoded = run(model(g)).unwrap();
    let (_, node) = decoded.model.graph.nodes().next().unwrap();
    let found: Vec<String> = node.attrs.iter().map(|(_, a)| format!("{a:?}")).collect();
    assert_eq!(found, ["Int(0)", "Str(b\"\")", "Ints([])", "Floats([1.0])"]);
}

#[test]
fn versions() {
    let mut m = model(graph(vec![]));
    m.ir_version = Some(15);
    finds(m.clone(), "N0504", &["IR version 15"]);
    m.ir_version = None;
    finds(m.clone(), "N0502", &["IR version"]);
    m.ir_version = Some(8);
    m.opset_import[0].version = Some(29);
    finds(m.clone(), "N0504", &["operator set 29"]);
    m.opset_import.clear();
    finds(m.clone(), "N0502", &["imports no operator set"]);
    m.ir_version = Some(2);
    assert_eq!(run(m.clone()).unwrap().model.opset(), 1);
    m.graph = None;
    finds(m, "N0502", &["no graph"]);
}

/// The checker and the runtimes take the last one.
#[test]
fn a_domain_may_be_imported_twice() {
    let import = |domain: &str, version| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    for second in ["", "ai.onnx"] {
        let mut m = model(graph(vec![]));
        m.opset_import = vec![import("", 17), import("ai.onnx.ml", 1), import(second, 13)];
        let decoded = run(m).unwrap();
        assert_eq!(decoded.model.opset(), 13);
        assert!(decoded.notes.iter().any(|note| note.contains("imported twice")));
    }
}

#[test]
fn everything_is_found_at_once() {
    let mut g = graph(vec![node("Relu", &["q"], &["y"]), node("", &["x"], &["y"])]);
    g.initializer = vec![tensor("w", &[2], 1, &[0; 7]), tensor("v", &[1], 99, &[])];
    let mut m = model(g);
    m.ir_version = Some(99);
    let codes: Vec<_> = run(m).unwrap_err().0.into_iter().map(|f| f.into_finding().code).collect();
    assert_eq!(codes, ["N0504", "N0502", "N0504", "N0502", "N0502", "N0502"]);
}

#[test]
fn findings_in_sub_graphs_say_the_way() {
    let inner = graph(vec![node("Neg", &["nowhere"], &["z"])]);
    let inner = GraphProto { input: vec![], ..inner };
    let branch = AttributeProto { g: Some(inner), ..attribute("then_branch", 5) };
    let outer = NodeProto { attribute: vec![branch], ..node("If", &["x"], &["y"]) };
    let way = "graph `g`, node 0 `if_node` (If), attribute `then_branch`, graph `g`, node 0";
    finds(model(graph(vec![outer])), "N0502", &[way, "`nowhere`"]);
}

#[test]
fn a_sub_graph_may_not_redefine_what_it_read_from_outside() {
    let inner = graph(vec![node("Neg", &["h"], &["z"]), node("Abs", &["z"], &["h"])]);
    let inner = GraphProto { input: vec![], ..inner };
    let branch = AttributeProto { g: Some(inner), ..attribute("body", 5) };
    let user = NodeProto { attribute: vec![branch], ..node("If", &["x"], &["y"]) };
    let g = graph(vec![node("Relu", &["x"], &["h"]), user]);
    finds(model(g), "N0502", &["`h`, which was read from the enclosing graph before"]);
}

#[test]
fn old_files_list_initializers_as_inputs() {
    let mut g = graph(vec![node("Add", &["x", "w"], &["y"])]);
    g.input.push(value("w"));
    g.initializer = vec![tensor("w", &[1], 2, &[1])];
    let mut m = model(g);
    for (ir, inputs) in [(3, 1), (4, 2)] {
        m.ir_version = Some(ir);
        let decoded = run(m.clone()).unwrap();
        let graph = &decoded.model.graph;
        let w = graph.value_named("w").unwrap();
        assert_eq!(graph.inputs().len(), inputs);
        assert_eq!(graph.constant(w).is_some(), ir == 3);
        assert_eq!(graph[w].origin() == Origin::Input, ir == 4);
        assert!(graph[w].initializer().is_some());
        assert_eq!(decoded.model.ir_version, if ir == 3 { 8 } else { 4 });
        assert_eq!(decoded.notes.len(), if ir == 3 { 2 } else { 0 });
    }
}

#[test]
fn what_is_not_kept_is_noted() {
    let mut a = AttributeProto { i: Some(1), ..attribute("a", 2) };
    a.doc_string = Some("text".into());
    let mut g = graph(vec![NodeProto { attribute: vec![a], ..node("Op", &["x"], &["y"]) }]);
    g.value_info = vec![value("unknown")];
    let mut m = model(g);
    m.training_info = vec![TrainingInfoProto::default()];
    let notes = run(m).unwrap().notes;
    assert_eq!(notes.len(), 3, "{notes:?}");
    assert!(notes.contains(&"training_info is not kept".to_owned()));
}

#[test]
fn functions_are_checked_like_graphs() {
    let mut proto = to_proto(&with_function(), &mut Inline).unwrap();
    proto.functions.push(proto.functions[0].clone());
    finds(proto.clone(), "N0502", &["function `Soft`", "defined twice"]);
    proto.functions.pop();
    proto.functions[0].node[0].input[0] = "q".into();
    finds(proto, "N0502", &["function `Soft`, node 0 (LeakyRelu)", "`q`"]);
}
