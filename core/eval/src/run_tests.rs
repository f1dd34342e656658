use super::*;
use crate::Observer;
use onnxd_ir::text::parse_model;
use onnxd_ir::{Attr, DataType, Function, Graph, Node, Opsets, ValueType};
use std::sync::atomic::Ordering::Relaxed;

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
    let model = chain(&["Relu", "Frobnicate", "Relu", "Wibble"]);
    let found = Executor::new(&model).err().unwrap();
    let layers: Vec<_> = found.0.iter().map(|d| d.layer.clone().unwrap().name).collect();
    assert_eq!(layers, ["node1", "node3"]);
    assert!(found.0.iter().all(|d| d.code == "N0506"));
}

#[test]
fn a_list_of_missing_kernels_ends_somewhere() {
    let found = Executor::new(&chain(&["Frobnicate"; 250])).err().unwrap();
    assert_eq!(found.0.len(), 101);
    assert!(found.0[100].message.contains("150 more nodes"));
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
fn inputs_of_functions_may_be_left_out() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2] x) => (float[2] y, float[2] z) { y = l.Outer(x) z = l.Outer(x, , y) }
        <domain: "l", opset_import: ["" : 17]> Clamp (a, low, high) => (b) {
            c = Constant<value = bool {1}>()
            b = If(c) <then_branch = t () => (p) { p = Clip(a, low, high) }, else_branch = e () => (q) { q = Neg(a) }> }
        <domain: "l", opset_import: ["" : 17, "l" : 1]> Outer (a, low, high) => (c) {
            b = l.Clamp(a, low, low) m = ReduceSum(b, high) c = Add(b, b) }"#;
    let mut model = parse_model(text).unwrap();
    let inputs = feeds(&[("x", Tensor::vector(vec![-2f32, 1.0]))]);
    let wrong = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap_err();
    assert!(wrong.0[0].message.contains("ReduceSum"), "what is given is read: {wrong}");
    let id = model.graph.node_ids()[1];
    model.graph.set_input(id, 2, None);
    let found = Executor::new(&model).unwrap().run(&inputs, RunOptions::default()).unwrap();
    assert_eq!(found[0].1, Tensor::vector(vec![-4f32, 2.0]));
    assert_eq!(found[1].1, found[0].1);
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

/// `levels` functions; each applies the next `times` times.
fn multiplying(levels: usize, times: usize) -> Model {
    let mut model = chain(&["F0"]);
    for level in 0..levels {
        let mut function = Function { name: format!("F{level}"), ..Function::default() };
        function.opsets = model.opsets.clone();
        let g = &mut function.graph;
        let mut x = g.add_input("x", None);
        for time in 0..times {
            let y = g.add_value(&format!("y{time}"), None);
            let next = format!("F{}", level + 1);
            g.add_node(Node::new(if level + 1 < levels { &next } else { "Relu" }, [x], [y]));
            x = y;
        }
        g.mark_output(x);
        model.functions.push(function);
    }
    model
}

#[test]
fn functions_that_multiply_are_refused_before_a_run() {
    for (levels, times) in [(30, 2), (32, 4), (4, 300), (1000, 2)] {
        let found = Executor::new(&multiplying(levels, times)).err().unwrap();
        assert_eq!(found.0[0].code, "N0506", "{levels} {times}");
    }
    for (levels, times) in [(20, 2), (2, 1000), (10_000, 1)] {
        assert!(Executor::new(&multiplying(levels, times)).is_ok(), "{levels} {times}");
    }
}

#[test]
fn a_graph_given_to_functions_multiplies_too() {
    let branch = |attr: Attr| {
        let mut g = Graph::new("body");
        let x = g.add_input("c", Some(ValueType::tensor(DataType::Bool, [0i64; 0])));
        let mut last = x;
        for i in 0..10 {
            last = g.add_value(&format!("y{i}"), None);
            let node = Node::new("If", [x], [last]);
            g.add_node(node.with("then_branch", attr.clone()).with("else_branch", attr.clone()));
        }
        g.mark_output(last);
        g
    };
    let mut model = chain(&["Relu"]);
    let graph = branch(Attr::Ref { name: "body".into(), kind: 5 });
    let opsets = model.opsets.clone();
    model.functions = vec![Function { name: "F".into(), opsets, graph, ..Function::default() }];
    for _ in 0..8 {
        let mut outer = Graph::new("outer");
        let c = outer.add_initializer("c", Tensor::from_vec_as(DataType::Bool, vec![], vec![1u8]));
        let y = outer.add_value("y", None);
        let inner = std::mem::replace(&mut model.graph, Graph::new("g"));
        outer.add_node(Node::new("F", [c], [y]).with("body", Attr::Graph(Box::new(inner))));
        outer.mark_output(y);
        model.graph = outer;
    }
    let found = Executor::new(&model).err().unwrap();
    assert!(found.0[0].message.contains("apply each other"), "{found}");
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

fn parsed(text: &str) -> Model {
    onnxd_ir::text::parse_model(text).unwrap()
}

#[test]
fn what_follows_a_convolution_changes_no_bit() {
    let model = parsed(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[n, 2, 9, 9] x) => (float[n, 3, 7, 7] y)
        <float[3, 2, 3, 3] w = {1, -2, 3, 0.5, 0.25, 1, 2, 3, 4, -1, 1, -1, 2, 0, 1, 3, 1, 1, 2, 1,
            0, 1, 0.1, 0.2, 0.3, -4, 1, 1, 2, 1, 0, 0, 1, 0, 2, 1, 3, -1, -2, 1, 1, 0.7, 1, 1, 2, 1,
            1, 0, 0, -1, 1, 2, 3, 1},
         float[3] s = {0.3, -1.7, 2.1}, float[3] b = {0.1, 5, -0.2}, float[3] m = {1, 2, 0.3},
         float[3] v = {0.5, 3, 0.7}, float low = {-0.4}, float high = {2.5}> {
            a = Conv(x, w)
            c = BatchNormalization(a, s, b, m, v)
            d = Clip(c, low, high)
            y = Relu(d)
        }"#,
    );
    let executor = Executor::new(&model).unwrap();
    let x = (0..2 * 2 * 81).map(|i| (i * 37 % 101) as f32 / 50.0 - 1.0).collect();
    let inputs = feeds(&[("x", Tensor::from_vec(vec![2, 2, 9, 9], x))]);
    let mut seen = Vec::new();
    let mut observer = |name: &str, _: &Tensor| seen.push(name.to_owned());
    let options = RunOptions { observer: Some(&mut observer), ..RunOptions::default() };
    let alone = executor.run(&inputs, options).unwrap();
    assert_eq!(seen, ["x", "a", "c", "d", "y"]);
    assert_eq!(executor.run(&inputs, RunOptions::default()).unwrap(), alone);
    let mut one = One { name: "c", seen: Vec::new() };
    let options = RunOptions { observer: Some(&mut one), ..RunOptions::default() };
    assert_eq!(executor.run(&inputs, options).unwrap(), alone);
    let mut all = One { name: "", seen: Vec::new() };
    let options = RunOptions { observer: Some(&mut all), ..RunOptions::default() };
    executor.run(&inputs, options).unwrap();
    assert_eq!(one.seen, all.seen[2..3], "what is between is there if it is wanted");
    several(&executor, &inputs);
}

/// Runs that are made at once show what they show one by one.
fn several(executor: &Executor, inputs: &BTreeMap<String, Tensor>) {
    assert!(executor.at_once() >= 1);
    let mut observers: Vec<One> = (0..5).map(|_| One { name: "y", seen: Vec::new() }).collect();
    let runs = observers
        .iter_mut()
        .map(|observer| (inputs, RunOptions { observer: Some(observer), ..RunOptions::default() }));
    executor.run_all(runs.collect()).unwrap();
    let alone = executor.run(inputs, RunOptions::default()).unwrap();
    assert!(observers.iter().all(|observer| observer.seen == [alone[0].1.clone()]));
    let none = BTreeMap::new();
    let wrong = [inputs, &none].map(|inputs| (inputs, RunOptions::default()));
    assert_eq!(executor.run_all(wrong.into()).unwrap_err().0[0].code, "N0507");
}

/// Wants one value, or all without a name.
struct One {
    name: &'static str,
    seen: Vec<Tensor>,
}

impl Observer for One {
    fn wants(&mut self, value: &str) -> bool {
        self.name.is_empty() || self.name == value
    }

    fn see(&mut self, _: &str, tensor: &Tensor) {
        self.seen.push(tensor.clone());
    }
}

#[test]
fn only_what_no_input_overrides_is_kept() {
    let model = parsed(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, float[2] w) => (float[2] y, float[2] z)
        <float[2] w = {1, 2}, float[2] k = {3, 4}> { a = Neg(w) b = Neg(k) y = Mul(x, a) z = Mul(x, b) }"#,
    );
    let executor = Executor::new(&model).unwrap();
    let x = Tensor::vector(vec![1f32, 10.0]);
    for w in [[1f32, 2.0], [5.0, 6.0]] {
        let fed = feeds(&[("x", x.clone()), ("w", Tensor::vector(w.to_vec()))]);
        let found = executor.run(&fed, RunOptions::default()).unwrap();
        assert_eq!(found[0].1, Tensor::vector(vec![-w[0], -10.0 * w[1]]));
        assert_eq!(found[1].1, Tensor::vector(vec![-3f32, -40.0]));
    }
    assert_eq!(executor.kept.load(std::sync::atomic::Ordering::Relaxed), 8);
}

/// What is the same in each round of a loop is computed once, in the first run too.
#[test]
fn constants_of_a_body_are_kept_from_round_to_round() {
    let model = parsed(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x) => (float[2] y) <int64 n = {3}, bool c = {1}, float[2] k = {3, 4}> {
            b = Neg(k)
            z = Add(x, b)
            y = Loop(n, c, z) <body = b (int64 i, bool keep, float[2] s)
                => (bool again, float[2] t) <float[2] k = {1, 2}> {
                again = Identity(keep)
                a = Neg(k)
                t = Add(s, a)
            }>
        }"#,
    );
    let executor = Executor::new(&model).unwrap();
    let fed = feeds(&[("x", Tensor::vector(vec![10f32, 20.0]))]);
    let run = || executor.run(&fed, RunOptions::default()).unwrap()[0].1.clone();
    let kept = || executor.kept.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(run(), Tensor::vector(vec![4f32, 10.0]));
    assert_eq!(kept(), 8, "the body's, which ran three times");
    assert_eq!(run(), Tensor::vector(vec![4f32, 10.0]));
    assert_eq!(kept(), 16, "and that of the main graph, which ran twice");
}

/// A transposed, cast weight in the graph and in both branches of an `If`.
const DERIVED: &str = r#"<ir_version: 8, opset_import: ["" : 17]>
    g (float[2,3] x, bool c) => (float[2,3] y) <float[3,3] w>
    {
        m = MatMul(x, w)
        y = If(c) <then_branch = t () => (float[2,3] p) { p = MatMul(m, w) },
            else_branch = e () => (float[2,3] q) { q = Add(m, m) }>
    }"#;

#[test]
fn derived_constants_give_what_held_ones_give() {
    let weight = Tensor::from_vec(vec![3usize, 3], (0..9).map(f64::from).collect::<Vec<_>>());
    let derived = weight.permuted(&[1, 0]).unwrap().cast(DataType::Float).unwrap();
    let with = |tensor: Tensor| {
        let mut model = parse_model(DERIVED).unwrap();
        let w = model.graph.value_named("w").unwrap();
        model.graph.set_initializer(w, Some(tensor));
        model
    };
    let (lazy, held) = (with(derived.clone()), with(derived.held()));
    let x = Tensor::from_vec(vec![2usize, 3], vec![1f32, -2.0, 0.5, 3.0, 0.25, -1.0]);
    let [lazy, held] = [&lazy, &held].map(|model| Executor::new(model).unwrap());
    for (run, kept_max) in [0, 0, usize::MAX, usize::MAX].into_iter().enumerate() {
        let truth = Tensor::from_vec_as(DataType::Bool, vec![], vec![u8::from(run % 2 == 0)]);
        let fed = feeds(&[("x", x.clone()), ("c", truth)]);
        let [a, b] = [&lazy, &held].map(|executor| {
            executor.run(&fed, RunOptions { kept_max, ..RunOptions::default() }).unwrap()
        });
        assert_eq!(a, b, "run {run}");
        let kept = lazy.kept.load(Relaxed);
        assert_eq!(kept, if kept_max == 0 { 0 } else { derived.byte_len() }, "run {run}");
    }
    // Inputs may be derived, too; the lives of these are short.
    for _ in 0..3 {
        let turned = Tensor::concat(&[x.clone(), x.clone()], 1).unwrap();
        let turned = turned.sliced(&[(1, 2, -1), (1, 3, 1)]).unwrap();
        let truth = Tensor::from_vec_as(DataType::Bool, vec![], vec![0u8]);
        let [a, b] = [turned.clone(), turned.held()].map(|x| {
            let fed = feeds(&[("x", x), ("c", truth.clone())]);
            lazy.run(&fed, RunOptions::default()).unwrap()
        });
        assert_eq!(a, b);
    }
}

/// Numbers at odd places, as in a mapped file, are copied once: in the second run, if there is room.
#[test]
fn constants_at_odd_places_are_kept_at_even_ones() {
    let numbers: Vec<f32> = (0..9).map(|i| i as f32 - 3.5).collect();
    let mut bytes = vec![0u8; 4 * numbers.len() + 8];
    let gap = 1 + bytes.as_ptr().align_offset(4);
    bytes[gap..][..36].copy_from_slice(bytemuck::cast_slice(&numbers));
    let odd = bytes::Bytes::from(bytes).slice(gap..gap + 36);
    let odd = Tensor::new(DataType::Float, vec![3, 3], odd).unwrap();
    let mut model = parsed(
        r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[2, 3] x) => (float[2, 3] y) <float[3, 3] w> { y = MatMul(x, w) }"#,
    );
    let w = model.graph.value_named("w").unwrap();
    model.graph.set_initializer(w, Some(odd));
    let executor = Executor::new(&model).unwrap();
    let x = Tensor::from_vec(vec![2usize, 3], vec![1f32, -2.0, 0.5, 3.0, 0.25, -1.0]);
    let mut found = Vec::new();
    for (kept_max, kept) in [(0, 0), (35, 0), (usize::MAX, 36), (usize::MAX, 36)] {
        let options = RunOptions { kept_max, ..RunOptions::default() };
        found.push(executor.run(&feeds(&[("x", x.clone())]), options).unwrap());
        assert_eq!(executor.kept.load(Relaxed), kept);
    }
    assert!(found.iter().all(|y| *y == found[0]));
}
