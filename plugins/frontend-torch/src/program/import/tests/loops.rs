//! Conditions and loops.

use super::*;

fn is(model: &Model, op: &str) -> bool {
    model.graph.node_ids().into_iter().any(|id| model.graph[id].op == op)
}

#[test]
fn conditions_on_tensors_are_kept() {
    let arms = [
        ("then", graph("x, p", "y = aten.mul.Tensor(x, p)", "y", &[])),
        ("else", graph("x, p", "y = aten.sub.Tensor(x, 1)", "y", &[])),
    ];
    let lines = "%n = aten.sym_size.int(x, 0)
        b = aten.gt.Scalar(t, 0)
        c = higher_order.cond(b, @then, @else, [x, p_a])
        %s = _operator.eq(%n, 2)
        d = higher_order.cond(%s, @then, @else, [c, p_a])";
    let model = converted(graph("p_a, x: 2, t:", lines, "c, d", &arms));
    let run = |t: f32| {
        let feeds = [("x", floats(&[5.0, 6.0])), ("t", Tensor::scalar(t))];
        testing::run(&model, feeds).unwrap()
    };
    assert!(is(&model, "If"));
    assert_eq!(run(1.0)[0].1, floats(&[5.0, 12.0]));
    let other = run(-1.0);
    // The second condition is decided: both sizes are known.
    assert_eq!((&other[0].1, &other[1].1), (&floats(&[4.0, 5.0]), &floats(&[4.0, 10.0])));
    assert_eq!(
        model.graph.node_ids().into_iter().filter(|id| model.graph[*id].op == "If").count(),
        1
    );
}

#[test]
fn while_loops_carry_values() {
    let graphs = [
        ("holds", graph("i, s, p", "b = aten.lt.Scalar(i, 3.5)", "b", &[])),
        (
            "body",
            graph("i, s, p", "j = aten.add.Tensor(i, 1)\nt = aten.mul.Tensor(s, p)", "j, t", &[]),
        ),
    ];
    let line = "i, s = higher_order.while_loop(@holds, @body, [t, x], [p_a])";
    let model = converted(graph("p_a, x: 2, t:", line, "i, s", &graphs));
    let run = |t: f32| {
        let feeds = [("x", floats(&[1.0, 1.0])), ("t", Tensor::scalar(t))];
        testing::run(&model, feeds).unwrap()
    };
    assert!(is(&model, "Loop"));
    let three = run(1.0);
    assert_eq!((&three[0].1, &three[1].1), (&Tensor::scalar(4f32), &floats(&[1.0, 8.0])));
    let never = run(4.0);
    assert_eq!((&never[0].1, &never[1].1), (&Tensor::scalar(4f32), &floats(&[1.0, 1.0])));
}

#[test]
fn scans_and_maps_run_over_the_first_axis() {
    let graphs = [
        (
            "step",
            graph("s, x, p", "t = aten.add.Tensor(s, x)\ny = aten.mul.Tensor(t, p)", "t, y", &[]),
        ),
        ("each", graph("x, p", "y = aten.mul.Tensor(x, p)", "y", &[])),
    ];
    let lines = "s, y = higher_order.scan(@step, [h], [x], [p_a])
        z = higher_order.map_impl(@each, [x], [p_a])";
    let model = converted(graph("p_a, x: s0 2, h: 2", lines, "s, y, z", &graphs));
    let x = Tensor::from_vec(vec![3, 2], vec![1f32, 1.0, 2.0, 2.0, 3.0, 3.0]);
    let outputs = testing::run(&model, [("x", x), ("h", floats(&[10.0, 10.0]))]).unwrap();
    assert_eq!(outputs[0].1, floats(&[16.0, 16.0]));
    let y = Tensor::from_vec(vec![3, 2], vec![11f32, 22.0, 13.0, 26.0, 16.0, 32.0]);
    assert_eq!(outputs[1].1, y);
    let z = Tensor::from_vec(vec![3, 2], vec![1f32, 2.0, 2.0, 4.0, 3.0, 6.0]);
    assert_eq!(outputs[2].1, z);
}

#[test]
fn regions_are_run_where_they_stand() {
    let graphs = [("body", graph("x", "y = aten.mul.Tensor(x, 2)", "y", &[]))];
    let lines = "a = higher_order.wrap_with_set_grad_enabled(false, @body, x)
        b = higher_order.wrap_with_autocast(none, none, false, none, @body, a)";
    let model = converted(graph("x: 2", lines, "b", &graphs));
    let outputs = testing::run(&model, [("x", floats(&[1.0, 2.0]))]).unwrap();
    assert_eq!(outputs[0].1, floats(&[4.0, 8.0]));
    let lines = "c = higher_order.flex_attention(x)";
    let found = refused(&archive(&[("model", program(graph("x: 2", lines, "x", &graphs), &[]))]));
    assert!(found.len() == 1 && found[0].contains("`flex_attention`"), "{found:?}");
}

/// What a region with autocast gives for a matrix, a column and a vector: products with both, and what is computed of
/// the vector.
fn in_region(device: &str, dtype: &str) -> Result<[f64; 3], String> {
    let lines = "p = aten.mul.Tensor(x, x)
        q = aten.mul.Tensor(c, c)
        y = aten.mv.default(w, p)
        z = aten.mm.default(w, q)";
    let graphs = [("body", graph("w, c, x", lines, "y, z, p", &[]))];
    let call = format!(
        "a, b, d = higher_order.wrap_with_autocast({device}, {dtype}, true, none, @body, w, c, x)"
    );
    let graph = graph("w: 1 2, c: 2 1, x: 2", &call, "a, b, d", &graphs);
    let model = imported(&archive(&[("model", program(graph, &[]))]));
    let model = model.map_err(|found| format!("{found:?}"))?;
    let w = Tensor::from_vec(vec![1, 2], vec![1f32, 0.0]);
    let c = Tensor::from_vec(vec![2, 1], vec![1.01f32, 1.0]);
    let x = floats(&[1.01, 1.0]);
    let given = testing::run(&model, [("w", w), ("c", c), ("x", x)]).unwrap();
    Ok([0, 1, 2].map(|at| given[at].1.to_reals().unwrap().values[0]))
}

/// Operands of products are rounded to 16 bits, and others are not. Devices have other types, and other products.
#[test]
fn products_in_a_region_with_autocast_take_16_bits() {
    // 1.0201 in bfloat16, in float16, and as it is.
    let (brain, half) = (1.023_437_5, 1.020_507_812_5);
    let near = |x: f64| (x - 1.0201).abs() < 1e-6;
    for dtype in ["15", "none"] {
        let [y, z, p] = in_region("'cpu'", dtype).unwrap();
        assert!(near(y) && z == brain && near(p), "{y} {z} {p}");
    }
    let [y, z, p] = in_region("'cuda'", "none").unwrap();
    assert!(y == half && z == half && near(p), "{y} {z} {p}");
    let [y, z, _] = in_region("'cuda:0'", "15").unwrap();
    assert!(y == brain && z == brain, "{y} {z}");
    assert!(in_region("'vulkan'", "none").unwrap_err().contains("device `vulkan` is not known"));
    assert!(in_region("'cpu'", "7").unwrap_err().contains("elements of number 7"));
}

#[test]
fn associative_scans_combine_what_came_before() {
    let graphs = [("both", graph("a, b", "y = aten.mul.Tensor(a, b)", "y", &[]))];
    let lines = "y = higher_order.associative_scan(@both, [x], [])";
    let model = converted(graph("x: s0 2", lines, "y", &graphs));
    let x = Tensor::from_vec(vec![3, 2], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let outputs = testing::run(&model, [("x", x)]).unwrap();
    assert_eq!(outputs[0].1, Tensor::from_vec(vec![3, 2], vec![1f32, 2.0, 3.0, 8.0, 15.0, 48.0]));
}
