use crate::{Executor, RunOptions};
use onnxd_ir::{Attr, DataType, Graph, Model, Node, Tensor, ValueType};
use std::collections::BTreeMap;

/// A graph with one If whose branches return a captured value and its negative.
fn branching() -> Model {
    let mut g = Graph::new("g");
    let c = g.add_input("c", Some(ValueType::tensor(DataType::Bool, Vec::<i64>::new())));
    let x = g.add_input("x", Some(ValueType::tensor(DataType::Float, [2])));
    let branch = |op: &str| {
        let mut b = Graph::new("branch");
        let inner = b.capture(x, "x", None);
        let y = b.add_value("inner", None);
        b.add_node(Node::new(op, [inner], [y]));
        b.mark_output(y);
        Attr::Graph(Box::new(b))
    };
    let (then, other) = (branch("Identity"), branch("Neg"));
    let y = g.add_value("y", None);
    g.add_node(Node::new("If", [c], [y]).with("then_branch", then).with("else_branch", other));
    g.mark_output(y);
    Model::new(g, 8, 17)
}

#[test]
fn branches_see_captured_values() {
    let model = branching();
    let executor = Executor::new(&model).unwrap();
    for (condition, expected) in [(1u8, [1f32, 2.0]), (0, [-1.0, -2.0])] {
        let inputs = BTreeMap::from([
            ("c".to_owned(), Tensor::from_vec_as(DataType::Bool, vec![], vec![condition])),
            ("x".to_owned(), Tensor::vector(vec![1f32, 2.0])),
        ]);
        let mut seen = Vec::new();
        let mut observer = |name: &str, _: &Tensor| seen.push(name.to_owned());
        let options = RunOptions { observer: Some(&mut observer), ..RunOptions::default() };
        let outputs = executor.run(&inputs, options).unwrap();
        assert_eq!(outputs, [("y".to_owned(), Tensor::vector(expected.to_vec()))]);
        let branch = if condition == 1 { "then_branch" } else { "else_branch" };
        assert_eq!(seen, ["c", "x", &format!("y::{branch}::inner"), "y"]);
    }
}

/// `sum += i; scanned sum; while sum < 3`
fn looping() -> Model {
    let mut b = Graph::new("body");
    let i = b.add_input("i", None);
    let _ = b.add_input("keep", None);
    let sum = b.add_input("sum", None);
    let limit = b.add_initializer("limit", Tensor::scalar(3i64));
    let [next, more] = ["next", "more"].map(|n| b.add_value(n, None));
    b.add_node(Node::new("Add", [sum, i], [next]));
    b.add_node(Node::new("Less", [next, limit], [more]));
    [more, next, next].into_iter().for_each(|v| b.mark_output(v));
    let mut g = Graph::new("g");
    let trips = g.add_input("trips", None);
    let start = g.add_initializer("start", Tensor::scalar(0i64));
    let [last, all] = ["last", "all"].map(|n| g.add_value(n, None));
    let mut node = Node::new("Loop", [trips], [last, all]);
    node.inputs.extend([None, Some(start)]);
    g.add_node(node.with("body", Attr::Graph(Box::new(b))));
    [last, all].into_iter().for_each(|v| g.mark_output(v));
    Model::new(g, 8, 17)
}

#[test]
fn loops_stop_by_count_or_condition() {
    let model = looping();
    let executor = Executor::new(&model).unwrap();
    for (trips, last, all) in [(2i64, 1i64, vec![0i64, 1]), (9, 3, vec![0, 1, 3])] {
        let inputs = BTreeMap::from([("trips".to_owned(), Tensor::scalar(trips))]);
        let outputs = executor.run(&inputs, RunOptions::default()).unwrap();
        assert_eq!(outputs[0].1, Tensor::scalar(last));
        assert_eq!(outputs[1].1, Tensor::vector(all));
    }
}

#[test]
fn scans_go_forth_and_back() {
    let mut b = Graph::new("body");
    let state = b.add_input("state", None);
    let x = b.add_input("x", None);
    let sum = b.add_value("sum", None);
    b.add_node(Node::new("Add", [state, x], [sum]));
    b.mark_output(sum);
    b.mark_output(sum);
    let mut g = Graph::new("g");
    let start = g.add_initializer("start", Tensor::scalar(0f32));
    let xs = g.add_input("xs", None);
    let [last, all] = ["last", "all"].map(|n| g.add_value(n, None));
    let node = Node::new("Scan", [start, xs], [last, all])
        .with("body", Attr::Graph(Box::new(b)))
        .with("num_scan_inputs", Attr::Int(1))
        .with("scan_input_directions", Attr::Ints(vec![1]));
    g.add_node(node);
    [last, all].into_iter().for_each(|v| g.mark_output(v));
    let model = Model::new(g, 8, 17);
    let inputs = BTreeMap::from([("xs".to_owned(), Tensor::vector(vec![1f32, 2.0, 3.0]))]);
    let outputs = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap();
    assert_eq!(outputs[0].1, Tensor::scalar(6f32));
    assert_eq!(outputs[1].1, Tensor::vector(vec![3f32, 5.0, 6.0]));
}

#[test]
fn scans_of_opset_8_have_a_batch_axis() {
    let mut b = Graph::new("body");
    let [state, x] = ["state", "x"].map(|n| b.add_input(n, None));
    let sum = b.add_value("sum", None);
    b.add_node(Node::new("Add", [state, x], [sum]));
    b.mark_output(sum);
    b.mark_output(sum);
    let mut g = Graph::new("g");
    let start = g.add_initializer("start", Tensor::vector(vec![0f32, 10.0]));
    let xs = g.add_input("xs", None);
    let [last, all] = ["last", "all"].map(|n| g.add_value(n, None));
    let mut node = Node::new("Scan", [], [last, all]);
    node.inputs = vec![None, Some(start), Some(xs)];
    let node = node.with("body", Attr::Graph(Box::new(b)));
    g.add_node(node.with("num_scan_inputs", Attr::Int(1)));
    [last, all].into_iter().for_each(|v| g.mark_output(v));
    let model = Model::new(g, 3, 8);
    let xs = Tensor::from_vec(vec![2, 2], vec![1f32, 2.0, 3.0, 4.0]);
    let inputs = BTreeMap::from([("xs".to_owned(), xs)]);
    let outputs = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap();
    assert_eq!(outputs[0].1, Tensor::vector(vec![3f32, 17.0]));
    assert_eq!(outputs[1].1, Tensor::from_vec(vec![2, 2], vec![1f32, 3.0, 13.0, 17.0]));
}
