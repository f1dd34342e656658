//! Tests of writing into views. Expected numbers are torch's.

use super::super::{Item, Machine};
use crate::aten::tests::{counted, parts};
use crate::aten::{RowContext, table};
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::{DataType, Dim, Graph, Model, Opsets, ValueType};
use onnxd_plugin_sdk::lower::{Driver, Fallback};
use std::collections::BTreeMap;

/// Writes 0 into what `view` gives of a copy of the numbers 0 to 5 in two rows; gives the copy.
fn written(open: bool, view: impl Fn(&Machine<'_>, Item) -> Item) -> Vec<i64> {
    let (table, source) = (table(), RowContext::default());
    let opsets = Opsets::from([(String::new(), 18)]);
    let driver = Driver::new(&table, &source, Graph::new("g"), opsets, Fallback::default());
    let machine = Machine::new(driver);
    let size = |n: i64, name: &str| if open { Dim::Symbol(name.into()) } else { Dim::Known(n) };
    let ty = ValueType::tensor(DataType::Int64, [size(2, "n"), size(3, "m")]);
    let x = machine.tensor(machine.builder().input("x", ty));
    let copy = machine.call("aten::clone", None, vec![x], vec![]).unwrap();
    let part = view(&machine, copy.clone());
    machine.call("aten::zero_", None, vec![part], vec![]).unwrap();
    let var = machine.var_of(&copy).unwrap();
    machine.builder().output(var, "y").unwrap();
    let (graph, _) = machine.finish().unwrap();
    let model = Model::new(graph, 8, 18);
    let feeds = BTreeMap::from([("x".to_owned(), counted([2, 3]))]);
    let outputs = Executor::new(&model).and_then(|e| e.run(&feeds, RunOptions::default()));
    parts(&outputs.unwrap().into_iter().next().unwrap().1).1
}

/// A view, and element `pick` of it if it is a list.
fn seen(op: &str, rest: &[i64], pick: Option<usize>, expected: [i64; 6]) {
    for open in [false, true] {
        let found = written(open, |machine, x| {
            let rest = rest.iter().map(|n| Item::Int(*n));
            let arguments = std::iter::once(x).chain(rest).collect();
            let given = machine.call(op, None, arguments, vec![]).unwrap();
            match pick {
                Some(i) => given.items().unwrap()[i].clone(),
                None => given,
            }
        });
        assert_eq!(found, expected, "{op} open: {open}");
    }
}

#[test]
fn parts_are_written_wherever_they_are() {
    seen("aten::select", &[1, -1], None, [0, 1, 0, 3, 4, 0]);
    seen("aten::slice", &[1, 1, 3], None, [0, 0, 0, 3, 0, 0]);
    seen("aten::narrow", &[1, -2, 2], None, [0, 0, 0, 3, 0, 0]);
    seen("aten::chunk", &[2, 1], Some(0), [0, 0, 2, 0, 0, 5]);
    seen("aten::chunk", &[2, 1], Some(1), [0, 1, 0, 3, 4, 0]);
    seen("aten::unfold", &[1, 2, 2], None, [0, 0, 2, 0, 0, 5]);
}

#[test]
fn views_of_views_reach_the_tensor() {
    for open in [false, true] {
        let found = written(open, |machine, x| {
            let call = |op: &str, x: Item, rest: &[i64]| {
                let rest = rest.iter().map(|n| Item::Int(*n));
                machine.call(op, None, std::iter::once(x).chain(rest).collect(), vec![]).unwrap()
            };
            let turned = call("aten::movedim", x, &[0, 1]);
            let row = call("aten::select", turned, &[0, 1]);
            call("aten::slice", row, &[0, 1])
        });
        assert_eq!(found, [0, 1, 2, 3, 0, 5], "open: {open}");
    }
}
