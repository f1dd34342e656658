//! What is written is read back the same.

use crate::build::*;
use onnxd_ir::{Attr, DataType, Graph, Model, Node, Origin, Tensor};
use onnxd_onnx::{
    HANDLE_KEY, Placement, TensorLoader, decode, encode_to_bytes, handle_of, to_proto,
};
use onnxd_proto::onnx;
use prost::Message;

#[test]
fn models_survive_a_round_trip() {
    for model in [simple(), all_types(), rich(), nested(), with_function()] {
        let bytes = encoded(&model);
        let back = decoded(bytes.clone());
        assert_same(&model, &back.model);
        assert!(back.notes.is_empty(), "{:?}", back.notes);
        assert!(encoded(&back.model) == bytes, "{} changes when read again", model.graph.name);
    }
}

#[test]
fn raw_data_is_shared_not_copied() {
    let bytes = encoded(&simple());
    let model = decoded(bytes.clone()).model;
    let data = model.graph[model.graph.value_named("w").unwrap()].initializer().unwrap().bytes();
    assert!(bytes.as_ptr_range().contains(&data.as_ptr()));
}

#[test]
fn nodes_are_written_in_topological_order_under_their_names() {
    let mut g = Graph::new("g");
    let x = g.add_input("x", float(&[1]));
    let h = g.add_value("h", None);
    let y = g.add_value("y", float(&[1]));
    g.add_node(Node { name: "late".into(), ..Node::new("Relu", [h], [y]) });
    g.add_node(Node { name: "early".into(), ..Node::new("Neg", [x], [h]) });
    g.mark_output(y);
    let proto = to_proto(&Model::new(g, 8, 17), &mut onnxd_onnx::Inline).unwrap();
    let names: Vec<&str> =
        proto.graph.as_ref().unwrap().node.iter().map(onnx::NodeProto::name).collect();
    assert_eq!(names, ["early", "late"]);
}

#[test]
fn a_cycle_and_an_undefined_value_are_refused() {
    let mut g = Graph::new("g");
    let [a, b] = ["a", "b"].map(|n| g.add_value(n, None));
    g.add_node(Node::new("Relu", [a], [b]));
    let error = to_proto(&Model::new(g.clone(), 8, 17), &mut onnxd_onnx::Inline).unwrap_err();
    assert!(error.message.contains("reads `a`, which nothing produces"), "{error}");
    g.add_node(Node::new("Relu", [b], [a]));
    let error = to_proto(&Model::new(g, 8, 17), &mut onnxd_onnx::Inline).unwrap_err();
    assert_eq!(error.code, "N0901");
    assert!(error.message.contains("2 nodes"), "{error}");
}

#[test]
fn what_is_nested_too_deep_to_be_read_is_not_written() {
    let nested = |levels: usize| {
        let graph = (1..levels).fold(Graph::new("leaf"), |inner, _| {
            let mut g = Graph::new("g");
            let y = g.add_value("y", float(&[2, 3]));
            let c = g.add_initializer("c", Tensor::scalar(1u8));
            let body = Attr::Graph(Box::new(inner));
            g.add_node(Node::new("If", [c], [y]).with("then_branch", body));
            g
        });
        Model::new(graph, 8, 17)
    };
    assert_eq!(decoded(encoded(&nested(31))).model.graph.node_count(), 1);
    let error = to_proto(&nested(32), &mut onnxd_onnx::Inline).unwrap_err();
    assert_eq!(error.code, "N0213");
}

#[test]
fn unused_initializers_are_dropped_unless_listed() {
    let mut model = simple();
    let g = &mut model.graph;
    g.add_initializer("unused", Tensor::scalar(1.0f32));
    let out = g.add_initializer("listed_as_output", Tensor::scalar(2.0f32));
    g.mark_output(out);
    let default = g.add_initializer("default_of_input", Tensor::scalar(3.0f32));
    g.mark_input(default);
    let back = decoded(encoded(&model)).model;
    let kept = |name| back.graph.value_named(name).is_some();
    assert!(!kept("unused") && kept("listed_as_output") && kept("default_of_input"));
    let id = back.graph.value_named("default_of_input").unwrap();
    assert_eq!(back.graph[id].origin(), Origin::Input);
    assert!(back.graph[id].initializer().is_some());
}

#[test]
fn names_of_a_sub_graph_give_way_to_those_around_it() {
    let mut g = Graph::new("g");
    let c = g.add_input("c", Some(onnxd_ir::ValueType::tensor(DataType::Bool, [0i64; 0])));
    let x = g.add_input("x", float(&[1]));
    let mut inner = Graph::new("inner");
    let own = inner.add_initializer("x", Tensor::vector(vec![1.0f32]));
    let taken = inner.add_initializer("x_1", Tensor::vector(vec![2.0f32]));
    let seen = inner.capture(x, "x", None);
    let sum = inner.add_value("c", None);
    inner.add_node(Node::new("Sum", [own, taken, seen], [sum]));
    inner.mark_output(sum);
    let y = g.add_value("y", float(&[1]));
    let branch = |graph: &Graph| Attr::Graph(Box::new(graph.clone()));
    let node = Node::new("If", [c], [y]);
    g.add_node(node.with("then_branch", branch(&inner)).with("else_branch", branch(&inner)));
    g.mark_output(y);

    let proto = to_proto(&Model::new(g, 8, 17), &mut onnxd_onnx::Inline).unwrap();
    let graph = proto.graph.as_ref().unwrap();
    for attribute in &graph.node[0].attribute {
        let inner = attribute.g.as_ref().unwrap();
        let names: Vec<&str> = inner.initializer.iter().map(onnx::TensorProto::name).collect();
        // The captured `x` took the name `x_2` inside; it is written as `x`.
        assert_eq!(names, ["x_3", "x_1"]);
        assert_eq!(inner.node[0].input, ["x_3", "x_1", "x"]);
        assert_eq!(inner.output[0].name(), "c_1");
    }
    assert!(decoded(proto.encode_to_vec()).notes.is_empty());
}

#[test]
fn names_of_a_sub_graph_give_way_to_those_that_come_after_it() {
    let mut g = Graph::new("g");
    let c = g.add_input("c", Some(onnxd_ir::ValueType::tensor(DataType::Bool, [0i64; 0])));
    let x = g.add_input("x", float(&[1]));
    let mut inner = Graph::new("inner");
    let seen = inner.capture(x, "x", None);
    let twin = inner.add_value("later", None);
    inner.add_node(Node::new("Relu", [seen], [twin]));
    inner.mark_output(twin);
    let y = g.add_value("y", float(&[1]));
    let branch = |graph: &Graph| Attr::Graph(Box::new(graph.clone()));
    let node = Node::new("If", [c], [y]);
    g.add_node(node.with("then_branch", branch(&inner)).with("else_branch", branch(&inner)));
    let later = g.add_value("later", float(&[1]));
    g.add_node(Node::new("Neg", [x], [later]));
    g.mark_output(y);
    g.mark_output(later);
    let proto = to_proto(&Model::new(g, 8, 17), &mut onnxd_onnx::Inline).unwrap();
    let graph = proto.graph.as_ref().unwrap();
    assert_eq!(graph.node[1].output, ["later"]);
    for attribute in &graph.node[0].attribute {
        assert_eq!(attribute.g.as_ref().unwrap().node[0].output, ["later_1"]);
    }
}

#[test]
fn a_captured_value_listed_as_output_passes_through_identity() {
    let mut g = Graph::new("g");
    let c = g.add_input("c", Some(onnxd_ir::ValueType::tensor(DataType::Bool, [0i64; 0])));
    let x = g.add_input("x", float(&[1]));
    let mut inner = Graph::new("inner");
    let seen = inner.capture(x, "x", float(&[1]));
    inner.mark_output(seen);
    let y = g.add_value("y", float(&[1]));
    let node = Node::new("If", [c], [y]).with("then_branch", Attr::Graph(Box::new(inner)));
    g.add_node(node);
    g.mark_output(y);
    let proto = to_proto(&Model::new(g, 8, 17), &mut onnxd_onnx::Inline).unwrap();
    let inner = proto.graph.as_ref().unwrap().node[0].attribute[0].g.as_ref().unwrap();
    assert_eq!(inner.node[0].op_type(), "Identity");
    assert_eq!(inner.node[0].input, ["x"]);
    assert_eq!(inner.output[0].name(), inner.node[0].output[0]);
    assert_ne!(inner.output[0].name(), "x");
}

#[test]
fn initializers_of_a_function_become_constants() {
    let mut model = with_function();
    let body = &mut model.functions[0].graph;
    let w = body.add_initializer("w", Tensor::vector(vec![1.0f32]));
    let sum = body.add_value("sum", None);
    let y = body.outputs()[0];
    body.add_node(Node::new("Add", [y, w], [sum]));
    body.set_outputs(vec![sum]);
    let back = decoded(encoded(&model)).model;
    let body = &back.functions[0].graph;
    let w = body.value_named("w").unwrap();
    assert_eq!(body.constant(w), Some(&Tensor::vector(vec![1.0f32])));
    assert!(matches!(body[w].origin(), Origin::Node(..)));
}

/// Keeps tensors by number, as a host does for its plugins.
#[derive(Default)]
struct Handles(Vec<Tensor>);

impl TensorLoader for Handles {
    fn load(
        &mut self,
        _: DataType,
        _: &[usize],
        entries: &[(String, String)],
    ) -> Result<Tensor, onnxd_diagnostics::Diagnostic> {
        Ok(self.0[handle_of(entries)? as usize].clone())
    }
}

#[test]
fn a_graph_with_handles_holds_no_weights() {
    let mut handles = Handles::default();
    let mut sink = |tensor: &Tensor| {
        handles.0.push(tensor.clone());
        Ok(Placement::Handle(handles.0.len() as u64 - 1))
    };
    let model = all_types();
    let bytes = encode_to_bytes(&model, &mut sink).unwrap();
    let proto = onnx::ModelProto::decode(bytes.clone()).unwrap();
    for tensor in &proto.graph.as_ref().unwrap().initializer {
        let inline = tensor.name().starts_with("e_") || tensor.name() == "w_string";
        assert_eq!(tensor.external_data.is_empty(), inline, "{}", tensor.name());
        if !inline {
            assert!(tensor.raw_data.is_none());
            assert_eq!(tensor.external_data[0].key(), HANDLE_KEY);
        }
    }
    let back = decode(bytes.clone(), &mut handles).unwrap();
    assert_same(&model, &back.model);
    let error = decode(bytes, &mut onnxd_onnx::FolderLoader::new(".")).unwrap_err();
    assert_eq!(error.0[0].code, "N0503");
}
