use crate::graph::fixture::{FLOAT, found, function, graph, import, node, placeholder, shape};
use crate::wire::proto::{Attr, FunctionDef, ListValue, NameAttrList, NodeDef, TensorProto};
use onnxd_plugin_sdk::ir::Graph;

const INT: i32 = 3;
const LIST: i32 = 21;

fn int(name: &str, value: i32) -> NodeDef {
    let value = TensorProto { dtype: INT, int_val: vec![value], ..TensorProto::default() };
    node(name, "Const", &[]).attr("dtype", Attr::Type(INT)).attr("value", Attr::Tensor(value))
}

/// As [`int`], with an axis.
fn ints(name: &str, value: i32) -> NodeDef {
    let (tensor_shape, int_val) = (Some(shape(&[1])), vec![value]);
    let value = TensorProto { dtype: INT, tensor_shape, int_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("dtype", Attr::Type(INT)).attr("value", Attr::Tensor(value))
}

/// A loop over `x`, a list, and the `w` of its condition.
fn looped(name: &str) -> NodeDef {
    let f =
        |name: &str| Attr::Func(NameAttrList { name: name.to_owned(), ..NameAttrList::default() });
    let types = Attr::List(ListValue { r#type: vec![FLOAT, LIST, FLOAT], ..Default::default() });
    let node = node(name, "While", &["x", "empty", "w"]);
    node.attr("cond", f("c")).attr("body", f("f")).attr("T", types)
}

#[test]
fn a_condition_that_is_a_list_is_refused() {
    let list = node("empty", "EmptyTensorList", &["any", "most"]);
    let nodes = vec![
        placeholder("x", &[-1, 2]),
        placeholder("w", &[]),
        int("any", -1),
        int("most", 9),
        list.attr("element_dtype", Attr::Type(FLOAT)),
        looped("y"),
        node("out", "Neg", &["y"]),
    ];
    let mut functions = functions(node("next", "Neg", &["x"]));
    functions[0].ret.insert("r".to_owned(), "l".to_owned());
    let all = found(import(&graph(nodes, functions)));
    assert_eq!(all, ["N0203 The condition is no tensor."]);
}

/// A loop that puts `x` into a list in each turn; `next` is what it becomes.
fn functions(next: NodeDef) -> Vec<FunctionDef> {
    let less = node("less", "Less", &["w", "w"]);
    let pushed = node("p", "TensorListPushBack", &["l", "x"]);
    let results = [("x1", "next"), ("l1", "p:output_handle:0"), ("w1", "w")];
    vec![
        function("c", &["x", "l", "w"], &[("r", "less:z:0")], vec![less]),
        function("f", &["x", "l", "w"], &results, vec![int("axis", 0), next, pushed]),
    ]
}

fn converted(next: NodeDef, reader: NodeDef) -> Graph {
    let list = node("empty", "EmptyTensorList", &["any", "most"]);
    let nodes = vec![
        placeholder("x", &[-1, 2]),
        placeholder("w", &[]),
        int("any", -1),
        int("most", 9),
        int("at", 1),
        ints("all", 1),
        list.attr("element_dtype", Attr::Type(FLOAT)),
        looped("y"),
        reader.attr("element_dtype", Attr::Type(FLOAT)),
        node("out", "Neg", &["read"]),
    ];
    import(&graph(nodes, functions(next))).unwrap().model.graph
}

/// Operators of the main graph and of the bodies of its loops.
fn operators(graph: &Graph) -> Vec<String> {
    let nodes = graph.nodes().flat_map(|(_, node)| {
        let inner = node.subgraphs().flat_map(operators);
        [node.op.clone()].into_iter().chain(inner).collect::<Vec<_>>()
    });
    nodes.collect()
}

#[test]
fn elements_of_different_sizes_go_in_a_sequence() {
    let doubled = || node("next", "ConcatV2", &["x", "x", "axis"]).attr("N", Attr::I(2));
    let readers = [
        (node("read", "TensorListConcatV2", &["y:1", "any", "at"]), "ConcatFromSequence"),
        (node("read", "TensorListGetItem", &["y:1", "at", "any"]), "SequenceAt"),
        (node("read", "TensorListGather", &["y:1", "all", "any"]), "SequenceAt"),
    ];
    for (reader, op) in readers {
        let found = operators(&converted(doubled(), reader));
        assert!(found.iter().any(|o| o == "SequenceInsert"), "{op}: {found:?}");
        assert!(found.iter().any(|o| o == op), "{op}: {found:?}");
    }
    // What is stacked has one size, or TensorFlow stops too.
    let found = operators(&converted(doubled(), node("read", "TensorListStack", &["y:1", "any"])));
    assert!(!found.iter().any(|op| op.contains("Sequence")), "{found:?}");
}
