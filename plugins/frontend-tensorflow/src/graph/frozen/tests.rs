use super::*;
use crate::graph::fixture::{self, floats, graph, names, node, placeholder};
use crate::wire::proto::Attr;

fn outputs_of(nodes: Vec<NodeDef>) -> Vec<String> {
    let graph = graph(nodes, vec![]);
    outputs(&graph).0.into_iter().map(|port| port.place).collect()
}

#[test]
fn placeholders_go_in_and_unread_nodes_come_out() {
    let graph = graph(
        vec![
            placeholder("x", &[-1, 2]),
            floats("w", &[1.0, 2.0]),
            node("a", "AddV2", &["x", "w"]),
            node("b", "Mul", &["x", "a"]),
            node("end", "NoOp", &["^b"]),
            node("c", "Sub", &["a", "x"]),
        ],
        vec![],
    );
    let model = fixture::import(&graph).unwrap().model;
    // What only waits for `b` does not read it.
    assert_eq!(
        names(&model),
        [vec!["x"], vec!["c"]].map(|all| all.into_iter().map(str::to_owned).collect::<Vec<_>>())
    );
}

#[test]
fn what_freezing_leaves_behind_is_no_output() {
    let nodes = vec![
        placeholder("x", &[2]),
        node("s", "Shape", &["x"]),
        node("n", "Mul", &["s", "s"]),
        node("while", "StatelessWhile", &["x"]),
        node("while/Identity", "Identity", &["while"]),
        node("cond/pred_id", "Identity", &["x"]),
        node("list", "TensorListReserve", &["n", "n"]),
        node("out", "Identity", &["while:1"]),
    ];
    assert_eq!(outputs_of(nodes), ["out"]);
    let alone = vec![placeholder("x", &[2]), node("s", "Shape", &["x"])];
    assert_eq!(outputs_of(alone), ["s"]);
}

#[test]
fn a_part_of_an_input_that_tells_a_size_is_no_output() {
    let nodes = |name: &str| {
        let part = node(name, "StridedSlice", &["x", "a", "b", "c"]);
        vec![placeholder("x", &[2, 3]), part, node("out", "Identity", &["x"])]
    };
    assert_eq!(outputs_of(nodes("scan/strided_slice_1")), ["out"]);
    // A name that somebody gave is that of a result.
    assert_eq!(outputs_of(nodes("first")), ["first", "out"]);
}

#[test]
fn what_params_name_must_be_there_once() {
    let nodes = vec![placeholder("x", &[4]), node("top", "TopKV2", &["x", "k"])];
    let graph = graph(nodes, vec![]);
    let message = |key: &str, places: &[&str]| {
        let places: Vec<String> = places.iter().map(|&place| place.to_owned()).collect();
        named(&graph, key, &places).map_err(|found| format!("{} {}", found.code, found.message))
    };
    assert_eq!(message("source.outputs", &["top", "top:1"]).unwrap().len(), 2);
    let bad = |key: &str, places: &[&str]| message(key, places).unwrap_err();
    let found = bad("source.outputs", &["top:2"]);
    assert_eq!(found, "N0105 `source.outputs` names `top:2`, which its node does not give.");
    let found = bad("source.inputs", &["x", "x:0"]);
    assert_eq!(found, "N0105 `source.inputs` names `x:0`, which is there twice.");
    let found = bad("source.inputs", &["y"]);
    assert_eq!(found, "N0105 `source.inputs` names `y`, which the graph does not have.");
}

#[test]
fn every_result_of_the_last_node_comes_out() {
    let nodes = vec![placeholder("x", &[4]), node("top", "TopKV2", &["x", "k"])];
    assert_eq!(outputs_of(nodes), ["top", "top:1"]);
}

#[test]
fn an_old_placeholder_without_axes_has_an_unknown_shape() {
    let mut old = graph(vec![placeholder("x", &[]), node("y", "Identity", &["x"])], vec![]);
    assert_eq!(inputs(&old)[0].ty.shape().map(<[_]>::len), Some(0));
    old.versions = Some(crate::wire::proto::VersionDef { producer: 21 });
    assert_eq!(inputs(&old)[0].ty.shape(), None);
    let said = fixture::found(fixture::import(&old));
    assert_eq!(said, ["N0204 Nothing says how many axes the input `x` has."]);
}

#[test]
fn a_variable_says_that_the_graph_is_not_frozen() {
    let nodes = vec![
        node("v", "VarHandleOp", &[]),
        node("r", "ReadVariableOp", &["v"]),
        placeholder("x", &[2]),
        node("y", "AddV2", &["x", "r"]),
    ];
    let said = fixture::found(fixture::import(&graph(nodes, vec![])));
    assert_eq!(said, ["N0209 The graph is not frozen: `v` is a variable."]);
}

/// `DT_INT32`
const INT32: i32 = 3;

#[test]
fn an_update_at_a_computed_place_stays_within() {
    let nodes = vec![
        placeholder("x", &[4]),
        floats("part", &[1.0, 2.0]),
        placeholder("at", &[1]).attr("dtype", Attr::Type(INT32)),
        node("y", "XlaDynamicUpdateSlice", &["x", "part", "at"]),
    ];
    let model = fixture::import(&graph(nodes, vec![])).unwrap().model;
    let ops: Vec<String> = model.graph.nodes().map(|(_, node)| node.op.to_string()).collect();
    assert_eq!(ops, ["Cast", "Slice", "Max", "Min", "Add", "Slice", "Slice", "Concat"]);
}

/// `DT_BOOL`
const BOOL: i32 = 10;

/// `y = training ? x * 2 : x + 1`, where the placeholder of the condition says nothing of its shape.
fn trained() -> GraphDef {
    graph(
        vec![
            placeholder("x", &[2]),
            node("training", "Placeholder", &[]).attr("dtype", Attr::Type(BOOL)),
            node("pred_id", "Identity", &["training"]),
            node("switch", "Switch", &["x", "pred_id"]),
            floats("two", &[2.0]),
            node("mul", "Mul", &["switch:1", "two"]),
            floats("one", &[1.0]),
            node("add", "AddV2", &["switch", "one"]),
            node("merge", "Merge", &["add", "mul"]),
            node("y", "Identity", &["merge"]),
        ],
        vec![],
    )
}

fn import_with(graph: &GraphDef, constants: &str) -> Result<Imported, Diagnostics> {
    let params = format!(r#"{{"source": {{"constants": {constants}}}}}"#);
    let mut options = ExportOptions::of_shapes(18, vec![]);
    options.params = onnxd_plugin_sdk::Params::parse(&params).unwrap();
    network::import(&super::network(graph, &[], &[])?, &options)
}

#[test]
fn a_condition_is_one_truth_value() {
    let model = fixture::import(&trained()).unwrap().model;
    let flag = &model.graph[model.graph.inputs()[1]];
    assert_eq!(flag.ty.as_ref().unwrap().dims(), Some(vec![]));
}

#[test]
fn placeholders_are_fixed() {
    for (value, op) in [("false", "Add"), ("true", "Mul")] {
        let constants = format!(r#"{{"training": {value}}}"#);
        let model = import_with(&trained(), &constants).unwrap().model;
        assert_eq!(names(&model)[0], ["x"]);
        let ops: Vec<String> = model.graph.nodes().map(|(_, node)| node.op.to_string()).collect();
        assert!(ops.iter().any(|found| found == op) && !ops.contains(&"If".to_owned()), "{ops:?}");
    }
    // A name that no input has is told by the host.
    let other = import_with(&trained(), r#"{"trainin": true}"#).unwrap().model;
    assert_eq!(names(&other)[0], ["x", "training"]);
    let said = fixture::found(import_with(&trained(), r#"{"training": 3}"#));
    assert_eq!(
        said,
        ["N0105 `source.constants` has 3 for `training`, which is no tensor of bool."]
    );
}

#[test]
fn guessed_outputs_are_named_where_something_is_wrong() {
    let nodes = vec![
        placeholder("x", &[2]),
        node("y", "Neg", &["x"]),
        node("text", "AsString", &["x"]),
        node("shape", "Shape", &["x"]),
    ];
    let graph = graph(nodes, vec![]);
    let found = fixture::import(&graph).map_err(|found| guessed(&graph, found)).unwrap_err();
    let said = found.0[0].help.clone();
    let wanted = "The outputs were guessed: `y`, `text`. Nothing reads `shape` either. Name those";
    assert!(found.0.len() == 1 && said.contains(wanted), "{said:?}");
}
