//! Static quantization in the bodies of `If`, `Loop` and `Scan`.

use super::{difference, model, outputs, samples};
use crate::accuracy::Base;
use crate::emit::fold;
use crate::observe::{Feeds, Limits};
use crate::plan::{QuantizeRequest, Settings, plan};
use crate::range::method::Method;
use crate::report::Report;
use onnxd_ir::{DataType, Model, Reals, Tensor, VerifyLevel, infer, text, verify};
use std::collections::BTreeSet;

fn base(float: &Model, samples: &[Feeds]) -> Base {
    let mut base = Base::new(float.clone(), &QuantizeRequest::default(), &BTreeSet::new());
    let mut given = samples.iter().cloned().map(Ok);
    let parts = Method::MinMax.parts(1);
    base.observe(&mut given, &parts, Limits::default()).unwrap_or_else(|d| panic!("{d}"));
    base
}

fn checked(mut model: Model) -> Model {
    let found = infer(&mut model);
    assert!(found.0.is_empty(), "{found}");
    let found = verify(&model, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_graph(&model.graph));
    model
}

/// Both forms are near float; the form of pairs and the one of integers.
fn close(float: &Model, samples: &[Feeds], share: f64) -> ([Model; 2], Report) {
    let (pairs, done) = base(float, samples).quantize(Method::MinMax);
    let pairs = checked(pairs);
    let mut integers = pairs.clone();
    fold(&mut integers);
    let integers = checked(integers);
    for quantized in [&pairs, &integers] {
        let (worst, largest) = difference(float, quantized, samples);
        assert!(worst > 0.0 && worst <= share * largest, "{worst} of {largest}");
    }
    ([pairs, integers], done)
}

/// Operators in all sub-graphs.
fn inside(model: &Model, op: &str) -> usize {
    let mut count = 0;
    model.for_each_graph(|g| count += g.nodes().filter(|(_, n)| n.op == op).count());
    count - model.graph.nodes().filter(|(_, n)| n.op == op).count()
}

#[test]
fn a_loop_has_the_ranges_of_all_its_iterations() {
    // Values double in every iteration: the range of the first would saturate at the last.
    let float = model(
        "g (float[4,4] x) => (float[4,4] y)
         <float[4,4] w = {2.0, 0, 0, 0.01, 0, 2.0, 0, 0, 0, 0, 2.0, 0, 0, 0, 0, 2.0}, int64 n = {5}>
         { u = Identity(x)
           y = Loop<body = b (int64 i, bool c, float[4,4] s) => (bool d, float[4,4] t)
               { d = Identity(c) t = MatMul(s, w) }>(n, , u) k = Relu(w) }",
        3,
    );
    let samples = samples(&float, 4, 5);
    let ([pairs, integers], done) = close(&float, &samples, 0.1);
    assert_eq!(inside(&pairs, "QuantizeLinear"), 1);
    assert_eq!(inside(&integers, "MatMulIntegerToFloat"), 1);
    let seen = done.tensors.iter().find(|t| t.name == "s").and_then(|t| t.min.zip(t.max));
    let (lo, hi) = seen.expect("the carried value has a range");
    assert!(hi.max(-lo) > 10.0, "{lo} {hi}");
}

#[test]
fn branches_read_values_and_weights_of_the_graph_around_them() {
    let float = model(
        "g (float[1,3,4,4] x, bool c) => (float[1,4,4,4] y)
         <float[4,3,1,1] w, float[4] k, float[4,4,1,1] v>
         { a = Conv(x, w, k) r = Relu(a) o = Relu(v)
           z = If<then_branch = t () => (float[1,4,4,4] p) { p = Conv(r, v, k) },
                  else_branch = e () => (float[1,4,4,4] q)
                  <float[4,4,1,1] u = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1}>
                  { m = Conv(r, u) n = Relu(m) q = Conv(n, v) }>(c)
           y = Conv(z, v) }",
        3,
    );
    let mut samples = samples(&model("g (float[1,3,4,4] x) => (float[1,3,4,4] x) {}", 1), 4, 5);
    let choose = |feeds: &mut Feeds, to: u8| {
        feeds.insert("c".into(), Tensor::from_vec_as(DataType::Bool, vec![], vec![to]));
    };
    samples.iter_mut().enumerate().for_each(|(i, feeds)| choose(feeds, (i % 2) as u8));
    let ([pairs, integers], done) = close(&float, &samples, 0.06);
    assert_eq!((done.layers.len(), done.left_in_float.len()), (5, 0), "{done:?}");
    assert_eq!(inside(&integers, "QLinearConv"), 3);
    assert_eq!(inside(&integers, "Relu"), 0, "saturation stands for it");
    let stays = ["w", "k"].map(|name| pairs.graph.value_named(name));
    assert!(stays.iter().flatten().all(|v| pairs.graph.uses(*v) == 0), "weights in float stay");

    // A branch that no sample leads to stays as it is, and its node is named.
    samples.iter_mut().for_each(|feeds| choose(feeds, 1));
    let (_, done) = close(&float, &samples, 0.06);
    assert_eq!(done.layers.len(), 3, "{done:?}");
    assert!(done.left_in_float.iter().all(|l| l.reason == "no sample reaches it"));
    assert_eq!(done.left_in_float.len(), 2);
}

#[test]
fn products_of_a_body_share_weights_from_outside() {
    let float = model(
        "g (float[2,4] x) => (float[2,4] y) <float[4,4] w, int64 n = {3}>
         { u = MatMul(x, w)
           y = Loop<body = b (int64 i, bool c, float[2,4] s) => (bool d, float[2,4] t)
               { d = Identity(c) p = MatMul(s, w) r = Tanh(p) q = MatMul(r, w) t = Tanh(q) }>(n, , u) }",
        3,
    );
    let ([pairs, _], done) = close(&float, &samples(&float, 4, 5), 0.1);
    assert_eq!((done.layers.len(), done.left_in_float.len()), (3, 0), "{done:?}");
    let body = pairs.graph.nodes().find_map(|(_, n)| n.subgraphs().next()).unwrap();
    let integers = body.value_ids().filter_map(|v| body.constant(v));
    assert_eq!(integers.filter(|t| t.dtype() == DataType::Int8 && t.rank() == 2).count(), 1);
}

#[test]
fn a_node_with_bodies_can_stay_in_floating_point() {
    let float = model(
        "g (float[2,4] x, bool c) => (float[2,4] y) <float[4,4] w>
         { a = MatMul(x, w)
           y = If<then_branch = t () => (float[2,4] p) { p = MatMul(a, w) },
                  else_branch = e () => (float[2,4] q) { q = Relu(a) }>(c) }",
        3,
    );
    let base = Base::new(float, &QuantizeRequest::default(), &BTreeSet::new());
    let graph = &base.model.graph;
    let names: Vec<&str> = base.choices().iter().map(|id| graph[*id].op.as_str()).collect();
    assert_eq!(names, ["MatMul", "If"]);
    let owner = base.choices().into_iter().filter(|id| graph[*id].is("If")).collect();
    let (_, done) = base.without(&QuantizeRequest::default(), &owner).quantize(Method::MinMax);
    assert_eq!((done.layers.len(), done.left_in_float.len()), (1, 1), "{done:?}");
}

#[test]
fn float16_keeps_its_type() {
    let mut float = model(
        "g (float16[2,4] x) => (float16[2,3] y)
         <float16[4,4] w = {0.5, -1.0, 0.25, 2.0, 1.0, 0.5, -0.5, 0.125, 1.5, -0.25, 1.0, 0.75,
                            -2.0, 0.5, 0.5, 0.25}, float16[4] b = {0.5, -0.5, 0.25, 1.0},
          float16[4,3] v = {0.001, 0.002, 0.5, 0.001, -0.002, 0.25, 0.003, 0.001, 1.0, 0.002, 0.001, 0.5}>
         { a = Gemm(x, w, b) r = Relu(a) y = MatMul(r, v) }",
        3,
    );
    assert_eq!(QuantizeRequest::default().opset_for(&float), 19);
    float.opsets.insert(String::new(), 19);
    let values = [0.5f64, -1.0, 2.0, 0.25, 1.5, -0.75, 1.0, 3.0];
    let x = Reals { dims: vec![2, 4], values: values.to_vec() }.to_tensor(DataType::Float16);
    let feeds = Feeds::from([("x".to_owned(), x.unwrap())]);
    let (pairs, done) = base(&float, std::slice::from_ref(&feeds)).quantize(Method::MinMax);
    let pairs = checked(pairs);
    assert_eq!((done.layers.len(), done.left_in_float.len()), (2, 0), "{done:?}");
    let graph = &pairs.graph;
    for (_, node) in graph.nodes().filter(|(_, n)| n.op.ends_with("Linear")) {
        let scale = graph.constant(node.input(1).unwrap()).unwrap();
        assert_eq!(scale.dtype(), DataType::Float16);
        assert!(scale.to_reals().unwrap().values.iter().all(|s| *s > 0.0));
    }
    let settings = Settings { activation: DataType::Uint16, ..Settings::default() };
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let wide = plan(&float.graph, &request, &BTreeSet::new());
    assert!(wide.weighted.is_empty() && wide.left[0].1.contains("fewer digits"), "{wide:?}");
    let of = |model: &Model| outputs(model, &feeds)[0].1.to_reals().unwrap().values;
    for (a, b) in of(&float).iter().zip(of(&pairs)) {
        assert!((a - b).abs() < 0.1 && a.is_finite(), "{a} {b}");
    }
}
