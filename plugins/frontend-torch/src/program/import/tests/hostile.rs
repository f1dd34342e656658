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
