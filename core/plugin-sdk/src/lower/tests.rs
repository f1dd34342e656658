// A function takes its arguments by value, used up or not: all rows have one form.
#![allow(clippy::needless_pass_by_value)]

use super::{Driver, Fallback, Lower, Lowered, Lowering, Table, Value};
use crate::arguments;
use crate::build::{Operand, Var};
use crate::diagnostics::Layer;
use crate::ir::text::print_graph;
use crate::ir::{DataType, Graph, Opsets, Tensor, ValueType};

arguments! {
    /// `clip(Tensor x, float min, float? max=None)`
    struct Clip { x: Var, min: f64, max: Option<f64> }
    /// `mean(Tensor x, int[] dims, bool keepdim=False)`
    struct Mean { x: Var, dims: Vec<i64>, keepdim: bool = false }
    /// `add(Tensor a, Tensor or float b, float alpha=1)`
    struct AddScaled { a: Var, b: Operand, alpha: f64 = 1.0 }
}

fn clip(b: &Lower, a: Clip) -> Lowered<Var> {
    b.clip(a.x).min(a.min).max(a.max.unwrap_or(f64::from(f32::MAX))).one()
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

fn split(b: &Lower, (): ()) -> Lowered<[Var; 2]> {
    let x = b.constant(Tensor::vector(vec![1.0f32, 2.0]));
    b.split(x).axis(0).num_outputs(2).outputs()
}

fn table() -> Table {
    Table::new()
        .row("clip", clip)
        .row("mean", mean)
        .row("add", add)
        .row("split", split)
        .refused("dropout", "it draws at random")
}

fn run(items: Vec<Lowering>, fallback: Fallback) -> Result<(String, Vec<String>), Vec<String>> {
    let table = table();
    let opsets = Opsets::from([(String::new(), 18)]);
    let mut driver = Driver::new(&table, &(), Graph::new("g"), opsets, fallback);
    let x = driver.builder().input("x", ValueType::tensor(DataType::Float, [2, 3]));
    let mut last = Value::Var(x);
    for mut item in items {
        item.arguments.insert(0, last);
        last = driver.lower(item).remove(0);
    }
    if let Value::Var(v) = last {
        driver.builder().output(v, "y").unwrap();
    }
    let shown =
        |d: Vec<crate::diagnostics::Diagnostic>| d.iter().map(ToString::to_string).collect();
    driver.finish().map(|(g, notes)| (print_graph(&g), shown(notes))).map_err(|d| shown(d.0))
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
    }
}

#[test]
fn rows_add_nodes_with_their_layer() {
    let mean = Lowering {
        named: vec![("keepdim".into(), true.into())],
        ..item("mean", 2, vec![vec![1i64].into()])
    };
    let items = vec![item("clip", 1, vec![Value::Int(0)]), mean, item("add", 3, vec![2.0.into()])];
    let (text, notes) = run(items, Fallback::Error).unwrap();
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
    let found = run(items, Fallback::Error).unwrap_err();
    assert_eq!(found.len(), 2, "a hole says nothing of its own: {found:?}");
    assert!(found[0].contains("`dropout` cannot be converted: it draws at random"), "{found:?}");
    let all = "`warp` is not known to this front-end (2 places)";
    assert!(found[1].contains(all) && found[1].contains("m.warp (warp) at net.py:1"), "{found:?}");
    assert!(found[1].contains("`m.warp` net.py:3"), "{found:?}");
}

#[test]
fn arguments_are_of_the_kinds_that_the_function_says() {
    let wrong = run(vec![item("clip", 1, vec!["low".into()])], Fallback::Error).unwrap_err();
    assert!(wrong[0].contains("`min` must be a number, found a word"), "{wrong:?}");
    let missing = run(vec![item("clip", 1, vec![])], Fallback::Error).unwrap_err();
    assert!(missing[0].contains("`min` is missing"), "{missing:?}");
    let more = vec![0.0.into(), 1.0.into(), Value::Bool(true)];
    let (_, notes) = run(vec![item("clip", 1, more)], Fallback::Error).unwrap();
    assert!(notes[0].contains("argument 4 has no effect"), "{notes:?}");
    let shape = run(vec![item("mean", 7, vec![vec![5i64].into()])], Fallback::Error).unwrap_err();
    assert!(shape[0].contains("N0215") && shape[0].contains("net.py:7"), "{shape:?}");
}

#[test]
fn what_reads_a_hole_is_looked_at() {
    let items = || vec![item("warp", 1, vec![]), item("clip", 2, vec!["low".into()])];
    let found = run(items(), Fallback::Error).unwrap_err();
    assert!(found[1].contains("`min` must be a number"), "{found:?}");
    let mut typed = vec![item("warp", 1, vec![]), item("mean", 2, vec![vec![5i64].into()])];
    assert_eq!(run(typed.clone(), Fallback::Error).unwrap_err().len(), 1, "nothing is known of it");
    typed[0].types = vec![Some(ValueType::tensor(DataType::Float, [4]))];
    let found = run(typed, Fallback::Error).unwrap_err();
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
    let (text, _) = run(items, Fallback::Domain("my.ops".into())).unwrap();
    assert!(text.contains("my.ops.vision__warp<") && text.contains("mode = \"far\""), "{text}");
    assert!(text.contains("argument_1 = [1,2]") || text.contains("argument_1 = [1, 2]"), "{text}");
}

#[test]
fn several_results_and_names_of_rows() {
    assert_eq!(table().operators(), ["add", "clip", "mean", "split"]);
    let table = table();
    let opsets = Opsets::from([(String::new(), 18)]);
    let mut driver = Driver::new(&table, &(), Graph::new("g"), opsets, Fallback::Error);
    let split = Lowering {
        results: vec![String::new(), "second".into()],
        op: "split".into(),
        ..Lowering::default()
    };
    let given = driver.lower(split);
    assert_eq!(given.len(), 2);
    assert!(given.iter().all(|v| matches!(v, Value::Var(_))));
}
