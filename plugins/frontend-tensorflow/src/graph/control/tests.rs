use crate::graph::fixture::{FLOAT, found, function, graph, import, node, placeholder};
use crate::wire::proto::{Attr, ListValue, NameAttrList, NodeDef};
use onnxd_plugin_sdk::ir::Graph;

/// A loop whose condition is the function `c` and whose body is the function `f`.
fn looped(name: &str, inputs: &[&str]) -> NodeDef {
    let f =
        |name: &str| Attr::Func(NameAttrList { name: name.to_owned(), ..NameAttrList::default() });
    let types = Attr::List(ListValue { r#type: vec![FLOAT; inputs.len()], ..Default::default() });
    node(name, "While", inputs).attr("cond", f("c")).attr("body", f("f")).attr("T", types)
}

fn less() -> crate::wire::proto::FunctionDef {
    let less = node("l", "Less", &["x", "w"]);
    function("c", &["x", "w"], &[("r", "l:z:0")], vec![less])
}

fn inputs() -> Vec<NodeDef> {
    vec![placeholder("x", &[]), placeholder("w", &[])]
}

fn operators(graph: &Graph) -> Vec<String> {
    graph.nodes().map(|(_, node)| node.op.clone()).collect()
}

#[test]
fn a_value_that_stays_is_not_carried() {
    let add = node("a", "AddV2", &["x", "w"]);
    let body = function("f", &["x", "w"], &[("x1", "a:z:0"), ("w1", "w")], vec![add]);
    let nodes = [inputs(), vec![looped("y", &["x", "w"]), node("out", "Neg", &["y"])]].concat();
    let model = import(&graph(nodes, vec![less(), body])).unwrap().model;
    assert_eq!(operators(&model.graph), ["Less", "Loop", "Neg"]);
    let (_, node) = model.graph.nodes().find(|(_, node)| node.is("Loop")).unwrap();
    assert_eq!(node.inputs.len(), 3);
}

#[test]
fn functions_with_other_counts_are_refused() {
    let body = |args: &[&str], results: &[(&str, &str)]| function("f", args, results, vec![]);
    let nodes = || [inputs(), vec![looped("y", &["x", "w"]), node("out", "Neg", &["y"])]].concat();
    let few = import(&graph(nodes(), vec![less(), body(&["x", "w"], &[("r", "x")])]));
    assert_eq!(found(few), ["N0201 The function `f` gives 1 values, and the loop has 2."]);
    let many = import(&graph(nodes(), vec![less(), body(&["x"], &[("r", "x")])]));
    assert_eq!(found(many), ["N0201 The function `f` takes 1 arguments and gets 2."]);
}

#[test]
fn a_loop_inside_itself_is_refused() {
    let inner = looped("i", &["x", "w"]);
    let body = function("f", &["x", "w"], &[("a", "i:output:0"), ("b", "i:output:1")], vec![inner]);
    let nodes = [inputs(), vec![looped("y", &["x", "w"]), node("out", "Neg", &["y"])]].concat();
    let all = found(import(&graph(nodes, vec![less(), body])));
    assert!(all.len() == 1 && all[0].starts_with("N0213"), "{all:?}");
}

#[test]
fn a_frame_that_needs_its_own_result_is_refused() {
    let frame = Attr::S(bytes::Bytes::from_static(b"frame"));
    let nodes = vec![
        placeholder("x", &[]),
        node("e", "Enter", &["ex"]).attr("frame_name", frame),
        node("m", "Merge", &["e", "n"]),
        node("l", "LoopCond", &["c"]),
        node("c", "Less", &["m", "m"]),
        node("s", "Switch", &["m", "l"]),
        node("n", "NextIteration", &["s:1"]),
        node("ex", "Exit", &["s"]),
        node("out", "Neg", &["ex"]),
    ];
    let all = found(import(&graph(nodes, vec![])));
    assert_eq!(all, ["N0206 The node depends on its own result."]);
}

/// A condition of two results; the second one reads `second` where the first one reads `x`.
fn two_results(second: &str) -> Vec<String> {
    let nodes = vec![
        placeholder("x", &[2]),
        placeholder("p", &[]).attr("dtype", Attr::Type(10)),
        node("s", "Switch", &["x", "p"]),
        node("t", "Switch", &[second, "p"]),
        node("a", "Neg", &["s"]),
        node("b", "Abs", &["s:1"]),
        node("c", "Exp", &["t"]),
        node("d", "Sqrt", &["t:1"]),
        node("m", "Merge", &["a", "b"]),
        node("n", "Merge", &["c", "d"]),
        node("out", "AddV2", &["m", "n"]),
    ];
    operators(&import(&graph(nodes, vec![])).unwrap().model.graph)
}

#[test]
fn results_of_one_condition_are_of_one_if() {
    assert_eq!(two_results("x"), ["If", "Add"]);
    assert_eq!(two_results("m"), ["If", "If", "Add"]);
}

#[test]
fn a_condition_inside_another_one_stays_there() {
    let flag = |name: &str| placeholder(name, &[]).attr("dtype", Attr::Type(10));
    let nodes = vec![
        placeholder("x", &[2]),
        flag("p"),
        flag("q"),
        node("s", "Switch", &["x", "p"]),
        node("q_inside", "Switch", &["q", "p"]),
        node("t", "Switch", &["s:1", "q_inside:1"]),
        node("a", "Neg", &["t"]),
        node("b", "Abs", &["t:1"]),
        node("inner", "Merge", &["a", "b"]),
        node("c", "Exp", &["s"]),
        node("outer", "Merge", &["c", "inner"]),
        node("u", "Switch", &["x", "q"]),
        node("d", "Sqrt", &["u"]),
        node("e", "Sin", &["u:1"]),
        node("other", "Merge", &["d", "e"]),
        node("out", "AddV2", &["other", "outer"]),
    ];
    let model = import(&graph(nodes, vec![])).unwrap().model;
    assert_eq!(operators(&model.graph), ["If", "If", "Add"]);
}

#[test]
fn a_condition_after_a_loop_waits_for_the_one_before_it() {
    let enter = |name: &str, from: &str, frame: &'static [u8]| {
        node(name, "Enter", &[from]).attr("frame_name", Attr::S(bytes::Bytes::from_static(frame)))
    };
    let nodes = vec![
        placeholder("x", &[]),
        placeholder("p", &[]).attr("dtype", Attr::Type(10)),
        node("s", "Switch", &["x", "p"]),
        node("a", "Neg", &["s"]),
        node("b", "Abs", &["s:1"]),
        node("before", "Merge", &["a", "b"]),
        enter("w", "before", b"frame"),
        enter("e", "x", b"frame"),
        node("m", "Merge", &["e", "next"]),
        node("less", "Less", &["m", "w"]),
        node("cond", "LoopCond", &["less"]),
        node("turn", "Switch", &["m", "cond"]),
        node("sum", "AddV2", &["turn:1", "w"]),
        node("next", "NextIteration", &["sum"]),
        node("end", "Exit", &["turn"]),
        node("t", "Switch", &["end", "p"]),
        node("c", "Exp", &["t"]),
        node("d", "Sqrt", &["t:1"]),
        node("after", "Merge", &["c", "d"]),
        node("out", "Neg", &["after"]),
    ];
    let model = import(&graph(nodes, vec![])).unwrap().model;
    assert_eq!(operators(&model.graph), ["If", "Less", "Loop", "If", "Neg"]);
}

#[test]
fn a_switch_is_a_condition() {
    let flag = placeholder("p", &[]).attr("dtype", Attr::Type(10));
    let nodes = vec![
        placeholder("x", &[2]),
        flag,
        node("s", "Switch", &["x", "p"]),
        node("a", "Neg", &["s"]),
        node("b", "Abs", &["s:1"]),
        node("m", "Merge", &["a", "b"]),
        node("out", "Exp", &["m"]),
    ];
    let model = import(&graph(nodes, vec![])).unwrap().model;
    assert_eq!(operators(&model.graph), ["If", "Exp"]);
}
