use super::*;
use onnxd_ir::{Attr, DataType, Node, Opsets, ValueType};

fn feeds(list: &[(&str, Tensor)]) -> BTreeMap<String, Tensor> {
    list.iter().map(|(n, t)| ((*n).to_owned(), t.clone())).collect()
}

fn chain(ops: &[&str]) -> Model {
    let mut g = Graph::new("g");
    let ty = ValueType::tensor(DataType::Float, ["n".into(), onnxd_ir::Dim::Known(2)]);
    let mut x = g.add_input("x", Some(ty));
    for (i, op) in ops.iter().enumerate() {
        let y = g.add_value(&format!("v{i}"), None);
        let node = Node::new(*op, [x], [y]);
        g.add_node(Node { name: format!("node{i}"), ..node });
        x = y;
    }
    g.mark_output(x);
    Model::new(g, 8, 17)
}

#[test]
fn all_missing_kernels_are_listed() {
    let model = chain(&["Relu", "Frobnicate", "Relu", "Bernoulli"]);
    let found = Executor::new(&model).err().unwrap();
    let layers: Vec<_> = found.0.iter().map(|d| d.layer.clone().unwrap().name).collect();
    assert_eq!(layers, ["node1", "node3"]);
    assert!(found.0.iter().all(|d| d.code == "N0506"));
}

#[test]
fn all_input_problems_are_listed() {
    let model = chain(&["Relu"]);
    let executor = Executor::new(&model).unwrap();
    let wrong = feeds(&[("y", Tensor::scalar(1f32)), ("x", Tensor::vector(vec![1i32]))]);
    let found = executor.run(&wrong, RunOptions::default()).unwrap_err();
    assert_eq!(found.0.len(), 2);
    assert!(found.0.iter().all(|d| d.code == "N0507"));
    let missing = executor.run(&feeds(&[]), RunOptions::default()).unwrap_err();
    assert!(missing.0[0].message.contains("`x` is missing"));
    let shape = feeds(&[("x", Tensor::from_vec(vec![1, 3], vec![0f32; 3]))]);
    assert!(executor.run(&shape, RunOptions::default()).is_err());
}

#[test]
fn the_failing_node_is_named() {
    let model = chain(&["Relu", "Not"]);
    let inputs = feeds(&[("x", Tensor::from_vec(vec![1, 2], vec![1f32, 2.0]))]);
    let found = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap_err();
    assert_eq!(found.0[0].layer.as_ref().unwrap().name, "node1");
}

#[test]
fn memory_is_freed_after_the_last_read_and_limited() {
    let model = chain(&["Relu", "Neg", "Abs", "Neg", "Relu"]);
    let executor = Executor::new(&model).unwrap();
    let inputs = feeds(&[("x", Tensor::from_vec(vec![512, 2], vec![1f32; 1024]))]);
    let enough = RunOptions { bytes_max: 2 * 4096, ..RunOptions::default() };
    assert!(executor.run(&inputs, enough).is_ok());
    let little = RunOptions { bytes_max: 2 * 4096 - 1, ..RunOptions::default() };
    assert_eq!(executor.run(&inputs, little).unwrap_err().0[0].code, "N0305");
}

#[test]
fn functions_are_applied_with_their_attributes() {
    let mut body = Graph::new("leak");
    let x = body.add_input("x", None);
    let y = body.add_value("y", None);
    let reference = Attr::Ref { name: "slope".into(), kind: 1 };
    body.add_node(Node::new("LeakyRelu", [x], [y]).with("alpha", reference));
    body.mark_output(y);
    let function = Function {
        domain: "local".into(),
        name: "Leak".into(),
        defaults: vec![("slope".into(), Attr::Float(0.5))],
        opsets: Opsets::from([(String::new(), 17)]),
        graph: body,
        ..Function::default()
    };
    for (given, expected) in [(None, -1f32), (Some(0.25), -0.5)] {
        let mut model = chain(&["Relu"]);
        let id = model.graph.node_ids()[0];
        let node = model.graph.node_mut(id);
        (node.op, node.domain) = ("Leak".into(), "local".into());
        node.attrs.extend(given.map(|v| ("slope".to_owned(), Attr::Float(v))));
        model.functions = vec![function.clone()];
        let inputs = feeds(&[("x", Tensor::from_vec(vec![1, 2], vec![-2f32, 1.0]))]);
        let found = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap();
        assert_eq!(found[0].1, Tensor::from_vec(vec![1, 2], vec![expected, 1.0]));
    }
}

#[test]
fn a_function_that_applies_itself_is_refused() {
    let mut model = chain(&["F"]);
    let mut function = Function { name: "F".into(), ..Function::default() };
    let x = function.graph.add_input("x", None);
    let y = function.graph.add_value("y", None);
    function.graph.add_node(Node::new("F", [x], [y]));
    function.graph.mark_output(y);
    model.functions = vec![function];
    assert_eq!(Executor::new(&model).err().unwrap().0[0].code, "N0502");
}

#[test]
fn an_initializer_is_the_default_of_an_input() {
    let mut model = chain(&["Neg"]);
    let x = model.graph.value_named("x").unwrap();
    model.graph.set_initializer(x, Some(Tensor::from_vec(vec![1, 2], vec![1f32, 2.0])));
    let executor = Executor::new(&model).unwrap();
    let found = executor.run(&feeds(&[]), RunOptions::default()).unwrap();
    assert_eq!(found[0].1, Tensor::from_vec(vec![1, 2], vec![-1f32, -2.0]));
}
