//! Arguments that are out of bounds: each gives one error, and takes no memory.

use crate::graph::fixture::{FLOAT, found, graph, import, node, placeholder, shape};
use crate::wire::proto::{Attr, ListValue, NodeDef, TensorProto};
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{Attr as IrAttr, Graph, Tensor, ValueType};

const INT64: i32 = 9;
const HALF: i32 = 19;
const DOUBLE: i32 = 2;
const UINT8: i32 = 4;

/// A constant of integers; a list of none is a scalar.
fn ints(name: &str, sizes: &[i64], values: &[i64]) -> NodeDef {
    let tensor_shape = Some(shape(sizes));
    let int64_val = values.to_vec();
    let value = TensorProto { dtype: INT64, tensor_shape, int64_val, ..TensorProto::default() };
    node(name, "Const", &[]).attr("dtype", Attr::Type(INT64)).attr("value", Attr::Tensor(value))
}

/// What is found in a graph of one operator.
fn findings(op: NodeDef, inputs: Vec<NodeDef>) -> Vec<String> {
    let nodes = [inputs, vec![op.attr("T", Attr::Type(FLOAT))]].concat();
    found(import(&graph(nodes, vec![])))
}

#[test]
fn a_batch_has_as_many_axes_as_there_are() {
    for batch in [100, -100, i64::MIN, 2] {
        let given =
            vec![placeholder("x", &[2, 3]), ints("at", &[2], &[0, 1]), ints("axis", &[], &[1])];
        let gather = node("y", "GatherV2", &["x", "at", "axis"]).attr("batch_dims", Attr::I(batch));
        let all = findings(gather, given);
        assert!(all.len() == 1 && all[0].starts_with("N0204 There are no"), "{all:?}");
    }
}

#[test]
fn indices_that_are_passed_over_are_refused() {
    let given = vec![placeholder("x", &[2, 3]), ints("at", &[1, 1], &[7])];
    let gather = node("y", "GatherNd", &["x", "at"]);
    let all =
        findings(gather.attr("bad_indices_policy", Attr::S(b"IGNORE".to_vec().into())), given);
    assert!(all.len() == 1 && all[0].contains("bad_indices_policy"), "{all:?}");
}

#[test]
fn floats_are_not_cut_off() {
    let cast = |truncate: bool| {
        let cast = node("y", "Cast", &["x"]).attr("SrcT", Attr::Type(FLOAT));
        let cast = cast.attr("DstT", Attr::Type(HALF)).attr("Truncate", Attr::B(truncate));
        findings(cast, vec![placeholder("x", &[2])])
    };
    assert!(cast(false).is_empty());
    assert!(cast(true).len() == 1 && cast(true)[0].contains("`Truncate`"), "{:?}", cast(true));
}

#[test]
fn an_area_is_no_larger_than_its_weights_may_be() {
    for size in [[1 << 40, 2], [2, -1], [0, 2]] {
        let given = vec![placeholder("x", &[1, 4, 4, 1]), ints("size", &[2], &size)];
        let all = findings(node("y", "ResizeArea", &["x", "size"]), given);
        assert!(all.len() == 1 && all[0].contains("do not become"), "{all:?}");
    }
}

#[test]
fn an_open_size_is_found_without_overflow() {
    let given = vec![placeholder("x", &[0, 3]), ints("to", &[4], &[0, 1 << 32, 1 << 32, -1])];
    let all = findings(node("y", "Reshape", &["x", "to"]), given);
    assert!(all.is_empty(), "{all:?}");
}

#[test]
fn slices_and_shifts_reach_the_ends_of_integers() {
    let given =
        vec![placeholder("x", &[4]), ints("begin", &[1], &[1]), ints("size", &[1], &[i64::MAX])];
    assert!(findings(node("y", "Slice", &["x", "begin", "size"]), given).is_empty());
    let given =
        vec![placeholder("x", &[4]), ints("shift", &[1], &[i64::MIN]), ints("axis", &[1], &[0])];
    assert!(findings(node("y", "Roll", &["x", "shift", "axis"]), given).is_empty());
}

#[test]
fn results_are_no_more_than_a_graph_may_have() {
    for (op, count) in
        [("Unpack", "num"), ("Split", "num_split"), ("DynamicPartition", "num_partitions")]
    {
        let (x, other) = (placeholder("x", &[4]), ints("other", &[], &[0]));
        let inputs: &[&str] = match op {
            "Unpack" => &["x"],
            "Split" => &["other", "x"],
            _ => &["x", "other"],
        };
        let many = node("y", op, inputs).attr(count, Attr::I(1 << 40));
        assert!(!findings(many, vec![x, other]).is_empty(), "{op}");
    }
}

#[test]
fn windows_of_one_cell_need_no_pads_of_unknown_size() {
    let list = |items: &[i64]| Attr::List(ListValue { i: items.to_vec(), ..ListValue::default() });
    let pool = node("y", "MaxPool", &["x"]).attr("T", Attr::Type(FLOAT));
    let pool = pool.attr("ksize", list(&[1, 1, 3, 1])).attr("strides", list(&[1, 3, 1, 1]));
    let pool = pool.attr("padding", Attr::S(b"SAME".to_vec().into()));
    let model =
        import(&graph(vec![placeholder("x", &[1, -1, -1, 1]), pool], vec![])).unwrap().model;
    let (_, pool) = model.graph.nodes().find(|(_, node)| node.is("MaxPool")).unwrap();
    assert!(pool.attr("auto_pad").is_none());
    assert!(matches!(pool.attr("pads"), Some(IrAttr::Ints(pads)) if pads[..] == [0, 1, 0, 1]));
}

/// The graph of one operator, whose inputs have this type.
fn of_type(op: NodeDef, inputs: Vec<NodeDef>, dtype: i32) -> Graph {
    let inputs = inputs.into_iter().map(|node| match node.op.as_str() {
        "Placeholder" => node.attr("dtype", Attr::Type(dtype)),
        _ => node,
    });
    let nodes = inputs.chain([op.attr("T", Attr::Type(dtype))]).collect();
    import(&graph(nodes, vec![])).unwrap().model.graph
}

fn has(graph: &Graph, op: &str) -> bool {
    graph.nodes().any(|(_, node)| node.is(op))
}

#[test]
fn backwards_from_before_the_first_element_is_nothing() {
    let slice = |begin: i64| {
        let given = vec![
            placeholder("x", &[2]),
            ints("begin", &[1], &[begin]),
            ints("end", &[1], &[0]),
            ints("strides", &[1], &[-2]),
        ];
        let slice = node("y", "StridedSlice", &["x", "begin", "end", "strides"]);
        let graph = of_type(slice.attr("end_mask", Attr::I(1)), given, FLOAT);
        graph[graph.outputs()[0]].ty.as_ref().and_then(ValueType::dims)
    };
    assert_eq!(slice(-3), Some(vec![0]));
    assert_eq!(slice(-2), Some(vec![1]));
}

#[test]
fn unsigned_integers_are_subtracted_without_their_negative() {
    let given = vec![placeholder("x", &[4]), ints("at", &[1, 1], &[2]), placeholder("by", &[1])];
    let graph = of_type(node("y", "TensorScatterSub", &["x", "at", "by"]), given, UINT8);
    assert!(has(&graph, "Sub") && !has(&graph, "Neg"));
}

#[test]
fn numbers_of_64_bits_are_kept_in_the_range_of_their_steps() {
    let number = |name: &str, value: f64| {
        let value =
            TensorProto { dtype: DOUBLE, double_val: vec![value], ..TensorProto::default() };
        let value = TensorProto { tensor_shape: Some(shape(&[])), ..value };
        node(name, "Const", &[])
            .attr("dtype", Attr::Type(DOUBLE))
            .attr("value", Attr::Tensor(value))
    };
    let given = vec![placeholder("x", &[4]), number("low", -1.0), number("high", 2.0)];
    let rounded = node("y", "QuantizeAndDequantizeV2", &["x", "low", "high"]);
    assert!(has(&of_type(rounded.attr("range_given", Attr::B(true)), given, DOUBLE), "Clip"));
}

#[test]
fn functions_that_runtimes_lack_for_64_bits_are_spelled_out() {
    for op in ["Tan", "Asin", "Acos", "Asinh", "Acosh", "Atanh"] {
        let graph = |dtype| of_type(node("y", op, &["x"]), vec![placeholder("x", &[2])], dtype);
        assert!(has(&graph(FLOAT), op) && !has(&graph(DOUBLE), op), "{op}");
    }
}

/// What the last of some nodes gives for a matrix.
fn of_matrix(nodes: Vec<NodeDef>, matrix: [f32; 4]) -> Vec<f64> {
    let typed = nodes.into_iter().map(|node| node.attr("T", Attr::Type(FLOAT)));
    let nodes = std::iter::once(placeholder("x", &[2, 2])).chain(typed).collect();
    let model = import(&graph(nodes, vec![])).unwrap().model;
    let feeds = [("x".to_owned(), Tensor::from_vec([2, 2], matrix.to_vec()))].into();
    let outputs = Executor::new(&model).unwrap().run(&feeds, RunOptions::default()).unwrap();
    outputs[0].1.to_reals().unwrap().values
}

#[test]
fn vectors_put_a_matrix_together_again() {
    let yes = |node: NodeDef, name: &str| node.attr(name, Attr::B(true));
    let product = |name: &str, a: &str, b: &str| node(name, "BatchMatMulV2", &[a, b]);
    let x = [3.0f32, 1.0, -2.0, 4.0];
    let parts = vec![
        yes(node("svd", "Svd", &["x"]), "compute_uv"),
        node("us", "Mul", &["svd:1", "svd"]),
        yes(product("y", "us", "svd:2"), "adj_y"),
    ];
    let found = of_matrix(parts, x);
    assert!(found.iter().zip(x).all(|(y, x)| (y - f64::from(x)).abs() < 1e-5), "{found:?}");
    let parts = vec![
        yes(node("eig", "SelfAdjointEigV2", &["x"]), "compute_v"),
        product("xv", "x", "eig:1"),
        node("vd", "Mul", &["eig:1", "eig"]),
        node("y", "Sub", &["xv", "vd"]),
    ];
    let found = of_matrix(parts, [2.0, 1.0, 1.0, 5.0]);
    assert!(found.iter().all(|y| y.abs() < 1e-5), "{found:?}");
}
