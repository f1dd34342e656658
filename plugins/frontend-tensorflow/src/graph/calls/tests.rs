use crate::graph::fixture::{call, found, function, graph, import, node, placeholder};

#[test]
fn calls_are_inlined_and_names_are_unique() {
    let twice = function("f", &["a"], &[("r", "sum:z:0")], vec![node("sum", "AddV2", &["a", "a"])]);
    let outer = vec![
        placeholder("x", &[2]),
        call("PartitionedCall", "f", &["x"]),
        call("PartitionedCall_1", "f", &["PartitionedCall"]),
        node("legacy", "f", &["PartitionedCall_1"]),
    ];
    let model = import(&graph(outer, vec![twice])).unwrap().model;
    let layers: Vec<&str> = model.graph.nodes().map(|(_, n)| n.layers[0].name.as_str()).collect();
    assert_eq!(layers, ["sum", "PartitionedCall_1/sum", "legacy/sum"]);
}

#[test]
fn calls_that_never_end_are_refused() {
    let f = function("f", &["a"], &[("r", "c:output:0")], vec![call("c", "f", &["a"])]);
    let nodes = vec![placeholder("x", &[2]), call("y", "f", &["x"])];
    assert_eq!(
        found(import(&graph(nodes, vec![f]))),
        ["N0213 More than 64 calls are inside each other."]
    );
    // Each function calls the next one twice.
    let many = (0..60).map(|i| {
        let next = format!("f{}", i + 1);
        let nodes = vec![call("c", &next, &["a"]), call("d", &next, &["c:output:0"])];
        function(&format!("f{i}"), &["a"], &[("r", "d:output:0")], nodes)
    });
    let last = function("f60", &["a"], &[("r", "a")], vec![]);
    let nodes = vec![placeholder("x", &[2]), call("y", "f0", &["x"])];
    let said = found(import(&graph(nodes, many.chain([last]).collect())));
    assert!(said[0].starts_with("N0213 The graph has more than"), "{said:?}");
}

#[test]
fn calls_that_do_not_fit_are_refused() {
    let f = function("f", &["a"], &[("r", "a"), ("s", "b:z:0")], vec![]);
    let nodes = |call| vec![placeholder("x", &[2]), call];
    let said = |call| found(import(&graph(nodes(call), vec![f.clone()])));
    assert_eq!(said(call("y", "f", &[])), ["N0201 The function `f` takes 1 arguments and gets 0."]);
    assert_eq!(said(call("y", "g", &["x"])), ["N0201 The graph has no function `g`."]);
    assert_eq!(
        said(call("y", "f", &["x"])),
        ["N0201 A node reads `b:z:0`, which the graph does not have."]
    );
}
