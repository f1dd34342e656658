//! Programs that contradict themselves.

use super::*;
use onnxd_plugin_sdk::diagnostics::{Class, Diagnostic};

fn found(inputs: &str, lines: &str, outputs: &str, graphs: &[(&str, Value)]) -> Vec<String> {
    refused(&archive(&[("model", program(graph(inputs, lines, outputs, graphs), &[]))]))
}

#[test]
fn names_that_nothing_gives_are_refused() {
    let graphs = [("body", graph("x", "y = aten.mul.Tensor(x, hidden)", "y", &[]))];
    for lines in [
        "y = aten.mul.Tensor(x, z)", "y = aten.mul.Tensor(x, @body)",
        "y = higher_order.wrap(@body, x)", "y = higher_order.wrap(@body, x, x)",
        "y = higher_order.map_impl(@body, [], [])", "y = higher_order.cond(true, x, x, [])",
        "y = os.system.default(x)\nz = torch.load(x)", "y, z = aten.mul.Tensor(x, 2)",
        "y = aten.mul.Tensor()", "y = aten.mul.Tensor(x, 2, 3, 4)",
        "y = aten.mul.Tensor(x, colour=3)", "y = _operator.getitem(x, 5)",
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
    assert!(found[0].starts_with("N0215"), "{found:?}");
    assert!(found[0].contains("`y` is"), "{found:?}");
}

#[test]
fn sizes_that_no_tensor_has_are_refused_with_its_name() {
    for (sizes, text) in [
        (vec![-3], "the size -3"),
        (vec![2, i64::MIN], "the size -9223372036854775808"),
        (vec![1 << 62], "more bytes than any machine has"),
        (vec![1 << 32, 1 << 31], "more bytes than any machine has"),
    ] {
        for name in ["x", "y"] {
            let mut source = graph("x: 2", "y = aten.mul.Tensor(x, 2)", "y", &[]);
            let sizes: Vec<Value> = sizes.iter().map(|size| json!({"as_int": size})).collect();
            source["tensor_values"][name] = json!({"dtype": 7, "sizes": sizes, "strides": []});
            let found = refused(&archive(&[("model", program(source, &[]))]));
            assert!(found[0].starts_with("N0201"), "{found:?}");
            assert!(found[0].contains(&format!("the tensor `{name}` has {text}")), "{found:?}");
        }
    }
}

#[test]
fn windows_that_no_operator_has_are_refused() {
    let huge = 1i64 << 62;
    for wrong in [0, -1, huge] {
        for line in [
            format!("y = aten.conv2d.default(x, w, none, [{wrong}, 1])"),
            format!("y = aten.conv2d.default(x, w, none, [1, 1], [0, 0], [1, {wrong}])"),
            format!("y = aten.conv2d.default(x, w, none, [1, 1], [0, 0], [1, 1], {wrong})"),
            format!(
                "y = aten.convolution.default(x, w, none, [{wrong}, 1], [0, 0], [1, 1], false, [0, 0], 1)"
            ),
            format!("y = aten.max_pool2d.default(x, [{wrong}, 2])"),
            format!("y = aten.max_pool2d.default(x, [2, 2], [{wrong}, 2])"),
            format!("y = aten.max_pool2d.default(x, [2, 2], [2, 2], [0, 0], [1, {wrong}])"),
            format!("y = aten.avg_pool2d.default(x, [{wrong}, 2])"),
            format!("y = aten.avg_pool2d.default(x, [2, 2], [{wrong}, 2])"),
            format!("y = aten.unfold.default(x, 2, {wrong}, {})", wrong.min(0)),
            format!("y = aten.pixel_shuffle.default(x, {wrong})"),
            format!("y = aten.im2col.default(x, [{wrong}, 2], [1, 1], [0, 0], [1, 1])"),
            format!("y = aten.im2col.default(x, [2, 2], [1, 1], [0, 0], [{wrong}, 1])"),
        ] {
            let program = program(graph("x: 1 3 8 8, w: 4 3 3 3", &line, "y", &[]), &[]);
            let found = imported(&archive(&[("model", program)])).unwrap_err();
            let is_input = |one: &Diagnostic| {
                one.class != Class::Internal && one.code.starts_with("N02") && one.layer.is_some()
            };
            assert!(found.0.iter().all(is_input), "{line}: {found:?}");
        }
    }
}

#[test]
fn members_without_their_checksums_are_told() {
    let scaled = graph("x: 2, p_a", "y = aten.mul.Tensor(x, p_a)", "y", &[]);
    let sound = archived(&[("model", program(scaled, &[]))]);
    let notes =
        |bytes: &[u8]| testing::import(&Torch, &Dropped::file("x.pt2", bytes)).unwrap().log.notes;
    assert!(notes(&sound).is_empty());
    let weight = fixture::floats(&[1.0, 2.0]);
    let at = sound.windows(weight.len()).position(|bytes| bytes == weight).unwrap();
    let mut changed = sound.to_vec();
    changed[at] ^= 1;
    let found = notes(&changed);
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0].code, "N0201");
    assert!(found[0].message.contains("member `data/weights/weight_0`"), "{found:?}");
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
                let internal = found.0.iter().find(|found| found.class == Class::Internal);
                assert!(internal.is_none(), "{path} is {other}: {internal:?}");
            }
        }
    }
}
