// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

use super::{Driver, Fallback, Lower, Lowered, Lowering, Table, Value};
use crate::{arguments, rows};
use onnxd_build::{Operand, Var};
use onnxd_diagnostics::Layer;
use onnxd_ir::text::print_graph;
use onnxd_ir::{DataType, Graph, Opsets, Tensor, ValueType};

arguments! {
    /// `mean(Tensor x, int[] dims, bool keepdim=False)`
    struct Mean { x: Var, dims: Vec<i64>, keepdim: bool = false }
    /// `add(Tensor a, Tensor or float b, float alpha=1)`
    struct AddScaled { a: Var, b: Operand, alpha: f64 = 1.0 }
}

fn clip(b: &Lower, x: Var, min: f64, max: Option<f64>) -> Lowered<Var> {
    b.clip(x).min(min).max(max.unwrap_or(f64::from(f32::MAX))).one()
}

fn mean(b: &Lower, a: Mean) -> Lowered<Var> {
    b.reduce_mean(a.x).axes(a.dims).keepdims(a.keepdim).one()
}

fn add(b: &Lower, a: AddScaled) -> Lowered<Var> {
    if a.alpha == 1.0 {
        return b.add(a.a, a.b);
    }
    b.add(a.a, b.mul(a.b, a.alpha)?)
}

fn split(b: &Lower) -> Lowered<[Var; 2]> {
    let x = b.constant(Tensor::vector(vec![1.0f32, 2.0]));
    b.split(x).axis(0).num_outputs(2).outputs()
}

fn table() -> Table {
    let table = rows! { Table::new();
        "clip" => clip(x, min, max);
        "mean" => mean;
        "add" => |b, all: AddScaled| add(b, all);
        "split" => split();
    };
    table.unknown_help("Write `warp` in other operators.").refused("dropout", "it draws at random")
}

fn run(items: Vec<Lowering>, fallback: Fallback) -> Result<(String, Vec<String>), Vec<String>> {
    let table = table();
    let opsets = Opsets::from([(String::new(), 18)]);
    let driver = Driver::new(&table, &(), Graph::new("g"), opsets, fallback);
    let x = driver.builder().input("x", ValueType::tensor(DataType::Float, [2, 3]));
    let mut last = Value::Var(x);
    for mut item in items {
        item.arguments.insert(0, last);
        last = driver.lower(item).remove(0);
    }
    if let Value::Var(v) = last {
        driver.builder().output(v, "y").unwrap();
    }
    let shown = |d: Vec<onnxd_diagnostics::Diagnostic>| d.iter().map(ToString::to_string).collect();
    driver.finish().map(|(g, notes)| (print_graph(&g), shown(notes))).map_err(|d| shown(d.0))
}

#[test]
fn functions_are_held_once_and_never_lost() {
    fn shifted(b: &Lower, x: Var, by: f64) -> Lowered<Var> {
        let given = b.function("my.own", "Shift", &[x], |b, x| Ok(vec![b.add(x[0], by)?]))?;
        Ok(given[0])
    }
    fn leaky(b: &Lower, x: Var, by: f64) -> Lowered<Var> {
        Ok(b.function("my.own", "Leak", &[], |b, _| Ok(vec![b.add(x, by)?]))?[0])
    }
    let table = rows! { Table::new(); "shift" => shifted(x, by); "leak" => leaky(x, by); };
    let opsets = || Opsets::from([(String::new(), 17)]);
    let driver = || Driver::new(&table, &(), Graph::new("g"), opsets(), Fallback::default());
    let shift = |driver: &Driver<'_>, op: &str, x: Value, by: f64| {
        let (arguments, results) = (vec![x, by.into()], vec![String::new()]);
        driver
            .lower(Lowering { op: op.into(), arguments, results, ..Lowering::default() })
            .remove(0)
    };
    let run = |driver: &Driver<'_>| {
        let x = driver.builder().input("x", ValueType::tensor(DataType::Float, [2i64]));
        let y = shift(driver, "shift", x.into(), 1.0);
        let y = shift(driver, "shift", y, 2.0);
        shift(driver, "shift", y, 1.0)
    };
    let one = driver();
    let Value::Var(y) = run(&one) else { panic!("a tensor") };
    assert_eq!(one.builder().dims_of(y), Some(vec![2]));
    let (graph, functions, _) = one.finish_model().unwrap();
    let applied: Vec<String> = graph.nodes().map(|(_, n)| n.op.clone()).collect();
    assert_eq!(applied, ["Shift", "Shift_2", "Shift"]);
    let names: Vec<&str> = functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(names, ["Shift", "Shift_2"]);

    let other = driver();
    run(&other);
    assert!(other.finish().unwrap_err().0[0].to_string().contains("N0406"));
    let third = driver();
    let x = third.builder().input("x", ValueType::tensor(DataType::Float, [2i64]));
    shift(&third, "leak", x.into(), 1.0);
    let found = third.finish_model().unwrap_err().0[0].to_string();
    assert!(found.contains("reads a value that is no input"), "{found}");
}

fn item(op: &str, line: usize, arguments: Vec<Value>) -> Lowering {
    let layer = Layer { place: format!("net.py:{line}"), ..Layer::new(format!("m.{op}"), op) };
    Lowering {
        op: op.into(),
        layer,
        arguments,
        named: vec![],
        results: vec![String::new()],
        types: vec![],
        facts: vec![],
    }
}

#[test]
fn rows_add_nodes_with_their_layer() {
    let mean = Lowering {
        named: vec![("keepdim".into(), true.into())],
        ..item("mean", 2, vec![vec![1i64].into()])
    };
    let items = vec![item("clip", 1, vec![Value::Int(0)]), mean, item("add", 3, vec![2.0.into()])];
    let (text, notes) = run(items, Fallback::default()).unwrap();
    assert!(text.contains("ReduceMean(") && text.contains("float[2,1] y"), "{text}");
    assert!(notes.is_empty(), "{notes:?}");
}

#[test]
fn everything_that_is_missing_is_said_at_once() {
    let items = vec![
        item("warp", 1, vec![]),
        item("clip", 2, vec![0.0.into()]),
        item("warp", 3, vec![]),
        item("dropout", 4, vec![]),
    ];
    let found = run(items, Fallback::default()).unwrap_err();
    assert_eq!(found.len(), 2, "a hole says nothing of its own: {found:?}");
    assert!(found[0].contains("`dropout` cannot be converted: it draws at random"), "{found:?}");
    let all = "`warp` is not known to this front-end (2 places)";
    assert!(found[1].contains(all) && found[1].contains("m.warp (warp) at net.py:1"), "{found:?}");
    let help = "Write `warp` in other operators. It also occurs at `m.warp` net.py:3";
    assert!(found[1].contains(help), "{found:?}");
}

#[test]
fn arguments_are_of_the_kinds_that_the_function_says() {
    let wrong = run(vec![item("clip", 1, vec!["low".into()])], Fallback::default()).unwrap_err();
    assert!(wrong[0].contains("`min` must be a number, found a word"), "{wrong:?}");
    let missing = run(vec![item("clip", 1, vec![])], Fallback::default()).unwrap_err();
    assert!(missing[0].contains("`min` is missing"), "{missing:?}");
    let more = vec![0.0.into(), 1.0.into(), Value::Bool(true)];
    let (_, notes) = run(vec![item("clip", 1, more)], Fallback::default()).unwrap();
    assert!(notes[0].contains("argument 4 has no effect"), "{notes:?}");
    let shape =
        run(vec![item("mean", 7, vec![vec![5i64].into()])], Fallback::default()).unwrap_err();
    assert!(shape[0].contains("N0215") && shape[0].contains("net.py:7"), "{shape:?}");
}

#[test]
fn facts_are_read_by_name_and_no_finding_if_they_are_not() {
    let facts = vec![("min".to_owned(), 0.5.into()), ("dtype".to_owned(), "float32".into())];
    let clip = Lowering { facts, ..item("clip", 1, vec![]) };
    let (text, notes) = run(vec![clip], Fallback::default()).unwrap();
    assert!(text.contains("0.5") && notes.is_empty(), "{text} {notes:?}");
}

#[test]
fn numbers_are_tensors_where_a_tensor_is_needed() {
    let sum_type = |number: Value| {
        let table = table();
        let opsets = Opsets::from([(String::new(), 18)]);
        let driver = Driver::new(&table, &(), Graph::new("g"), opsets, Fallback::default());
        let given = driver.lower(item("add", 1, vec![number, 1i64.into()]));
        let Value::Var(v) = given[0] else { panic!("{given:?}") };
        driver.builder().type_of(v).map(|ty| ty.to_string())
    };
    assert_eq!(sum_type(2.5.into()).as_deref(), Some("float"));
    assert_eq!(sum_type(2i64.into()).as_deref(), Some("int64"));
}

#[test]
fn what_reads_a_hole_is_looked_at() {
    let items = || vec![item("warp", 1, vec![]), item("clip", 2, vec!["low".into()])];
    let found = run(items(), Fallback::default()).unwrap_err();
    assert!(found[1].contains("`min` must be a number"), "{found:?}");
    let mut typed = vec![item("warp", 1, vec![]), item("mean", 2, vec![vec![5i64].into()])];
    assert_eq!(
        run(typed.clone(), Fallback::default()).unwrap_err().len(),
        1,
        "nothing is known of it"
    );
    typed[0].types = vec![Some(ValueType::tensor(DataType::Float, [4]))];
    let found = run(typed, Fallback::default()).unwrap_err();
    assert!(found[1].contains("N0215"), "its type says that there is no axis 5: {found:?}");
}

#[test]
fn an_unknown_operator_becomes_one_of_a_domain_on_demand() {
    let warp = Lowering {
        named: vec![("mode".into(), "far".into())],
        types: vec![Some(ValueType::unranked(DataType::Float))],
        ..item("vision::warp", 1, vec![vec![1i64, 2].into()])
    };
    let items = vec![warp, item("clip", 2, vec![Value::Int(0)])];
    let (text, _) = run(items, Fallback::default().or_domain("my.ops")).unwrap();
    assert!(text.contains("my.ops.vision__warp<") && text.contains("mode = \"far\""), "{text}");
    assert!(text.contains("argument_2 = [1,2]") || text.contains("argument_2 = [1, 2]"), "{text}");
}

#[test]
fn an_unknown_operator_keeps_its_name_or_is_wrapped() {
    let sum = || vec![item("vision::sum.dim", 1, vec![])];
    let (text, _) = run(sum(), Fallback::default().or_own_domain()).unwrap();
    assert!(text.contains("vision.sum(x)"), "{text}");
    let wrapped = || Fallback::default().or_wrapped("vision", "org.vision", "Call");
    let (text, _) = run(sum(), wrapped()).unwrap();
    let call = "org.vision.Call<operator = \"sum\", overload_name = \"dim\">(x)";
    assert!(text.contains(call), "{text}");
    let found = run(vec![item("my::sum", 1, vec![])], wrapped()).unwrap_err();
    assert!(found.len() == 1 && found[0].contains("`my::sum` is not known"), "{found:?}");
}

#[test]
fn several_results_and_names_of_rows() {
    assert_eq!(table().operators(), ["add", "clip", "mean", "split"]);
    let table = table();
    let opsets = Opsets::from([(String::new(), 18)]);
    let driver = Driver::new(&table, &(), Graph::new("g"), opsets, Fallback::default());
    let split = Lowering {
        results: vec![String::new(), "second".into()],
        op: "split".into(),
        ..Lowering::default()
    };
    let given = driver.lower(split);
    assert_eq!(given.len(), 2);
    assert!(given.iter().all(|v| matches!(v, Value::Var(_))));
}

/// What functions of a plugin read is what the front-end gave.
#[cfg(feature = "pass")]
#[test]
fn arguments_survive_as_a_node() {
    let b = onnxd_build::GraphBuilder::new(Graph::new("g"), Opsets::from([("my".into(), 1)]));
    let vector = || ValueType::tensor(DataType::Float, [2]);
    let [x, y] = ["x", "y"].map(|name| Value::Var(b.input(name, vector())));
    let cases = [
        (vec![x.clone(), 0.1.into(), Value::None, y.clone()], vec![]),
        (vec![Value::List(vec![x.clone(), Value::None, y.clone()]), true.into()], vec![]),
        (vec![7i64.into()], vec![("bias", x.clone()), ("mode", "far".into())]),
        (vec![vec!["a", "b"].into(), x.clone(), vec![1.5, 2.0].into()], vec![("ids", y.clone())]),
        (vec![Value::List(vec![]), Value::List(vec![y.clone()])], vec![("scale", 1e-5.into())]),
    ];
    for (positional, named) in cases {
        let named: Vec<(String, Value)> = named.into_iter().map(|(n, v)| (n.into(), v)).collect();
        let given = (positional.clone(), named.clone());
        super::foreign::add(&b, ("my", "op.b"), given, 1).unwrap().unwrap();
        let node = {
            let graph = b.graph();
            graph[*graph.node_ids().last().unwrap()].clone()
        };
        let (mut found, mut found_named) = super::pass::arguments(&b, &node).unwrap();
        // A truth value is an integer in ONNX.
        found.iter_mut().filter(|v| **v == Value::Int(1)).for_each(|v| *v = true.into());
        found_named.sort_by(|(a, _), (b, _)| a.cmp(b));
        assert_eq!((found, found_named), (positional, named), "{:?}", node.attrs);
    }
    for bad in [Value::List(vec![x, 1i64.into()]), vec![vec![1i64]].into(), Value::Float(1e300)] {
        let found = super::foreign::add(&b, ("my", "op"), (vec![bad], vec![]), 1).unwrap_err();
        assert!(found.message.contains("The argument `1`"), "{found}");
    }
}

#[test]
fn messages_show_numbers_and_words_and_what_other_values_are() {
    let items = vec![Value::Int(3), Value::Float(0.5), Value::Text("a\nb".into()), Value::None];
    assert_eq!(Value::List(items).to_string(), "[3, 0.5, `a\\nb`, nothing]");
    let many: Value = vec![1i64; 9].into();
    assert_eq!(many.to_string(), "[1, 1, 1, 1, 1, 1, 1, 1, ...]");
}
