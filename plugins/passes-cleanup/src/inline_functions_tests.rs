use super::*;
use onnxd_plugin_sdk::eval::{Executor, RunOptions};
use onnxd_plugin_sdk::ir::text::{parse_model, print_model};
use onnxd_plugin_sdk::ir::{Attr, Tensor};
use onnxd_plugin_sdk::rewrite::Fuel;

fn outputs(model: &Model) -> Vec<(String, Tensor)> {
    let x = Tensor::from_vec(vec![2, 3], vec![-2.0f32, -1.0, -0.3, 0.5, 1.0, 3.0]);
    let feeds = [("x".to_owned(), x)].into();
    let found = verify::verify(model, verify::VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", print_model(model));
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}\n{}", print_model(model)));
    executor
        .run(&feeds, RunOptions::default())
        .unwrap_or_else(|d| panic!("{d}\n{}", print_model(model)))
}

/// The model without its functions; what it computes must stay.
fn inlined(text: &str) -> (Model, PassContext) {
    let before = parse_model(text).unwrap_or_else(|d| panic!("{d}"));
    let (mut after, mut cx) = (before.clone(), PassContext::new("test", Fuel::UNLIMITED));
    InlineFunctions.run(&mut after, &mut cx).unwrap();
    for ((name, a), (other, b)) in outputs(&before).iter().zip(&outputs(&after)) {
        assert_eq!((name, a.dims()), (other, b.dims()));
        let (a, b) = (a.to_reals().unwrap(), b.to_reals().unwrap());
        let near = a.values.iter().zip(&b.values).all(|(a, b)| (a - b).abs() < 1e-6);
        assert!(near, "{a:?} {b:?} {}", print_model(&after));
    }
    (after, cx)
}

fn ops(graph: &Graph) -> Vec<&str> {
    let order = graph.topological().unwrap();
    order.into_iter().map(|id| graph[id].op.as_str()).collect()
}

fn whole(text: &str) -> Model {
    let (model, cx) = inlined(text);
    assert_eq!(model.functions.len(), 0, "{:?}", cx.report.skipped);
    assert!(cx.report.skipped.is_empty());
    model
}

#[test]
fn functions_inside_functions_with_the_same_names() {
    let model = whole(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1, "m" : 1]>
        g (float[2,3] x) => (float[2,3] y, float[2,3] b) { b = l.Outer(x) t = m.Inner(b) y = l.Outer(t) }
        <domain: "m", opset_import: ["" : 17]> Inner (a) => (b) { t = Mul(a, a) b = Neg(t) }
        <domain: "l", opset_import: ["" : 17, "m" : 1]> Outer (a) => (b) { t = m.Inner(a) b = m.Inner(t) }"#,
    );
    assert_eq!(ops(&model.graph), ["Mul", "Neg"].repeat(5));
}

#[test]
fn attributes_are_given_by_default_and_from_outside() {
    let model = whole(
        r#"<ir_version: 9, opset_import: ["" : 19, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { s = l.Outer<slope = 0.3>(x) t = l.Leak(s) y = l.Leak<slope = 0.5>(t) }
        <domain: "l", opset_import: ["" : 19]> Leak<slope: float = 0.2>(a) => (b)
            { b = LeakyRelu<alpha: float = @slope>(a) }
        <domain: "l", opset_import: ["" : 19, "l" : 1]> Outer<slope>(a) => (b)
            { b = l.Leak<slope: float = @slope>(a) }"#,
    );
    let alpha = |(_, node): (NodeId, &Node)| match node.attr("alpha") {
        Some(Attr::Float(alpha)) => *alpha,
        other => panic!("{other:?}"),
    };
    let mut found: Vec<f32> = model.graph.nodes().map(alpha).collect();
    found.sort_by(f32::total_cmp);
    assert_eq!(found, [0.2, 0.3, 0.5]);
}

#[test]
fn functions_in_branches_and_branches_in_functions() {
    let model = whole(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) {
            n = Constant<value = int64 {3}>() c = Constant<value = bool {1}>() s = l.Choose(x)
            y = Loop(n, c, s) <body = body (int64 i, bool go, float[2,3] a) => (bool on, float[2,3] z) {
                on = Identity(go) z = l.Choose(a) }> }
        <domain: "l", opset_import: ["" : 17]> Twice (a) => (b) { b = Add(a, a) }
        <domain: "l", opset_import: ["" : 17, "l" : 1]> Choose (a) => (b) {
            zero = Constant<value = float {0.0}>() s = ReduceSum<keepdims = 0>(a) c = Greater(s, zero)
            b = If(c) <then_branch = t () => (p) { p = l.Twice(a) }, else_branch = e () => (q) { q = Abs(a) }> }"#,
    );
    let mut applied = 0;
    model.for_each_graph(|g| applied += g.nodes().filter(|(_, n)| n.domain == "l").count());
    assert_eq!(applied, 0);
}

#[test]
fn inputs_left_out_and_outputs_handed_on() {
    let model = whole(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y, float[2,3] z, float[2,3] same) { y, z, same = l.Clip2(x) }
        <domain: "l", opset_import: ["" : 17]> Clip2 (a, low) => (b, c, a) {
            t = Constant<value = bool {1}>()
            c = If(t) <then_branch = t () => (p) { p = Clip(b, low) }, else_branch = e () => (q) { q = Neg(a) }>
            b = Clip(a, low) }"#,
    );
    assert!(ops(&model.graph).contains(&"Identity"));
    let model = whole(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y, unused = l.Two(x) z = l.Two(x) }
        <domain: "l", opset_import: ["" : 17]> Two (a) => (b, c) { b = Neg(a) c = Abs(a) }"#,
    );
    assert_eq!(model.graph.outputs().len(), 1);
}

#[test]
fn versions_are_made_one() {
    let body = r#"Norm (a) => (b) { axes = Constant<value_ints = [1]>() b = ReduceMean(a, axes) }"#;
    let model = whole(&format!(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) {{ m = l.Norm(x) y = Sub(x, m) }}
        <domain: "l", opset_import: ["" : 18]> {body}"#
    ));
    assert_eq!(model.opset(), 17);
    let model = whole(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[r,c] y) { i = l.Eye(x) y = MatMul(i, x) }
        <domain: "l", opset_import: ["" : 22]> Eye (a) => (b) {
            m = ReduceMax<keepdims = 0>(a) k = Reshape(m, o) o = Constant<value_ints = [1, 1]>()
            b = Pad<mode = "wrap">(k, p) p = Constant<value_ints = [0, 0, 1, 1]>() }"#,
    );
    assert_eq!(model.opset(), 22);
    let model = whole(
        r#"<ir_version: 8, opset_import: ["l" : 1]> g (float[2,3] x) => (float[2,3] y) { y = l.F(x) }
        <domain: "l", opset_import: ["" : 17]> F (a) => (b) { b = Neg(a) }"#,
    );
    assert_eq!(model.opset(), 17, "what only the function imported");
}

#[test]
fn what_cannot_be_inlined_stays_with_the_reason() {
    let (model, cx) = inlined(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1, "ai.onnx.ml" : 3]>
        g (float[2,3] x) => (float[2,3] y) { t = l.F(x) y = l.G(t) }
        <domain: "l", opset_import: ["ai.onnx.ml" : 1]> F (a) => (b)
            { b = ai.onnx.ml.Scaler<offset = [1.0], scale = [2.0]>(a) }
        <domain: "l", opset_import: ["" : 17]> G (a) => (b) { b = Neg(a) }"#,
    );
    assert_eq!(model.functions.iter().map(|f| f.name.as_str()).collect::<Vec<_>>(), ["F"]);
    let [(place, why)] = &cx.report.skipped[..] else { panic!("{:?}", cx.report.skipped) };
    assert_eq!(place, "F -> t");
    assert!(
        why.0.contains("version 1 of the operators of `ai.onnx.ml`, and the model in 3"),
        "{why}"
    );
    assert_eq!(cx.report.notes, ["inlined functions: 1; nodes that applied them: 1"]);
}

#[test]
fn functions_that_multiply_end() {
    let mut text = String::from(
        r#"<ir_version: 8, opset_import: ["" : 17, "l" : 1]>
        g (float[2,3] x) => (float[2,3] y) { y = l.F0(x) }"#,
    );
    for level in 0..40 {
        let next = level + 1;
        text += &format!(
            r#" <domain: "l", opset_import: ["" : 17, "l" : 1]> F{level} (a) => (b)
            {{ t = l.F{next}(a) b = l.F{next}(t) }}"#
        );
    }
    text += r#" <domain: "l", opset_import: ["" : 17]> F40 (a) => (b) { b = Neg(a) }"#;
    let mut model = parse_model(&text).unwrap();
    let mut cx = PassContext::new("test", Fuel::UNLIMITED);
    InlineFunctions.run(&mut model, &mut cx).unwrap();
    assert!(model.graph.node_count() <= NODES_MAX + 1);
    assert!(cx.report.skipped[0].1.0.contains("add more than"), "{:?}", cx.report.skipped[0]);
    assert!(verify::verify(&model, verify::VerifyLevel::Full).0.is_empty());
}
