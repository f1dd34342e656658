use super::*;
use crate::graph::bundle::tests::{checkpoint, entry};
use crate::graph::fixture::{FLOAT, call, found, function, graph, names, node, placeholder, shape};
use crate::wire::proto::{Attr, AttrValue, GraphDef, NodeDef, SaverDef, TensorProto};
use onnxd_plugin_sdk::bytes::Bytes;
use onnxd_plugin_sdk::ir::DataType;

fn words(name: &str, words: &[&str]) -> NodeDef {
    let string_val = words.iter().map(|word| Bytes::copy_from_slice(word.as_bytes())).collect();
    let tensor_shape = Some(shape(&[words.len() as i64]));
    let value = TensorProto { dtype: 7, tensor_shape, string_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("value", Attr::Tensor(value))
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
    import_saved(&saved, files, &Choice::default(), &ExportOptions::of_shapes(18, vec![]))
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

#[test]
fn what_is_written_is_not_read() {
    let mut body = reads();
    body.insert(0, node("write", "AssignAddVariableOp", &["h", "x"]));
    // Nothing reads after the write.
    assert!(import_of(&files(saved(body.clone()))).is_ok());
    body[1].input.push("^write".into());
    let said = found(import_of(&files(saved(body))));
    assert_eq!(
        said,
        [
            "N0203 The network writes `a` and reads it, and an ONNX model keeps nothing between runs."
        ]
    );
}

#[test]
fn a_variable_of_tensorflow_1_is_read_where_its_value_is_used() {
    let mut graph = graph(
        vec![
            node("a", "VariableV2", &[]).attr("dtype", Attr::Type(FLOAT)),
            placeholder("serving_x", &[-1, 2]),
            node("write", "AssignAdd", &["a", "serving_x"]),
            node("read", "Identity", &["a"]),
            node("PartitionedCall", "AddV2", &["serving_x", "read"]),
        ],
        vec![],
    );
    graph.node[0].attr.insert("shared_name".into(), shared("key/a"));
    assert!(import_of(&files(graph.clone())).is_ok());
    graph.node[3].input.push("^write".into());
    let said = found(import_of(&files(graph)));
    assert!(said[0].contains("The network writes `a` and reads it"), "{said:?}");
}

fn shared(name: &'static str) -> AttrValue {
    AttrValue { value: Some(Attr::S(Bytes::from_static(name.as_bytes()))) }
}

#[test]
fn writes_in_calls_are_seen() {
    let mut graph = saved(reads());
    let library = graph.library.as_mut().unwrap();
    library.function.push(function(
        "count",
        &["v"],
        &[("r", "v")],
        vec![node("add", "AssignAddVariableOp", &["v", "v"])],
    ));
    let serve = &mut library.function[0];
    serve.node_def.push(call("counted", "count", &["h"]));
    serve.node_def[0].input.push("^counted".into());
    let said = found(import_of(&files(graph)));
    assert!(said[0].contains("The network writes `a` and reads it"), "{said:?}");
}

#[test]
fn weights_can_be_inputs() {
    let files = files(saved(reads()));
    let saved = SavedModel::decode(files.read(NETWORK).unwrap()).unwrap();
    let mut options = ExportOptions::of_shapes(18, vec![]);
    options.without_weights = true;
    let model = import_saved(&saved, &files, &Choice::default(), &options).unwrap().model;
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
    let choice = Choice { signature: Some("train".into()), ..Choice::default() };
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
    let choice = Choice { signature, outputs, ..Choice::default() };
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
        let choice = Choice { outputs, ..Choice::default() };
        let options = ExportOptions::of_shapes(18, vec![]);
        import_checkpoint(&Files::Fixed(all), "m.ckpt-1", &choice, &options)
    };
    assert_eq!(names(&import(meta(&[]), &[]).unwrap().model).concat(), ["x", "y"]);
    let trained = meta(&[node("step", "ApplyGradientDescent", &["a", "y", "y"])]);
    let said = found(import(trained.clone(), &[]));
    assert!(said[0].starts_with("N0204 The graph trains its variables (`step`)"), "{said:?}");
    assert_eq!(names(&import(trained, &["y"]).unwrap().model).concat(), ["x", "y"]);
}
