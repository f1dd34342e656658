//! Programs that contradict themselves.

use super::*;

fn found(inputs: &str, lines: &str, outputs: &str, graphs: &[(&str, Value)]) -> Vec<String> {
    refused(&archive(&[("model", program(graph(inputs, lines, outputs, graphs), &[]))]))
}

#[test]
fn names_that_nothing_gives_are_refused() {
    let graphs = [("body", graph("x", "y = aten.mul.Tensor(x, hidden)", "y", &[]))];
    for lines in [
        "y = aten.mul.Tensor(x, z)",
        "y = aten.mul.Tensor(x, @body)",
        "y = higher_order.wrap(@body, x)",
        "y = higher_order.wrap(@body, x, x)",
        "y = higher_order.map_impl(@body, [], [])",
        "y = higher_order.cond(true, x, x, [])",
        "y = os.system.default(x)\nz = torch.load(x)",
        "y, z = aten.mul.Tensor(x, 2)",
        "y = aten.mul.Tensor()",
        "y = aten.mul.Tensor(x, 2, 3, 4)",
        "y = aten.mul.Tensor(x, colour=3)",
        "y = _operator.getitem(x, 5)",
    ] {
        let found = found("x: 2", lines, "y", &graphs);
        assert!(found.iter().all(|text| text.starts_with("N02")), "{lines}: {found:?}");
    }
    assert!(found("x: 2", "y = aten.mul.Tensor(x, 2)", "z", &[])[0].starts_with("N0201"));
}

#[test]
fn declared_types_are_compared() {
    let mut source = graph("x: 2", "y = aten.mul.Tensor(x, 2)", "y", &[]);
    source["tensor_values"]["y"] = json!({"dtype": 7, "sizes": [{"as_int": 3}], "strides": []});
    let found = refused(&archive(&[("model", program(source, &[]))]));
    assert!(found[0].starts_with("N0901"), "{found:?}");
}

#[test]
fn graphs_in_graphs_are_limited() {
    let mut inner = graph("x", "y = aten.mul.Tensor(x, 2)", "y", &[]);
    for _ in 0..40 {
        inner = graph("x", "y = higher_order.wrap(@inner, x)", "y", &[("inner", inner)]);
    }
    let found = found("x: 2", "y = higher_order.wrap(@inner, x)", "y", &[("inner", inner)]);
    assert!(found[0].starts_with("N0213"), "{found:?}");
}

/// Paths of all values in a document.
fn paths(value: &Value, path: &str, into: &mut Vec<String>) {
    into.push(path.to_owned());
    match value {
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(i, v)| paths(v, &format!("{path}/{i}"), into));
        }
        Value::Object(items) => {
            items.iter().for_each(|(k, v)| paths(v, &format!("{path}/{k}"), into));
        }
        _ => {}
    }
}

#[test]
fn programs_with_any_value_changed_do_no_harm() {
    let graphs = [
        ("holds", graph("i, s, p", "b = aten.lt.Scalar(i, 3.5)", "b", &[])),
        ("body", graph("i, s, p", "j = aten.add.Tensor(i, 1)", "j, s", &[])),
    ];
    let lines = "%n = aten.sym_size.int(x, 0)
        v = aten.select.int(b_k, 0, 0)
        w = aten.add_.Tensor(v, 1)
        i, s = higher_order.while_loop(@holds, @body, [t, x], [b_k])";
    let whole = program(graph("b_k, x: s0 2*s1, t:", lines, "i, s, %n", &graphs), &[]);
    let mut all = vec![];
    paths(&whole, "", &mut all);
    let others = [json!(null), json!(-1), json!("x"), json!([]), json!({"as_int": i64::MAX})];
    for (at, path) in all.iter().enumerate() {
        // Each place gets two of the values.
        for other in [&others[at % 5], &others[(at + 2) % 5]] {
            let mut changed = whole.clone();
            *changed.pointer_mut(path).unwrap() = other.clone();
            if let Err(found) = imported(&archive(&[("model", changed)])) {
                let internal = found.0.iter().find(|found| found.code.starts_with("N04"));
                assert!(internal.is_none(), "{path} is {other}: {internal:?}");
            }
        }
    }
}
