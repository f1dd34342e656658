use super::*;
use crate::graph::bundle::tests::{checkpoint, entry};
use crate::graph::fixture::{FLOAT, call, found, function, graph, names, node, placeholder, shape};
use crate::states::tests as testing;
use crate::wire::proto::{
    Attr, AttrValue, GraphDef, ListValue, NameAttrList, NodeDef, SaverDef, TensorProto,
};
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::DataType;

fn words(name: &str, words: &[&str]) -> NodeDef {
    let string_val = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    let tensor_shape = Some(shape(&[words.len() as i64]));
    let value = TensorProto { dtype: 7, tensor_shape, string_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("value", Attr::Tensor(value))
}

fn number(value: i32) -> TensorProto {
    let tensor_shape = Some(shape(&[]));
    TensorProto { dtype: 3, tensor_shape, int_val: vec![value], ..TensorProto::default() }
}

fn real(value: f32) -> TensorProto {
    let tensor_shape = Some(shape(&[]));
    TensorProto { dtype: FLOAT, tensor_shape, float_val: vec![value], ..TensorProto::default() }
}

fn func(name: &str) -> Attr {
    Attr::Func(NameAttrList { name: name.to_owned(), ..NameAttrList::default() })
}

/// `y = x * b + a`; both variables have one shape, and the order of keys is not that of the handles.
fn saved(body: Vec<NodeDef>) -> GraphDef {
    let restore = function(
        "restore",
        &["prefix", "h", "i"],
        &[],
        vec![
            words("names", &["key/b", "key/a"]),
            words("slices", &["", ""]),
            node("RestoreV2", "RestoreV2", &["prefix", "names:output:0", "slices:output:0"]),
            node("to_b", "Identity", &["RestoreV2:tensors:0"]),
            node("assign_b", "AssignVariableOp", &["i", "to_b:output:0"]),
            node("assign_a", "AssignVariableOp", &["h", "RestoreV2:tensors:1"]),
        ],
    );
    let serve = function("serve", &["x", "h", "i"], &[("y", "y:z:0")], body);
    let nodes = vec![
        node("a", "VarHandleOp", &[]).attr("dtype", Attr::Type(FLOAT)),
        node("b", "VarHandleOp", &[]).attr("dtype", Attr::Type(FLOAT)),
        placeholder("serving_x", &[-1, 2]),
        call("PartitionedCall", "serve", &["serving_x", "a", "b"]),
        call("restore", "restore", &["prefix", "a", "b"]),
        placeholder("prefix", &[]),
    ];
    graph(nodes, vec![serve, restore])
}

fn reads() -> Vec<NodeDef> {
    vec![
        node("a", "ReadVariableOp", &["h"]),
        node("b", "ReadVariableOp", &["i"]),
        node("product", "Mul", &["x", "b:value:0"]),
        node("y", "AddV2", &["product:z:0", "a:value:0"]),
    ]
}

fn info(name: &str) -> TensorInfo {
    TensorInfo { name: name.into(), dtype: FLOAT, tensor_shape: Some(shape(&[-1, 2])) }
}

fn files(graph: GraphDef) -> Files<'static> {
    let signature = SignatureDef {
        inputs: [("x".to_owned(), info("serving_x:0"))].into(),
        outputs: [("result".to_owned(), info("PartitionedCall:0"))].into(),
        ..SignatureDef::default()
    };
    let meta = MetaGraphDef {
        graph_def: Some(graph),
        saver_def: Some(SaverDef { restore_op_name: "restore".into(), ..SaverDef::default() }),
        signature_def: [("serving_default".to_owned(), signature)].into(),
        ..MetaGraphDef::default()
    };
    let saved = SavedModel { saved_model_schema_version: 1, meta_graphs: vec![meta] };
    let entries = [("key/a", entry(0, 0, &[1.0, 2.0])), ("key/b", entry(0, 8, &[3.0, 4.0]))];
    let mut all = checkpoint(&entries, &[1.0, 2.0, 3.0, 4.0]);
    all.push((NETWORK.into(), saved.encode_to_vec().into()));
    Files::Fixed(all)
}

fn import_of(files: &Files<'_>) -> std::result::Result<Imported, Diagnostics> {
    let saved = SavedModel::decode(files.read(NETWORK)?).unwrap();
    import_saved(&saved, files, &SavedModelChoice::default(), &ExportOptions::of_shapes(18, vec![]))
}

#[test]
fn variables_are_told_apart_by_the_restore_function() {
    let model = import_of(&files(saved(reads()))).unwrap().model;
    assert_eq!(names(&model).concat(), ["x", "result"]);
    let value = |name: &str| {
        let id = model.graph.value_named(name).unwrap();
        model.graph.constant(id).unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!((value("a"), value("b")), (vec![1.0, 2.0], vec![3.0, 4.0]));
    let x = &model.graph[model.graph.inputs()[0]];
    assert_eq!(x.ty.as_ref().unwrap().dtype(), Some(DataType::Float));
}

/// What the model with its states as inputs and outputs gives for ones, in calls one after the other.
fn calls(graph: GraphDef, count: usize) -> Vec<Vec<f32>> {
    let files = files(graph);
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let done =
        import_saved(&saved, &files, &SavedModelChoice::default(), &testing::wanting()).unwrap();
    let x = onnxd_plugin_sdk::ir::Tensor::from_vec(vec![1, 2], vec![1f32, 1.0]);
    testing::calls(done, &[("x", x)], count)
}

/// The one finding of a model whose results change from call to call.
fn refusal(graph: GraphDef) -> String {
    let said = found(import_of(&files(graph)));
    assert_eq!(said.len(), 1, "{said:?}");
    said[0].clone()
}

const REFUSED: &str =
    "N0203 The network writes the variable `a`, and an ONNX model keeps nothing between calls.";

#[test]
fn what_is_written_is_read_in_the_next_call() {
    let mut body = reads();
    body.insert(0, node("write", "AssignAddVariableOp", &["h", "row"]));
    body.insert(0, node("axis", "Const", &[]).attr("value", Attr::Tensor(number(0))));
    body.insert(0, node("row", "Max", &["x", "axis"]));
    // The write waits for the read.
    body[2].input.push("^a".into());
    assert_eq!(refusal(saved(body.clone())), REFUSED);
    assert_eq!(calls(saved(body.clone()), 3), [[4.0, 6.0], [5.0, 7.0], [6.0, 8.0]]);
    // The read waits for the write.
    body[2].input.pop();
    body[3].input.push("^write".into());
    assert_eq!(refusal(saved(body.clone())), REFUSED);
    assert_eq!(calls(saved(body), 3), [[5.0, 7.0], [6.0, 8.0], [7.0, 9.0]]);
}

#[test]
fn what_each_call_sets_before_it_reads_it_is_no_state() {
    let mut body = reads();
    body.insert(0, node("write", "AssignVariableOp", &["h", "x"]));
    body[1].input.push("^write".into());
    let done = import_of(&files(saved(body))).unwrap();
    assert!(done.states.is_empty() && done.notes.len() == 1, "{:?}", done.notes);
    let text = onnxd_plugin_sdk::ir::text::print_graph(&done.model.graph);
    assert!(text.contains("AddV2") || text.contains("Add(product, x)"), "{text}");
}

#[test]
fn what_nothing_reads_is_left_out() {
    let mut body = reads();
    body[0] = node("a", "Identity", &["x"]);
    body[3].input[1] = "a:output:0".into();
    body.push(node("write", "AssignAddVariableOp", &["h", "x"]));
    let done = import_of(&files(saved(body))).unwrap();
    let said = done.notes[0].to_string();
    assert!(said.contains("the outputs do not need it"), "{said}");
    assert_eq!(done.model.graph.node_count(), 2, "Mul and Add");
}

#[test]
fn a_variable_of_tensorflow_1_is_read_where_its_value_is_used() {
    let mut graph = graph(
        vec![
            node("a", "VariableV2", &[]).attr("dtype", Attr::Type(FLOAT)),
            placeholder("serving_x", &[-1, 2]),
            node("axis", "Const", &[]).attr("value", Attr::Tensor(number(0))),
            node("row", "Max", &["serving_x", "axis"]),
            node("write", "AssignAdd", &["a", "row"]),
            node("read", "Identity", &["a"]),
            node("PartitionedCall", "AddV2", &["serving_x", "read"]),
        ],
        vec![],
    );
    graph.node[0].attr.insert("shared_name".into(), shared("key/a"));
    // No result waits for the write.
    assert!(import_of(&files(graph.clone())).is_ok());
    graph.node[5].input.push("^write".into());
    assert_eq!(refusal(graph.clone()), REFUSED);
    assert_eq!(calls(graph.clone(), 2), [[3.0, 4.0], [4.0, 5.0]]);
    // What the write itself gives is the new value.
    graph.node[5].input = vec!["write".into()];
    assert_eq!(calls(graph, 2), [[3.0, 4.0], [4.0, 5.0]]);
}

/// The write is on one side of a condition.
#[test]
fn writes_in_conditions_of_tensorflow_1_are_told() {
    let condition = TensorProto { dtype: 10, bool_val: vec![true], ..real(0.0) };
    let mut graph = graph(
        vec![
            node("a", "VariableV2", &[]).attr("dtype", Attr::Type(FLOAT)),
            placeholder("serving_x", &[-1, 2]),
            placeholder("c", &[]).attr("dtype", Attr::Type(10)),
            node("axis", "Const", &[]).attr("value", Attr::Tensor(number(0))),
            node("row", "Max", &["serving_x", "axis"]),
            node("part", "Switch", &["row", "c"]),
            node("write", "AssignAdd", &["a", "part:1"]),
            node("both", "Merge", &["part", "write"]),
            node("read", "Identity", &["a", "^both"]),
            node("PartitionedCall", "AddV2", &["serving_x", "read"]),
        ],
        vec![],
    );
    graph.node[0].attr.insert("shared_name".into(), shared("key/a"));
    graph.node[2] = node("c", "Const", &[]).attr("value", Attr::Tensor(condition));
    let all = import_of(&files(graph.clone())).unwrap_err();
    let said = all.0[0].to_string();
    assert!(said.contains("`a`, which is in a loop or condition of TensorFlow 1"), "{said}");
    assert!(said.contains("[layer write (AssignAdd)]") && said.contains("`tf.function`"), "{said}");
    // Nothing reads it: a note, or a finding where all states are asked for.
    graph.node[8].input = vec!["row".into(), "^both".into()];
    let note = import_of(&files(graph.clone())).unwrap().notes[0].to_string();
    assert!(note.contains("the outputs do not need it"), "{note}");
    let files = files(graph);
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let asked = import_saved(&saved, &files, &SavedModelChoice::default(), &testing::wanting())
        .unwrap_err();
    assert!(asked.0[0].to_string().contains("condition of TensorFlow 1"), "{asked:?}");
}

fn shared(name: &'static str) -> AttrValue {
    AttrValue { value: Some(Attr::S(Bytes::from_static(name.as_bytes()))) }
}

/// `y = f(x) + g(x)`, where both functions have a node `v` that makes a variable.
fn in_functions(f: Option<&'static str>, g: Option<&'static str>) -> GraphDef {
    let made = |of: Option<&'static str>| {
        let mut made = node("v", "VarHandleOp", &[]).attr("dtype", Attr::Type(FLOAT));
        made.attr.extend(of.map(|name| ("shared_name".to_owned(), shared(name))));
        made
    };
    let adds = |name: &str, of| {
        let nodes = vec![
            made(of),
            node("old", "ReadVariableOp", &["v:resource:0"]),
            node("y", "AddV2", &["x", "old:value:0"]),
        ];
        function(name, &["x"], &[("y", "y:z:0")], nodes)
    };
    let mut graph = saved(vec![
        call("one", "f", &["x"]),
        call("two", "g", &["x"]),
        node("y", "AddV2", &["one:output:0", "two:output:0"]),
    ]);
    graph.library.as_mut().unwrap().function.extend([adds("f", f), adds("g", g)]);
    graph
}

/// What a network without states gives for ones.
fn once(graph: GraphDef) -> Vec<f32> {
    let model = import_of(&files(graph)).unwrap().model;
    let x = onnxd_plugin_sdk::ir::Tensor::from_vec(vec![1, 2], vec![1f32, 1.0]);
    let given = onnxd_plugin_sdk::testing::run(&model, [("x", x)]).unwrap();
    given[0].1.as_slice::<f32>().unwrap().to_vec()
}

#[test]
fn variables_of_functions_are_told_apart_by_more_than_their_nodes() {
    assert_eq!(once(in_functions(Some("key/a"), Some("key/b"))), [6.0, 8.0]);
    // `a` is a variable of the main graph, too, of which another key has the value.
    assert_eq!(once(in_functions(Some("a"), Some("b"))), [6.0, 8.0]);
    assert_eq!(once(in_functions(Some("a"), Some("a"))), [4.0, 6.0]);
    let all = found(import_of(&files(in_functions(None, Some("a")))));
    assert!(
        all[0].starts_with("N0209 The checkpoint has no value for the variable `v`"),
        "{all:?}"
    );
}

#[test]
fn what_a_function_writes_is_the_variable_of_that_shared_name() {
    let mut graph = in_functions(Some("a"), Some("b"));
    let library = graph.library.as_mut().unwrap();
    let f = library.function.iter_mut().find(|f| f.signature.as_ref().unwrap().name == "f");
    let f = &mut f.unwrap().node_def;
    f.push(node("write", "AssignAddVariableOp", &["v:resource:0", "old:value:0"]));
    assert_eq!(refusal(graph.clone()), REFUSED);
    // `a` is doubled in each call, and `b` stays.
    assert_eq!(calls(graph, 2), [[6.0, 8.0], [7.0, 10.0]]);
}

/// A function that adds `a` to itself, as far as its caller does not say otherwise.
fn doubling(more: NodeDef) -> GraphDef {
    let mut graph = saved(reads());
    let library = graph.library.as_mut().unwrap();
    let doubles = vec![
        node("old", "ReadVariableOp", &["v"]),
        node("add", "AssignAddVariableOp", &["v", "old:value:0"]),
    ];
    library.function.push(function("doubles", &["v"], &[], doubles));
    library.function.push(function("nothing", &["v"], &[], vec![]));
    let serve = &mut library.function[0];
    serve.node_def.push(more);
    serve.node_def[0].input.push("^counted".into());
    graph
}

#[test]
fn writes_in_calls_are_seen() {
    let graph = doubling(call("counted", "doubles", &["h"]));
    assert_eq!(refusal(graph.clone()), REFUSED);
    assert_eq!(calls(graph, 2), [[5.0, 8.0], [7.0, 12.0]]);
}

#[test]
fn writes_under_conditions_are_seen() {
    let mut graph = doubling(
        node("counted", "If", &["is_large:z:0", "h"])
            .attr("then_branch", func("doubles"))
            .attr("else_branch", func("nothing")),
    );
    let serve = &mut graph.library.as_mut().unwrap().function[0];
    // While the sum of `a` is below 10.
    let nodes = [
        node("before", "ReadVariableOp", &["h"]),
        node("zero", "Const", &[]).attr("value", Attr::Tensor(number(0))),
        node("sum", "Sum", &["before:value:0", "zero"]),
        node("ten", "Const", &[]).attr("value", Attr::Tensor(real(10.0))),
        node("is_large", "Less", &["sum:output:0", "ten"]),
    ];
    serve.node_def.extend(nodes);
    assert_eq!(refusal(graph.clone()), REFUSED);
    assert_eq!(calls(graph, 3), [[5.0, 8.0], [7.0, 12.0], [7.0, 12.0]]);
}

#[test]
fn writes_in_loops_are_seen() {
    let mut graph = doubling(
        node("counted", "While", &["zero", "h"])
            .attr("cond", func("three"))
            .attr("body", func("turn"))
            .attr("T", Attr::List(ListValue { r#type: vec![3, 20], ..ListValue::default() })),
    );
    let library = graph.library.as_mut().unwrap();
    let turn = vec![
        node("one", "Const", &[]).attr("value", Attr::Tensor(number(1))),
        node("next", "AddV2", &["i", "one"]),
        call("double", "doubles", &["v"]),
    ];
    let results = [("next", "next:z:0"), ("r", "v")];
    library.function.push(function("turn", &["i", "v"], &results, turn));
    let three = vec![
        node("three", "Const", &[]).attr("value", Attr::Tensor(number(3))),
        node("less", "Less", &["i", "three"]),
    ];
    library.function.push(function("three", &["i", "v"], &[("go", "less:z:0")], three));
    let zero = node("zero", "Const", &[]).attr("value", Attr::Tensor(number(0)));
    library.function[0].node_def.push(zero);
    assert_eq!(refusal(graph.clone()), REFUSED);
    assert_eq!(calls(graph, 2), [[11.0, 20.0], [67.0, 132.0]]);
}

#[test]
fn weights_can_be_inputs() {
    let files = files(saved(reads()));
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let mut options = ExportOptions::of_shapes(18, vec![]);
    options.without_weights = true;
    let model = import_saved(&saved, &files, &SavedModelChoice::default(), &options).unwrap().model;
    assert_eq!(names(&model).concat(), ["x", "a", "b", "result"]);
}

#[test]
fn names_are_sorted_as_people_count() {
    let mut all = ["output_10", "output_2", "b", "a1x", "a1"];
    all.sort_by_cached_key(|name| natural(name));
    assert_eq!(all, ["a1", "a1x", "b", "output_2", "output_10"]);
}

#[test]
fn a_signature_that_is_not_there_is_named() {
    let files = files(saved(reads()));
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let options = ExportOptions::of_shapes(18, vec![]);
    let choice =
        SavedModelChoice { signature: Some("train".into()), ..SavedModelChoice::default() };
    let said = found(import_saved(&saved, &files, &choice, &options));
    assert_eq!(said, ["N0105 The SavedModel has no signature `train`."]);
}

#[test]
fn a_signature_beside_named_outputs_is_refused() {
    let files = files(saved(reads()));
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let options = ExportOptions::of_shapes(18, vec![]);
    let signature = Some("serving_default".to_owned());
    let outputs = vec!["PartitionedCall".to_owned()];
    let choice = SavedModelChoice { signature, outputs, ..SavedModelChoice::default() };
    let said = found(import_saved(&saved, &files, &choice, &options));
    let message = "N0105 `source.signature` and `source.outputs` both say what comes out.";
    assert_eq!(said, [message]);
}

/// `PREFIX.meta` of TensorFlow 1 has no signature: what nothing reads comes out.
#[test]
fn a_graph_beside_a_checkpoint_tells_its_outputs_by_its_nodes() {
    let meta = |more: &[NodeDef]| {
        let nodes = vec![
            node("a", "VariableV2", &[]).attr("dtype", Attr::Type(FLOAT)),
            node("read", "Identity", &["a"]),
            placeholder("x", &[-1, 2]),
            placeholder("label", &[-1]),
            node("y", "Mul", &["x", "read"]),
        ];
        let graph_def = Some(graph([&nodes, more].concat(), vec![]));
        MetaGraphDef { graph_def, ..MetaGraphDef::default() }
    };
    let import = |meta: MetaGraphDef, outputs: &[&str]| {
        let mut all = checkpoint(&[("a", entry(0, 0, &[1.0, 2.0]))], &[1.0, 2.0]);
        let renamed = |name: String| name.replace(CHECKPOINT, "m.ckpt-1");
        all = all.into_iter().map(|(name, bytes)| (renamed(name), bytes)).collect();
        all.push(("m.ckpt-1.meta".into(), meta.encode_to_vec().into()));
        let outputs = outputs.iter().map(|&name| name.to_owned()).collect();
        let choice = SavedModelChoice { outputs, ..SavedModelChoice::default() };
        let options = ExportOptions::of_shapes(18, vec![]);
        import_checkpoint(&Files::Fixed(all), "m.ckpt-1", &choice, &options)
    };
    assert_eq!(names(&import(meta(&[]), &[]).unwrap().model).concat(), ["x", "y"]);
    let trained = meta(&[node("step", "ApplyGradientDescent", &["a", "y", "y"])]);
    let said = found(import(trained.clone(), &[]));
    assert!(said[0].starts_with("N0204 The graph trains its variables (`step`)"), "{said:?}");
    assert_eq!(names(&import(trained, &["y"]).unwrap().model).concat(), ["x", "y"]);
}
