//! Ranges at run time.

use super::{difference, model, operators, samples};
use crate::emit::quantize_dynamic;
use crate::plan::{QuantizeRequest, Settings};
use crate::report::{Form, Report};
use onnxd_ir::{Attr, DataType, Graph, Model, Tensor, VerifyLevel, infer, text, verify};

pub(crate) fn dynamic(model: &Model, settings: Settings, form: Form) -> (Model, Report) {
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let mut quantized = model.clone();
    let done = quantize_dynamic(&mut quantized, &request, form).unwrap_or_else(|d| panic!("{d}"));
    let found = infer(&mut quantized);
    assert!(found.0.is_empty(), "{found}");
    let found = verify(&quantized, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_graph(&quantized.graph));
    (quantized, done)
}

/// Both forms and all settings, compared with float.
fn close(graph: &str, share: f64) -> (Model, Model) {
    let float = model(graph, 7);
    let samples = samples(&float, 3, 8);
    let mut made = Vec::new();
    for form in [Form::Qdq, Form::QLinear] {
        for (weight, per_channel, symmetric, reduce_range) in [
            (DataType::Int8, true, false, false),
            (DataType::Int8, false, false, true),
            (DataType::Uint8, true, false, false),
            (DataType::Uint8, true, true, false),
            (DataType::Uint8, false, false, true),
        ] {
            let settings =
                Settings { weight, per_channel, symmetric, reduce_range, ..Settings::default() };
            let (quantized, done) = dynamic(&float, settings, form);
            assert!(done.left_in_float.is_empty(), "{:?}", done.left_in_float);
            let (worst, largest) = difference(&float, &quantized, &samples);
            let share = if reduce_range { 2.0 * share } else { share };
            assert!(worst <= share * largest, "{settings:?} {form:?}: {worst} of {largest}");
            assert!(worst > 0.0, "nothing was rounded");
            made.push(quantized);
        }
    }
    (made.swap_remove(0), made.swap_remove(5))
}

#[test]
fn products_share_the_integers_of_what_they_read() {
    let (standard, own) = close(
        "g (float[2,3,8] x) => (float[2,3,5] y, float[2,3,4] z)
            <float[8,5] a, float[8,4] b, float[5] c>
        { p = MatMul(x, a) y = Add(p, c) z = MatMul(x, b) }",
        0.02,
    );
    let found = operators(&standard);
    assert_eq!(found.matches("DynamicQuantizeLinear").count(), 1, "{found}");
    assert_eq!(found.matches("MatMulInteger").count(), 2, "{found}");
    assert_eq!(operators(&own).matches("MatMulIntegerToFloat").count(), 2);
    assert_eq!(own.opsets["com.microsoft"], 1);
    assert!(!standard.opsets.contains_key("com.microsoft"));
    let float = |g: &Graph| g.value_named("a").is_none_or(|v| g[v].initializer().is_none());
    assert!(float(&standard.graph) && float(&own.graph), "weights that nothing reads are gone");
}

#[test]
fn all_of_gemm_is_kept() {
    for graph in [
        "g (float[6,4] x) => (float[4,3] y) <float[3,6] w, float[3] c>
         { y = Gemm<alpha = 0.5, beta = 2.0, transA = 1, transB = 1>(x, w, c) }",
        "g (float[4,6] x, float[4,1] c) => (float[4,3] y) <float[6,3] w>
         { y = Gemm<beta = -0.5>(x, w, c) }",
        "g (float[4,6] x) => (float[4,3] y) <float[6,3] w, float[4,3] c>
         { y = Gemm<alpha = -2.0>(x, w, c) }",
        "g (float[4,6] x) => (float[4,3] y) <float[6,3] w, float[1,3] c>
         { y = Gemm<beta = 0.0>(x, w, c) }",
        "g (float[4,6] x) => (float[4,3] y) <float[6,3] w> { y = Gemm(x, w) }",
    ] {
        close(graph, 0.03);
    }
}

#[test]
fn convolutions_of_any_rank() {
    for graph in [
        "g (float[2,4,7,7] x) => (float[2,6,7,7] y) <float[6,2,3,3] w, float[6] b>
         { y = Conv<group = 2, pads = [1,1,1,1], kernel_shape = [3,3]>(x, w, b) }",
        "g (float[1,3,9] x) => (float[1,4,4] y) <float[4,3,3] w>
         { y = Conv<strides = [2]>(x, w) }",
        "g (float[1,4,5,5] x) => (float[1,4,3,3] y) <float[4,1,3,3] w, float[4] b>
         { y = Conv<group = 4>(x, w, b) }",
    ] {
        let (standard, _) = close(graph, 0.04);
        let g = &standard.graph;
        let (_, conv) = g.nodes().find(|(_, n)| n.is("ConvInteger")).unwrap();
        // Large weights are written as uint8, with one zero point for all channels.
        let zero = g.constant(conv.input(3).unwrap()).unwrap();
        assert_eq!((zero.rank(), zero.to_i64s().unwrap()), (0, vec![128]));
    }
}

#[test]
fn tables_become_integers() {
    let (standard, _) = close(
        "g (float[2,3] x) => (float[2,3,4,64] y, float[4,64] z)
            <float[80,64] t, float[3,5] u, int64[4] i = {0, 79, -1, 3}>
         { p = Gather(t, i) s = Shape(x) w = ReduceMax<keepdims = 0>(x) z = Mul(p, w)
           h = Relu(x) m = MatMul(h, u) n = ReduceMax<keepdims = 0>(m) k = Mul(z, n)
           d = Constant<value = int64[4] {2, 3, 4, 64}>() y = Expand(k, d) }",
        0.05,
    );
    assert!(operators(&standard).contains("Gather D"), "{}", operators(&standard));
}

#[test]
fn a_table_that_gives_scores_has_one_form() {
    let graph = "g (float[2,3] x) => (float[6,80] y, float[2,3,64] e)
            <float[80,64] t, float[80] c, int64[2,3] i = {0, 79, -1, 3, 7, 5}, int64[2] s = {-1, 64}>
         { p = Gather(t, i) q = ReduceMax<keepdims = 0>(x) e = Mul(p, q)
           h = Reshape(e, s) y = Gemm<transB = 1>(h, t, c) }";
    let float = model(graph, 7);
    let samples = samples(&float, 3, 8);
    for form in [Form::Qdq, Form::QLinear] {
        for (per_channel, symmetric) in [(true, false), (true, true), (false, false)] {
            let settings = Settings { per_channel, symmetric, ..Settings::default() };
            let (quantized, done) = dynamic(&float, settings, form);
            assert!(done.left_in_float.is_empty() && done.layers.len() == 2, "{done:?}");
            let g = &quantized.graph;
            assert!(g.value_named("t").is_none_or(|v| g[v].initializer().is_none()), "no floats");
            let held = g.value_ids().filter_map(|v| g[v].initializer());
            assert_eq!(held.filter(|t| t.len() == 80 * 64).count(), 1, "one table");
            let (worst, largest) = difference(&float, &quantized, &samples);
            assert!(worst > 0.0 && worst <= 0.03 * largest, "{settings:?}: {worst} of {largest}");
        }
    }
    let request = QuantizeRequest { exclude: vec!["y".to_owned()], ..QuantizeRequest::default() };
    let mut quantized = float.clone();
    let done = quantize_dynamic(&mut quantized, &request, Form::Qdq).unwrap();
    let [left] = done.left_in_float.as_slice() else { panic!("{done:?}") };
    assert_eq!(left.reason, "its table is read by others than Gather");
}

#[test]
fn bodies_read_constants_of_the_graph_around_them() {
    let float = model(
        "g (float[2,8] x, bool c) => (float[2,8] y) <float[8,8] w>
         { h = MatMul(x, w)
           y = If<then_branch = t () => (float[2,8] a) { a = MatMul(h, w) },
                  else_branch = e () => (float[2,8] b) { b = MatMul(x, w) }>(c) }",
        3,
    );
    let (quantized, done) = dynamic(&float, Settings::default(), Form::Qdq);
    assert_eq!(done.layers.len(), 3, "{done:?}");
    let w = quantized.graph.value_named("w");
    assert!(w.is_none_or(|v| quantized.graph[v].initializer().is_none()));
    let (_, node) = quantized.graph.nodes().find(|(_, n)| n.is("If")).unwrap();
    for body in node.subgraphs() {
        assert!(body.nodes().any(|(_, n)| n.is("MatMulInteger")));
    }
    let mut feeds = samples(&model("g (float[2,8] x) => (float[2,8] x) {}", 1), 1, 5).remove(0);
    feeds.insert("c".into(), Tensor::from_vec_as(DataType::Bool, vec![], vec![1u8]));
    let (worst, largest) = difference(&float, &quantized, &[feeds]);
    assert!(worst > 0.0 && worst < 0.03 * largest, "{worst} {largest}");
}

#[test]
fn bodies_in_bodies_read_constants_of_the_main_graph() {
    let float = model(
        "g (float[2,8] x, bool c) => (float[2,8] y) <float[8,8] w>
         { h = MatMul(x, w)
           y = If<then_branch = t () => (float[2,8] a) {
                    a = If<then_branch = u () => (float[2,8] p) { p = MatMul(x, w) },
                           else_branch = v () => (float[2,8] q) { q = Relu(x) }>(c) },
                  else_branch = e () => (float[2,8] b) { b = MatMul(h, w) }>(c) }",
        3,
    );
    for form in [Form::Qdq, Form::QLinear] {
        let (quantized, done) = dynamic(&float, Settings::default(), form);
        assert_eq!((done.layers.len(), done.left_in_float.len()), (3, 0), "{done:?}");
        let w = quantized.graph.value_named("w");
        assert!(w.is_none_or(|v| quantized.graph.uses(v) == 0), "weights in float stay");
    }
}

#[test]
fn what_stays_in_float_is_named() {
    let float = model(
        "g (float[1,2,8,8] x) => (float[1,2,8,8] y, float[1,3,10,10] z) <float[2,3,3,3] w>
         { y = MatMul(x, x) z = ConvTranspose(x, w) }",
        3,
    );
    let (quantized, done) = dynamic(&float, Settings::default(), Form::Qdq);
    assert_eq!(operators(&quantized), "MatMul ConvTranspose");
    let reasons: Vec<&str> = done.left_in_float.iter().map(|l| l.reason.as_str()).collect();
    assert_eq!(reasons, ["both factors are computed", "there is no ConvTranspose on integers"]);
    let float = model("g (float[2,8] x) => (float[2,2] y) <float[8,2] w> { y = MatMul(x, w) }", 1);
    let settings = Settings { weight: DataType::Int4, ..Settings::default() };
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let refused = quantize_dynamic(&mut float.clone(), &request, Form::Qdq).unwrap_err();
    assert!(refused.to_string().contains("int4"), "{refused}");
}

#[test]
fn sums_that_32_bits_may_not_hold_stay_in_float() {
    for (k, size, left) in [(70_000, 1.0f32, 1), (70_000, 0.1, 0), (33_000, 1.0, 0)] {
        let graph =
            format!("g (float[1,{k}] x) => (float[1,2] y) <float[{k},2] w> {{ y = MatMul(x, w) }}");
        let mut float = model(&graph, 1);
        let w = float.graph.value_named("w").unwrap();
        // One is as large as it gets, so that the others have few steps if they are small.
        let mut weights = vec![size; 2 * k];
        weights[0] = 1.0;
        float.graph.set_initializer(w, Some(Tensor::from_vec([k, 2], weights)));
        let settings = Settings { per_channel: false, ..Settings::default() };
        let (_, done) = dynamic(&float, settings, Form::Qdq);
        assert_eq!(done.left_in_float.len(), left, "{k} {size}: {:?}", done.left_in_float);
    }
}

#[test]
fn reduced_weights_cannot_saturate_16_bits() {
    let float = model("g (float[2,8] x) => (float[2,5] y) <float[8,5] w> { y = MatMul(x, w) }", 1);
    let settings = Settings { reduce_range: true, ..Settings::default() };
    let (quantized, _) = dynamic(&float, settings, Form::Qdq);
    let (_, node) = quantized.graph.nodes().find(|(_, n)| n.is("MatMulInteger")).unwrap();
    let weights = quantized.graph.constant(node.input(1).unwrap()).unwrap().to_i64s().unwrap();
    let largest = weights.iter().map(|w| w.abs()).max().unwrap();
    assert_eq!(largest, 64);
    // Two products of 8 bits are added in 16 bits by processors without VNNI.
    assert!(2 * 255 * largest < 1 << 15);
    let cast = quantized.graph.nodes().find(|(_, n)| n.is("Cast")).unwrap().1;
    assert!(matches!(cast.attr("to"), Some(Attr::Int(1))));
}

#[test]
fn recurrent_layers_of_both_directions() {
    let float = model(
        "g (float[5,2,4] x) => (float[5,2,2,3] y, float[2,2,3] h)
         <float[2,12,4] w, float[2,12,3] r, float[2,24] b, float[2,2,3] h0>
         { y, h = LSTM<direction = \"bidirectional\", hidden_size = 3>(x, w, r, b, , h0) }",
        3,
    );
    let samples = samples(&float, 3, 8);
    for per_channel in [true, false] {
        let settings = Settings { per_channel, ..Settings::default() };
        let (quantized, done) = dynamic(&float, settings, Form::QLinear);
        assert_eq!(operators(&quantized), "DynamicQuantizeLSTM");
        assert_eq!((done.layers.len(), done.left_in_float.len()), (1, 0), "{done:?}");
        let (worst, largest) = difference(&float, &quantized, &samples);
        assert!(worst > 0.0 && worst < 0.03 * largest, "{worst} of {largest}");
        let (_, node) = quantized.graph.nodes().next().unwrap();
        let constant = |slot: usize| quantized.graph.constant(node.input(slot).unwrap()).unwrap();
        assert_eq!((constant(1).dims(), constant(2).dims()), (&[2, 4, 12][..], &[2, 3, 12][..]));
        let scales: &[usize] = if per_channel { &[2, 12] } else { &[2] };
        assert_eq!((constant(8).dims(), constant(11).dims()), (scales, scales));
    }
    let (_, done) = dynamic(&float, Settings::default(), Form::Qdq);
    assert_eq!(done.left_in_float[0].reason, "the standard has no LSTM on integers");
}
