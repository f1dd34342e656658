//! Operators that compute on integers where params name them.

use super::{difference, model, operators, outputs, quantized, samples};
use crate::accuracy::Base;
use crate::emit::{fold, quantize_dynamic};
use crate::observe::Limits;
use crate::plan::{Overrides, QuantizeRequest, Settings};
use crate::range::method::Method;
use crate::report::Form;
use onnxd_ir::{DataType, Graph, Model, Node, Tensor, VerifyLevel, infer, verify};
use onnxd_params::words::Mode;
use std::collections::BTreeSet;

fn naming(ops: &[&str]) -> QuantizeRequest {
    QuantizeRequest {
        op_types: ops.iter().map(|op| (*op).to_owned()).collect(),
        ..QuantizeRequest::default()
    }
}

/// The model as operators on integers.
fn folded(model: &Model) -> Model {
    let mut made = model.clone();
    fold(&mut made);
    let found = infer(&mut made);
    assert!(found.0.is_empty(), "{found}");
    let found = verify(&made, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}");
    made
}

/// Both forms, of which the second must hold `form`, are near the float model.
fn near(graph: &str, request: &QuantizeRequest, form: &str, share: f64) -> Model {
    let float = model(graph, 5);
    let given = samples(&float, 4, 8);
    let (pairs, done) = quantized(&float, request, &given);
    assert!(done.left_in_float.is_empty() && !done.layers.is_empty(), "{done:?}");
    let integers = folded(&pairs);
    let found = operators(&integers);
    assert!(found.split(' ').any(|op| op == form), "{found}");
    for made in [&pairs, &integers] {
        let (worst, largest) = difference(&float, made, &given);
        assert!(worst > 0.0 && worst < share * largest, "{worst} of {largest}: {found}");
    }
    pairs
}

fn producer<'g>(graph: &'g Graph, name: &str) -> &'g Node {
    let v = graph.value_named(name).unwrap();
    &graph[graph.producer(v).unwrap()]
}

#[test]
fn functions_and_sums_that_are_named_read_integers() {
    for (body, ops, form) in [
        ("y = Softmax<axis = -1>(x)", &["Softmax"][..], "QLinearSoftmax"),
        ("y = Sub(x, c)", &["Sub"], "Sub"),
        ("a = Add(x, k) y = Div(a, e)", &["Div"], "Div"),
        ("y = Tanh(x)", &["Tanh"], "Tanh"),
        ("y = CumSum(x, one)", &["CumSum"], "CumSum"),
        ("b = Greater(x, c) d = Neg(x) y = Where(b, x, d)", &["Where"], "QLinearWhere"),
        ("b = Greater(x, c) y = Where(b, x, c)", &["Where"], "QLinearWhere"),
        ("y = PRelu(x, c)", &["PRelu"], "PRelu"),
        ("y = ReduceMax<axes = [1], keepdims = 1>(x)", &["ReduceMax"], "ReduceMax"),
    ] {
        let dims = if body.contains("ReduceMax") { "2,1,6" } else { "2,5,6" };
        let graph = format!(
            "g (float[2,5,6] x) => (float[{dims}] y)
             <float[6] c, float k = {{1.5}}, float[6] e = {{1.0,1.5,2.0,2.5,1.0,3.0}},
              int64 one = {{1}}> {{ {body} }}"
        );
        near(&graph, &naming(ops), form, 0.04);
        // No param names it: it stays as it is.
        let float = model(&graph, 5);
        let (same, done) = quantized(&float, &QuantizeRequest::default(), &samples(&float, 2, 8));
        assert_eq!(operators(&same), operators(&float));
        assert!(done.left_in_float.is_empty(), "{done:?}");
    }
}

#[test]
fn divisors_that_may_become_zero_stay_as_they_are() {
    for (graph, divisor) in [
        ("g (float[2,6] x, float[2,6] d) => (float[2,6] y) { y = Div(x, d) }", "d"),
        (
            "g (float[2,6] x) => (float[2,6] y) <float[3] d = {1.0,0.001,1.0}>
          { s = Slice(x, a, b, c) y = Div(s, d) }",
            "d",
        ),
    ] {
        let graph = graph
            .replace(
                "<float[3]",
                "<int64[1] a = {0}, int64[1] b = {3},
            int64[1] c = {1}, float[3]",
            )
            .replace("=> (float[2,6] y) <", "=> (float[2,3] y) <");
        let float = model(&graph, 5);
        let (made, done) = quantized(&float, &naming(&["Div"]), &samples(&float, 2, 8));
        assert!(done.left_in_float.is_empty());
        let y = producer(&made.graph, "y_float");
        assert_eq!(made.graph[y.input(1).unwrap()].name, divisor);
        assert!(operators(&made).starts_with('Q') || operators(&made).starts_with("Slice Q"));
    }
}

#[test]
fn probabilities_have_the_range_that_they_can_have() {
    let graph = "g (float[2,6] x) => (float[2,6] y) { y = Softmax(x) }";
    let mut float = model(graph, 5);
    float.opsets.insert(String::new(), 21);
    for (activation, symmetric, zero, steps) in [
        (DataType::Uint8, false, 0, 256.0),
        (DataType::Int8, false, -128, 256.0),
        (DataType::Int8, true, 0, 128.0),
        (DataType::Uint8, true, 128, 128.0),
        (DataType::Uint16, false, 0, 65536.0),
    ] {
        let settings = Settings { activation, symmetric, ..Settings::default() };
        let request = QuantizeRequest { settings, ..naming(&["Softmax"]) };
        let (_, done) = quantized(&float, &request, &samples(&float, 4, 8));
        let y = done.tensors.iter().find(|t| t.name == "y").unwrap();
        assert_eq!((y.zero_points[0], y.scales[0]), (zero, 1.0 / steps), "{activation}");
    }
}

#[test]
fn normalizations_have_factors_of_integers() {
    for (body, op) in [
        ("y = LayerNormalization<axis = -1>(x, s, b)", "LayerNormalization"),
        ("y = LayerNormalization<axis = -1>(x, s)", "LayerNormalization"),
        ("y = InstanceNormalization(x, t, u)", "InstanceNormalization"),
        ("y = BatchNormalization(x, t, u, u, v)", "BatchNormalization"),
    ] {
        let graph = format!(
            "g (float[2,4,6] x) => (float[2,4,6] y)
             <float[6] s, float[6] b, float[4] t, float[4] u, float[4] v = {{1.0,2.0,0.5,1.5}}>
             {{ {body} }}"
        );
        let made = near(&graph, &naming(&[op]), op, 0.05);
        let node = producer(&made.graph, "y_float");
        let integers = |slot: usize| {
            let back = made.graph.producer(node.input(slot).unwrap()).unwrap();
            let q = made.graph[back].input(0).unwrap();
            (made.graph[back].op.clone(), made.graph.constant(q).unwrap().dtype())
        };
        assert_eq!(integers(1), ("DequantizeLinear".into(), DataType::Int8));
        if node.inputs.len() > 2 {
            assert_eq!(integers(2), ("DequantizeLinear".into(), DataType::Int32));
        }
    }
}

const SCORES: &str = "
    g (float[2,4,6] x) => (float[2,4,6] y)
    { t = Transpose<perm = [0, 2, 1]>(x) a = MatMul(x, t) s = Softmax(a) y = MatMul(s, x) }";

#[test]
fn products_of_two_activations_on_demand() {
    let all = QuantizeRequest { matmul_const_b_only: false, ..QuantizeRequest::default() };
    let made = near(SCORES, &all, "MatMulIntegerToFloat", 0.05);
    // The second factor goes through the transposition; no sum is rounded.
    assert_eq!(operators(&made).matches('Q').count(), 3, "{}", operators(&made));
    let with_softmax =
        QuantizeRequest { matmul_const_b_only: false, ..naming(&["MatMul", "Softmax"]) };
    let made = near(SCORES, &with_softmax, "QLinearSoftmax", 0.05);
    assert!(operators(&folded(&made)).contains("QLinearMatMul"));
    let float = model(SCORES, 5);
    let (same, done) = quantized(&float, &QuantizeRequest::default(), &samples(&float, 2, 8));
    assert_eq!((operators(&same), done.left_in_float.len()), (operators(&float), 2));
    let bias = "g (float[3,4] x, float[5,4] w) => (float[3,5] y) <float[5] c>
        { y = Gemm<transB = 1, alpha = 0.5>(x, w, c) }";
    near(bias, &all, "QGemm", 0.05);
}

#[test]
fn products_of_two_activations_at_run_time() {
    let float = model(SCORES, 5);
    let request = QuantizeRequest { matmul_const_b_only: false, ..QuantizeRequest::default() };
    for (form, op) in [(Form::Qdq, "MatMulInteger"), (Form::QLinear, "MatMulIntegerToFloat")] {
        let mut made = float.clone();
        let done = quantize_dynamic(&mut made, &request, form).unwrap();
        assert_eq!((done.layers.len(), done.left_in_float.len()), (2, 0), "{done:?}");
        assert!(infer(&mut made).0.is_empty() && verify(&made, VerifyLevel::Full).0.is_empty());
        assert_eq!(operators(&made).split(' ').filter(|o| *o == op).count(), 2);
        let (worst, largest) = difference(&float, &made, &samples(&float, 4, 8));
        assert!(worst > 0.0 && worst < 0.05 * largest, "{worst} of {largest}");
    }
    // 32 bits may not hold the sums.
    let long =
        model("g (float[1,40000] x, float[40000,1] w) => (float[1,1] y) { y = MatMul(x, w) }", 5);
    let done = quantize_dynamic(&mut long.clone(), &request, Form::Qdq).unwrap();
    assert!(done.left_in_float[0].reason.contains("32 bits"), "{done:?}");
}

#[test]
fn places_are_found_among_integers() {
    let graph = "g (float[2,6] x) => (int64[2,1] y) { y = ArgMax<axis = 1>(x) }";
    let float = model(graph, 5);
    let given = samples(&float, 4, 8);
    let (pairs, done) = quantized(&float, &naming(&["ArgMax"]), &given);
    assert_eq!(done.layers.len(), 1);
    let integers = folded(&pairs);
    assert_eq!(operators(&integers), "Q ArgMax");
    for feeds in &given {
        assert_eq!(outputs(&float, feeds), outputs(&integers, feeds));
    }
    let graph = "
        g (float[1,2,4] x) => (float[1,3,2] y, int64[1,3,2] i)
        <float[3,2,1] w, int64[1] k = {2}, int64[1,3,2] at = {0,0,1,1,0,1}, float[3,3,1] w2>
        { c = Conv(x, w) t, i = TopK(c, k) e = GatherElements<axis = 2>(t, at) y = Conv(e, w2) }";
    let float = model(graph, 5);
    let (pairs, _) = quantized(&float, &QuantizeRequest::default(), &samples(&float, 4, 8));
    let found = operators(&folded(&pairs));
    assert_eq!(found, "Q QLinearConv TopK GatherElements QLinearConv D");
}

#[test]
fn what_is_named_and_cannot_be_done_is_told() {
    for (graph, op, why) in [
        ("g (double[2,6] x) => (double[2,6] y) { y = Softmax(x) }", "Softmax", "no double"),
        ("g (bfloat16[2,6] x) => (bfloat16[2,6] y) { y = Tanh(x) }", "Tanh", "bfloat16"),
        (
            "g (float[2,2] x, bool[2,2] b) => (float[2,2] y) <float m = {-65504.0}>
             { y = Where(b, x, m) }",
            "Where",
            "mask",
        ),
        (
            "g (float[2,2] x, bool[2,2] b) => (float[2,2] y) <float m = {-inf}>
             { y = Where(b, x, m) }",
            "Where",
            "finite",
        ),
        (
            "g (float[2,2,3] x, float[2] s, float[2] b) => (float[2,2,3] y)
             { y = InstanceNormalization(x, s, b) }",
            "InstanceNormalization",
            "no constant vector",
        ),
        (
            "g (float[2,2,3] x) => (float[2,2,3] y) <float[2,3] s = {1.0,1.0,1.0,1.0,1.0,1.0}>
             { y = LayerNormalization<axis = 1>(x, s) }",
            "LayerNormalization",
            "no constant vector",
        ),
        ("g () => (float[2] y) <float[2] c = {1.0, 2.0}> { y = Exp(c) }", "Exp", "constant"),
        ("g (float16[2] x) => (float16[2] y) { y = Exp(x) }", "Exp", "fewer digits"),
    ] {
        let mut request = naming(&[op]);
        if why == "fewer digits" {
            request.settings.activation = DataType::Uint16;
        }
        let graph = onnxd_ir::text::parse_graph(graph).unwrap();
        let plan = crate::plan::plan(&graph, &request, &BTreeSet::new());
        let [(_, left)] = plan.left[..] else { panic!("{op}: {plan:?}") };
        assert!(left.contains(why), "{left}");
        assert!(plan.propagated.is_empty() && plan.values.is_empty());
    }
    // What computes no reals is not meant.
    let graph = "g (int64[2] x) => (int64[2] y) { y = Sub(x, x) }";
    let plan = crate::plan::plan(&model(graph, 1).graph, &naming(&["Sub"]), &BTreeSet::new());
    assert!(plan.left.is_empty() && plan.opt_in.is_empty());
    let idle = naming(&["Softmax", "Where", "TopK", "EmbedLayerNormalization", "Attention", "If"]);
    assert_eq!(idle.idle_types(Mode::Static), ["If"]);
    assert_eq!(idle.idle_types(Mode::Dynamic), ["Softmax", "Where", "TopK", "If"]);
    let alone = QuantizeRequest { weighted_only: true, ..naming(&["Conv", "Softmax", "Relu"]) };
    assert_eq!(alone.idle_types(Mode::Static), ["Softmax", "Relu"]);
}

/// Of convolutions only ranges at run time make integers whose weights are computed.
#[test]
fn convolutions_with_computed_weights() {
    let float = "g (float[2,4,6,6] x, float[1,3] s) => (float[2,3,3,3] y)
             <float[3,4,3,3] k, float[3] b, int64[4] d = {3, 1, 1, 1}>
             { t = Reshape(s, d) w = Mul(k, t)
                y = Conv<strides = [2, 2], pads = [1, 1, 1, 1], kernel_shape = [3, 3]>(x, w, b) }";
    let float = model(float, 5);
    let given = samples(&float, 3, 8);
    let request = QuantizeRequest { matmul_const_b_only: false, ..QuantizeRequest::default() };
    for form in [Form::Qdq, Form::QLinear] {
        let mut made = float.clone();
        let done = quantize_dynamic(&mut made, &request, form).unwrap();
        assert_eq!((done.layers.len(), done.left_in_float.len()), (1, 0), "{done:?}");
        assert!(infer(&mut made).0.is_empty() && verify(&made, VerifyLevel::Full).0.is_empty());
        let found = operators(&made);
        assert_eq!(found.matches("DynamicQuantizeLinear").count(), 2, "{found}");
        assert!(found.contains("ConvInteger") && !found.contains("Conv "), "{found}");
        let (worst, largest) = difference(&float, &made, &given);
        assert!(worst > 0.0 && worst < 0.03 * largest, "{worst} of {largest}");
        let done = quantize_dynamic(&mut float.clone(), &QuantizeRequest::default(), form).unwrap();
        assert_eq!(done.left_in_float[0].reason, "both factors are computed");
    }
    // Sums that 32 bits may not hold.
    let float = model(
        "g (float[1,9000,2,2] x, float[1,9000,2,2] w) => (float[1,1,1,1] y) { y = Conv(x, w) }",
        5,
    );
    let done = quantize_dynamic(&mut float.clone(), &request, Form::Qdq).unwrap();
    assert!(done.left_in_float[0].reason.contains("32 bits"), "{done:?}");
}

#[test]
fn products_of_other_types_say_why() {
    for (dtype, why) in [
        ("double", "QuantizeLinear takes no double"),
        ("bfloat16", "no kernel of QuantizeLinear for bfloat16"),
    ] {
        let text = format!(
            "g ({dtype}[1,2] x) => ({dtype}[1,2] y) <{dtype}[2,2] w = {{1.0, 2.0, 3.0, 4.0}}>
             {{ y = MatMul(x, w) }}"
        );
        let graph = onnxd_ir::text::parse_graph(&text).unwrap();
        let plan = crate::plan::plan(&graph, &QuantizeRequest::default(), &BTreeSet::new());
        assert!(plan.left[0].1.contains(why), "{plan:?}");
    }
}

/// Saturation stands for a clamp behind what is named, too.
#[test]
fn clamps_go_into_the_range_of_what_is_named() {
    let graph = "g (float[2,3,4] x) => (float[2,3,4] y) <float[3] s, float[3] b>
        { n = InstanceNormalization(x, s, b) y = Relu(n) }";
    let made =
        near(graph, &naming(&["InstanceNormalization", "Relu"]), "InstanceNormalization", 0.05);
    assert!(!operators(&made).contains("Relu"));
}

#[test]
fn what_is_named_can_stay_in_float_and_has_settings() {
    let float = model(SCORES, 5);
    let given = samples(&float, 4, 8);
    let request = QuantizeRequest { matmul_const_b_only: false, ..naming(&["MatMul", "Softmax"]) };
    let mut base = Base::new(float.clone(), &request, &BTreeSet::new());
    assert_eq!(base.choices().len(), 3);
    let mut samples = given.iter().cloned().map(Ok);
    base.observe(&mut samples, &Method::MinMax.parts(1), Limits::default()).unwrap();
    let (made, done) = base.quantize(Method::MinMax);
    assert_eq!(done.layers.len(), 3);
    let found = crate::accuracy::layers_db(
        &base,
        &made,
        &mut given.iter().cloned().map(Ok),
        Limits::default(),
    );
    assert!(found.unwrap().values().all(|db| db.is_some_and(|db| db > 20.0)));
    let floats: BTreeSet<_> = base.choices();
    let (same, done) = base.without(&request, &floats).quantize(Method::MinMax);
    assert_eq!((operators(&same), done.left_in_float.len()), (operators(&float), 3));
    // Each has settings of its own.
    let mut request = naming(&["Softmax"]);
    let wide = Overrides { activation: Some(DataType::Uint16), ..Overrides::default() };
    request.overrides.insert("*".into(), wide);
    let plan = crate::plan::plan(&float.graph, &request, &BTreeSet::new());
    let settings: Vec<Settings> = plan.values.values().map(|q| q.settings).collect();
    assert!(settings.len() == 2 && settings.iter().all(|s| s.activation == DataType::Uint16));
}

#[test]
fn bodies_have_what_is_named() {
    let graph = "
        g (float[2,6] x, bool c) => (float[2,6] y) <float[6] k = {1,2,3,4,5,6}, float[6] s = {1,2,1,2,1,3}>
        { y = If<then_branch = t () => (float[2,6] a) { a = Sub(x, k) },
                 else_branch = e () => (float[2,6] b) { b = LayerNormalization(x, s) }>(c) }";
    let float = model(graph, 5);
    let mut given = samples(&model("g (float[2,6] x) => (float[2,6] x) {}", 1), 4, 8);
    for (i, feeds) in given.iter_mut().enumerate() {
        let flag = Tensor::from_vec_as(DataType::Bool, vec![], vec![(i % 2) as u8]);
        feeds.insert("c".into(), flag);
    }
    let request = naming(&["Sub", "LayerNormalization"]);
    let mut base = Base::new(float.clone(), &request, &BTreeSet::new());
    assert_eq!(base.choices().len(), 1);
    let mut samples = given.iter().cloned().map(Ok);
    base.observe(&mut samples, &Method::MinMax.parts(1), Limits::default()).unwrap();
    let (mut made, done) = base.quantize(Method::MinMax);
    assert_eq!((done.layers.len(), done.left_in_float.len()), (2, 0), "{done:?}");
    assert!(infer(&mut made).0.is_empty() && verify(&made, VerifyLevel::Full).0.is_empty());
    let (worst, largest) = difference(&float, &made, &given);
    assert!(worst > 0.0 && worst < 0.04 * largest, "{worst} of {largest}");
}
