//! Weights alone.

use super::{Dice, difference, model, operators, outputs, samples};
use crate::observe::{Feeds, Limits};
use crate::plan::{Overrides, QuantizeRequest, Settings};
use crate::report::{Form, Report};
use crate::search::{Data, WeightMethods, quantize_weights};
use crate::session::OwnMemory;
use onnxd_eval::Builtin;
use onnxd_ir::{Attr, DataType, Model, Tensor, VerifyLevel, infer, text, verify};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn quantized(float: &Model, settings: Settings, form: Form, feeds: &[Feeds]) -> (Model, Report) {
    by(float, settings, form, (feeds, WeightMethods { gptq: true, awq: true }))
}

fn by(
    float: &Model,
    settings: Settings,
    form: Form,
    (feeds, ways): (&[Feeds], WeightMethods),
) -> (Model, Report) {
    let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
    let mut made = float.clone();
    made.opsets.insert(String::new(), 21);
    let given = || -> Box<dyn Iterator<Item = _> + '_> { Box::new(feeds.iter().cloned().map(Ok)) };
    let data = Data {
        engine: &Builtin,
        samples: &given,
        limits: Limits::default(),
        methods: ways,
        progress: &|_, _| Ok(()),
    };
    let data = (!feeds.is_empty()).then_some(&data);
    let done = quantize_weights(&mut made, &request, form, data, &OwnMemory);
    let done = done.unwrap_or_else(|d| panic!("{d}"));
    let found = infer(&mut made);
    assert!(found.0.is_empty(), "{found}");
    let found = verify(&made, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_graph(&made.graph));
    (made, done)
}

fn settings(weight: DataType, block_size: usize) -> Settings {
    Settings { weight, block_size, ..Settings::default() }
}

/// Both forms hold the same numbers and come as near to float as their bits allow.
fn close(graph: &str) {
    let float = model(graph, 5);
    let feeds = samples(&float, 3, 6);
    for (weight, share) in [
        (DataType::Uint4, 0.2),
        (DataType::Int4, 0.25),
        (DataType::Uint8, 0.015),
        (DataType::Int8, 0.015),
    ] {
        for known in [&[][..], &feeds] {
            let of = |form| quantized(&float, settings(weight, 16), form, known);
            let ((qdq, done), (own, _)) = (of(Form::Qdq), of(Form::QLinear));
            assert!(done.left_in_float.is_empty(), "{:?}", done.left_in_float);
            let (worst, largest) = difference(&float, &qdq, &feeds);
            assert!(worst > 0.0 && worst < share * largest, "{weight}: {worst} of {largest}");
            let (worst, largest) = difference(&qdq, &own, &feeds);
            assert!(worst <= 1e-5 * largest, "{weight}: forms differ by {worst} of {largest}");
            assert!(!operators(&qdq).contains("NBits") && operators(&qdq).contains('D'));
            assert!(!operators(&own).contains('D'), "{}", operators(&own));
        }
    }
}

#[test]
fn products_of_all_sizes() {
    // Whole blocks, a shorter last one, less than one, and an odd number of blocks.
    for k in [32, 40, 7, 48] {
        close(&format!(
            "g (float[2,3,{k}] x) => (float[2,3,9] y) <float[{k},9] w> {{ y = MatMul(x, w) }}"
        ));
    }
    close("g (float[2,3,24] x) => (float[2,3,5] y) <float[1,24,5] w> { y = MatMul(x, w) }");
}

#[test]
fn all_of_gemm_is_kept() {
    for graph in [
        "g (float[24,4] x) => (float[4,3] y) <float[3,24] w, float[3] c>
         { y = Gemm<alpha = 0.5, beta = 2.0, transA = 1, transB = 1>(x, w, c) }",
        "g (float[4,24] x, float[4,1] c) => (float[4,3] y) <float[24,3] w>
         { y = Gemm<beta = -0.5>(x, w, c) }",
        "g (float[4,24] x) => (float[4,3] y) <float[24,3] w, float[4,3] c>
         { y = Gemm<alpha = -2.0>(x, w, c) }",
        "g (float[4,24] x) => (float[4,3] y) <float[24,3] w> { y = Gemm(x, w) }",
    ] {
        close(graph);
    }
}

#[test]
fn tables_and_bodies() {
    close(
        "g (float[8,40] x) => (float[8,5] y) <float[150,40] t, float[40,5] w,
            int64[8] i = {0, 149, -1, 3, 9, 9, 2, 1}>
         { r = Gather(t, i) s = Add(r, x) y = MatMul(s, w) }",
    );
    let float = model(
        "g (float[2,16] x) => (float[2,16] y) <float[16,16] w, int64 n = {3}, bool c = {1}>
         { h = MatMul(x, w)
           y = Loop<body = b (int64 i, bool d, float[2,16] s) => (bool e, float[2,16] z)
             { e = Identity(d) z = MatMul(s, w) }>(n, c, h) }",
        3,
    );
    let (own, done) = quantized(&float, settings(DataType::Uint8, 16), Form::QLinear, &[]);
    assert_eq!(done.layers.len(), 2, "{done:?}");
    assert!(own.graph.value_named("w").is_none_or(|v| own.graph[v].initializer().is_none()));
    let (worst, largest) = difference(&float, &own, &samples(&float, 2, 1));
    assert!(worst < 0.03 * largest, "{worst} {largest}");
}

#[test]
fn samples_lower_the_error_of_outputs() {
    let float =
        model("g (float[64,32] x) => (float[64,16] y) <float[32,16] w> { y = MatMul(x, w) }", 2);
    // Inputs that go together: errors of one weight can be made up for by others.
    let mut dice = Dice(9);
    let mut feeds = |_| {
        let rows = (0..64).flat_map(|_| {
            let common = dice.real();
            (0..32).map(|_| common + 0.2 * dice.real()).collect::<Vec<_>>()
        });
        let x = Tensor::from_vec([64, 32], rows.collect::<Vec<f32>>());
        Feeds::from([("x".to_owned(), x)])
    };
    let feeds: Vec<Feeds> = (0..4).map(&mut feeds).collect();
    let error = |made: &Model, feeds: &Feeds| -> f64 {
        let (a, b) = (outputs(&float, feeds).remove(0).1, outputs(made, feeds).remove(0).1);
        let (a, b) = (a.to_reals().unwrap().values, b.to_reals().unwrap().values);
        a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum()
    };
    let settings = settings(DataType::Uint4, 16);
    let (plain, _) = quantized(&float, settings, Form::Qdq, &[]);
    let (learned, done) = quantized(&float, settings, Form::Qdq, &feeds[..3]);
    assert!(done.tensors[0].method.starts_with("GPTQ"), "{:?}", done.tensors);
    let (worse, better) = (error(&plain, &feeds[3]), error(&learned, &feeds[3]));
    assert!(better < 0.3 * worse, "{better} {worse}");
    // The report tells the noise on the samples.
    let noise: f64 = feeds[..3].iter().map(|f| error(&learned, f)).sum();
    let signal: f64 = feeds[..3]
        .iter()
        .flat_map(|f| outputs(&float, f).remove(0).1.to_reals().unwrap().values)
        .map(|x| x * x)
        .sum();
    let db = 10.0 * (signal / noise).log10();
    assert!((done.layers[0].sqnr_db.unwrap() - db).abs() < 0.05, "{done:?} {db}");
}

/// Scales are of the type of the weights.
#[test]
fn half_precision() {
    let float = model(
        "g (float[8,40] x) => (float[8,5] y)
         <float16[150,40] t, float16[40,6] w, float16[6,5] v, float16[5] c,
          int64[8] i = {0, 149, -1, 3, 9, 9, 2, 1}>
         { r = Gather(t, i) h = Cast<to = 10>(x) s = Add(r, h) m = MatMul(s, w)
           z = Gemm<alpha = 0.5, beta = 2.0>(m, v, c) y = Cast<to = 1>(z) }",
        5,
    );
    let feeds = samples(&float, 3, 6);
    for (weight, share) in [(DataType::Uint4, 0.3), (DataType::Int8, 0.03)] {
        for known in [&[][..], &feeds] {
            let of = |form| quantized(&float, settings(weight, 16), form, known);
            let ((qdq, done), (own, _)) = (of(Form::Qdq), of(Form::QLinear));
            assert!(done.left_in_float.is_empty(), "{:?}", done.left_in_float);
            for made in [&qdq, &own] {
                let (worst, largest) = difference(&float, made, &feeds);
                assert!(worst > 0.0 && worst < share * largest, "{weight}: {worst} of {largest}");
            }
            let (worst, largest) = difference(&qdq, &own, &feeds);
            assert!(worst <= 4e-3 * largest, "{weight}: forms differ by {worst} of {largest}");
            assert!(!operators(&own).contains("D "), "{}", operators(&own));
        }
    }
    let none = model(
        "g (float[8,4] x) => (float[8,6] y) <bfloat16[4,6] w>
         { h = Cast<to = 16>(x) z = MatMul(h, w) y = Cast<to = 1>(z) }",
        5,
    );
    let (_, done) = quantized(&none, settings(DataType::Uint4, 16), Form::Qdq, &[]);
    assert!(done.left_in_float[0].reason.contains("bfloat16"), "{:?}", done.left_in_float);
}

/// Bytes of constants of a type.
fn bytes_of(model: &Model, dtype: DataType) -> usize {
    let constants = model.graph.value_ids().filter_map(|v| model.graph[v].initializer());
    constants.filter(|t| t.dtype() == dtype).map(Tensor::byte_len).sum()
}

/// What several nodes read is quantized once, by what all of them make of it.
#[test]
fn shared_weights_are_written_once() {
    let float = model(
        "g (float[4,16] x) => (float[4,300] y)
         <float[300,16] t, float[16,16] w, int64[4] i = {0, 7, 299, 3}>
         { a = MatMul(x, w) b = Relu(a) c = MatMul(b, w) r = Gather(t, i) s = Add(r, c)
           y = Gemm<transB = 1>(s, t) }",
        8,
    );
    let feeds = samples(&float, 3, 6);
    for known in [&[][..], &feeds] {
        let (made, done) = quantized(&float, settings(DataType::Uint4, 16), Form::Qdq, known);
        assert_eq!(done.layers.len(), 4);
        assert_eq!(done.tensors.len(), 2);
        // One for both products with `w`, one for rows of the table, and one for all of it.
        assert_eq!(operators(&made).matches('D').count(), 3, "{}", operators(&made));
        assert_eq!(bytes_of(&made, DataType::Uint8), 300 * 16 + 300);
        let (worst, largest) = difference(&float, &made, &feeds);
        assert!(worst < 0.3 * largest, "{worst} of {largest}");
        let (made, _) = quantized(&float, settings(DataType::Uint4, 16), Form::QLinear, known);
        let nodes = made.graph.nodes().filter(|(_, n)| n.op == "MatMulNBits");
        let mut weights: Vec<_> = nodes.map(|(_, n)| n.input(1).unwrap()).collect();
        weights.sort();
        weights.dedup();
        assert_eq!(weights.len(), 2, "of the three products two share theirs");
        // The table and the product that reads it, too.
        assert_eq!(operators(&made).matches("Reshape GatherBlockQuantized").count(), 1);
        assert_eq!(bytes_of(&made, DataType::Uint8), 300 * 16 + 300 + 16 * 8 + 16);
        let floats = made.graph.value_ids().filter_map(|v| made.graph[v].initializer());
        assert!(floats.filter(|t| t.dtype() == DataType::Float).all(|t| t.len() <= 300));
    }
}

/// Large channels of an input get finer weights, and a normalization pays for it.
#[test]
fn inputs_are_scaled_where_that_helps() {
    for (erf, helps) in [("n", true), ("Erf(n)", false)] {
        let mut float = model(
            &format!(
                "g (float[64,32] x) => (float[64,16] y)
                 <float[32] g, float[32] b, float[32,16] w>
                 {{ n = LayerNormalization(x, g, b) e = {erf} y = MatMul(e, w) }}"
            )
            .replace("e = n y = MatMul(e", "y = MatMul(n"),
            2,
        );
        let g = float.graph.value_named("g").unwrap();
        let gain: Vec<f32> = (0..32).map(|i| if i % 16 == 3 { 30.0 } else { 0.7 }).collect();
        float.graph.set_initializer(g, Some(Tensor::vector(gain)));
        let feeds = samples(&float, 5, 6);
        let error = |scale: bool, known: &[Feeds]| {
            let ways = WeightMethods { gptq: false, awq: scale };
            let (made, done) = by(&float, settings(DataType::Uint4, 32), Form::Qdq, (known, ways));
            let scaled = done.tensors.iter().filter(|t| t.method.starts_with("AWQ")).count();
            let db = |d: &Report| d.layers.iter().filter_map(|l| l.sqnr_db).sum::<f64>();
            let of = |m: &Model| outputs(m, &feeds[4]).remove(0).1.to_reals().unwrap().values;
            let pairs = of(&float).into_iter().zip(of(&made));
            (pairs.map(|(a, b)| (a - b).powi(2)).sum::<f64>(), scaled, db(&done))
        };
        let (plain, scaled) = (error(false, &feeds[..4]), error(true, &feeds[..4]));
        assert_eq!(plain.1, 0);
        match helps {
            true => {
                assert!(scaled.1 == 1 && scaled.0 < 0.9 * plain.0, "{scaled:?} {plain:?}");
                assert!(scaled.2 > plain.2 + 0.5, "{scaled:?} {plain:?}");
            }
            false => assert_eq!(scaled, plain, "Erf takes no factors"),
        }
    }
}

#[test]
fn what_stays_in_float_is_named() {
    let float = model(
        "g (float[2,8] x, float[8,2] v) => (float[2,2] y, float[1,2,4] z, float[3,2,4] u)
            <float[1,8,4] w, float[3,8,4] b>
         { y = MatMul(x, v) z = MatMul(x, w) u = MatMul(x, b) }",
        3,
    );
    let (_, done) = quantized(&float, settings(DataType::Uint4, 16), Form::QLinear, &[]);
    let reasons: Vec<&str> = done.left_in_float.iter().map(|l| l.reason.as_str()).collect();
    assert_eq!(reasons, ["both factors are computed", "its weights have more axes than its input"]);
    let refused = |settings, form| {
        let request = QuantizeRequest { settings, ..QuantizeRequest::default() };
        quantize_weights(&mut float.clone(), &request, form, None, &OwnMemory)
            .unwrap_err()
            .to_string()
    };
    assert!(refused(settings(DataType::Int16, 16), Form::Qdq).contains("int16"));
    assert!(refused(settings(DataType::Uint4, 24), Form::QLinear).contains("power of two"));
    let (found, _) = quantized(&float, settings(DataType::Uint4, 3), Form::Qdq, &[]);
    let (_, node) = found.graph.nodes().find(|(_, n)| n.is("DequantizeLinear")).unwrap();
    assert!(matches!(node.attr("block_size"), Some(Attr::Int(3))));
}

/// Experts: several matrices in one constant.
#[test]
fn stacked_matrices_have_blocks_too() {
    for (n, k) in [(6, 40), (5, 7)] {
        let float = model(
            &format!(
                "g (float[4,{k}] x) => (float[3,4,{n}] y) <float[3,{k},{n}] w>
                 {{ y = MatMul(x, w) }}"
            ),
            3,
        );
        let feeds = samples(&float, 3, 6);
        for form in [Form::Qdq, Form::QLinear] {
            for known in [&[][..], &feeds] {
                let (made, done) = quantized(&float, settings(DataType::Int4, 16), form, known);
                assert!(done.left_in_float.is_empty(), "{:?}", done.left_in_float);
                assert_eq!(operators(&made), "D MatMul");
                let (worst, largest) = difference(&float, &made, &feeds);
                assert!(worst > 0.0 && worst < 0.25 * largest, "{worst} of {largest}");
            }
        }
    }
}

/// What chooses experts stays in float, and what counts words does not.
#[test]
fn choices_stay_in_float() {
    let of = |outputs: usize| {
        let float = model(
            &format!(
                "g (float[4,16] x) => (float[4,2] y, int64[4,2] i)
                 <float[16,{outputs}] w, int64[1] k = {{2}}>
                 {{ z = MatMul(x, w) s = Softmax(z) y, i = TopK(s, k) }}"
            ),
            3,
        );
        quantized(&float, settings(DataType::Int8, 16), Form::Qdq, &[]).1
    };
    assert!(of(8).left_in_float[0].reason.starts_with("TopK chooses"));
    assert!(of(2000).left_in_float.is_empty());
}

/// Tables have 8 bits unless a node is given another type.
#[test]
fn tables_have_more_bits() {
    let float = model(
        "g (float[4,32] x) => (float[4,32] y) <float[200,32] t, int64[4] i = {0, 7, 199, 3}>
         { r = Gather(t, i) y = Add(r, x) }",
        3,
    );
    let of = |weight: DataType, overrides: Overrides| {
        let request = QuantizeRequest {
            settings: settings(weight, 32),
            overrides: BTreeMap::from([("*".to_owned(), overrides)]),
            ..QuantizeRequest::default()
        };
        let mut made = float.clone();
        made.opsets.insert(String::new(), 21);
        let done = quantize_weights(&mut made, &request, Form::Qdq, None, &OwnMemory).unwrap();
        let row = &done.tensors[0];
        (row.element_type.clone(), row.method.clone())
    };
    let text = |dtype: &str, block: usize| (dtype.to_owned(), format!("MSE in blocks of {block}"));
    assert_eq!(of(DataType::Int4, Overrides::default()), text("int8", 32));
    // Where all have 8, a table that no product reads has 16.
    let half = ("float16".to_owned(), "16 bits".to_owned());
    assert_eq!(of(DataType::Uint8, Overrides::default()), half);
    let bytes = Overrides { weight: Some(DataType::Int8), ..Overrides::default() };
    assert_eq!(of(DataType::Uint8, bytes), text("int8", 32));
    let few = Overrides { block_size: Some(16), ..Overrides::default() };
    assert_eq!(of(DataType::Int4, few), text("int4", 16));
}

/// A table of numbers that float16 has no digits for stays, with the reason.
#[test]
fn tables_of_tiny_numbers_stay() {
    for (unit, stays) in [(1f32, false), (1e-3, false), (1e-8, true)] {
        let mut float = model(
            "g (float[4,32] x) => (float[4,32] y) <float[200,32] t, int64[4] i = {0, 7, 199, 3}>
             { r = Gather(t, i) y = Add(r, x) }",
            3,
        );
        let t = float.graph.value_named("t").unwrap();
        let values = float.graph.constant(t).unwrap().as_slice::<f32>().unwrap().into_owned();
        let values = values.into_iter().map(|x| x * unit).collect();
        float.graph.set_initializer(t, Some(Tensor::from_vec([200, 32], values)));
        float.opsets.insert(String::new(), 21);
        let request = QuantizeRequest {
            settings: settings(DataType::Uint8, 32),
            ..QuantizeRequest::default()
        };
        let done = quantize_weights(&mut float, &request, Form::Qdq, None, &OwnMemory).unwrap();
        assert_eq!(done.layers.is_empty(), stays, "{unit}");
        assert!(done.layers.iter().all(|layer| layer.sqnr_db.unwrap() > 60.0), "{:?}", done.layers);
        let why = done.left_in_float.iter().map(|left| left.reason.as_str());
        assert_eq!(why.collect::<String>().contains("too small for float16"), stays, "{unit}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Each weight comes back to half a step of its block at most, if no range is clipped: ones and
    /// twos of 8 bits never are.
    #[test]
    fn weights_come_back(k in 1usize..70, n in 1usize..6, block in 1usize..40, seed: u64) {
        let graph = format!(
            "g (float[{k},{k}] x) => (float[{k},{n}] y) <float[{k},{n}] w> {{ y = MatMul(x, w) }}"
        );
        let float = model(&graph, seed);
        let mut one = vec![0f32; k * k];
        (0..k).for_each(|i| one[i * k + i] = 1.0);
        let feeds = Feeds::from([("x".to_owned(), Tensor::from_vec([k, k], one))]);
        let (made, _) = quantized(&float, settings(DataType::Uint8, block), Form::Qdq, &[]);
        let of = |m: &Model| outputs(m, &feeds).remove(0).1.to_reals().unwrap().values;
        let (w, q) = (of(&float), of(&made));
        for column in 0..n {
            for first in (0..k).step_by(block.min(k)) {
                let at = |i: usize| i * n + column;
                let part = first..k.min(first + block);
                let ends = |(lo, hi): (f64, f64), i: usize| (lo.min(w[at(i)]), hi.max(w[at(i)]));
                let (lo, hi) = part.clone().fold((0.0, 0.0), ends);
                let squares: f64 = part.clone().map(|i| (w[at(i)] - q[at(i)]).powi(2)).sum();
                // Rounding moves both ends by half a step.
                let step = (hi - lo) / 255.0;
                let bound = part.len() as f64 * (step * step + 1e-12);
                prop_assert!(squares <= bound, "{} {}", squares, bound);
            }
        }
    }
}
