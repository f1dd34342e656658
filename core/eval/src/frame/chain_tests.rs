use crate::{Executor, RunOptions};
use onnxd_ir::Tensor;
use onnxd_ir::text::parse_model;
use std::collections::BTreeMap;

/// The graph gives the same bits where an observer wants all values and where nothing is in the way of chains, which
/// take less memory.
fn agrees(graph: &str, channels: usize, winograd: bool) {
    let text = format!(r#"<ir_version: 8, opset_import: ["" : 20]> {graph}"#);
    let model = parse_model(&text).unwrap();
    let fill = |by: usize| {
        let mut values: Vec<f32> =
            (0..2 * channels * 45 * 40).map(|i| (i * by % 1009) as f32 / 250.0 - 2.0).collect();
        values[7..10].copy_from_slice(&[f32::NAN, f32::INFINITY, -0.0]);
        Tensor::from_vec(
            vec![2, channels, 45, 40],
            if winograd { fill_finite(values) } else { values },
        )
    };
    let feeds = BTreeMap::from([("x".to_owned(), fill(37)), ("z".to_owned(), fill(53))]);
    let [apart, together] = [0, 1].map(|_| Executor::new(&model).unwrap());
    let mut seen = 0;
    let mut all = |_: &str, _: &Tensor| seen += 1;
    let options = RunOptions { winograd, observer: Some(&mut all), ..RunOptions::default() };
    let wanted = apart.run(&feeds, options).unwrap();
    let found = together.run(&feeds, RunOptions { winograd, ..RunOptions::default() }).unwrap();
    let bits = |list: &[(String, Tensor)]| -> Vec<u32> {
        let floats = list[0].1.as_slice::<f32>().unwrap();
        floats.iter().map(|v| if v.is_nan() { u32::MAX } else { v.to_bits() }).collect()
    };
    assert!(bits(&wanted) == bits(&found), "{graph}");
    assert!(seen > 3 && together.peak() < apart.peak(), "{graph} was not computed together");
}

fn fill_finite(values: Vec<f32>) -> Vec<f32> {
    values.into_iter().map(|v| if v.is_finite() { v } else { 0.5 }).collect()
}

#[test]
fn operators_on_elements_change_no_bit() {
    let header = "g (float[2, 3, 45, 40] x, float[2, 3, 45, 40] z) => (float[2, 3, 45, 40] y)";
    for body in [
        "{ s = Sigmoid(x) y = Mul(x, s) }",
        "<float r = {1.4142135}, float one = {1}, float[1] half = {0.5}> {
            a = Div(x, r) e = Erf(a) p = Add(e, one) m = Mul(x, p) y = Mul(m, half) }",
        "<float[3, 1, 1] c = {0.5, -1, 3}, float[40] row = {", // the row follows
        "<float low = {-1}, float high = {2}, float three = {3}> {
            a = Tanh(x) b = Gelu<approximate = \"tanh\">(a) d = Pow(b, three) e = Clip(d, low, high)
            f = Sub(z, e) h = Exp(f) i = Sub(h, z) y = Div(z, i) }",
    ] {
        let row: Vec<String> = (0..40).map(|i| (i as f32 / 9.0 - 2.0).to_string()).collect();
        let rest = format!(
            "{}}}, float[3] s = {{1, 2, 0.5}}, float[3] b = {{0, 1, -1}}, float[3] m = {{0.1, 0.2, 0.3}},
            float[3] v = {{1, 2, 3}}> {{ a = Add(row, x) d = Sub(c, a) e = Mul(d, c) f = Div(e, row)
            h = BatchNormalization(f, s, b, m, v) i = HardSwish(h) y = Add(z, i) }}",
            row.join(", ")
        );
        let body = if body.ends_with('{') && body.contains("row") {
            body.to_owned() + &rest
        } else {
            body.to_owned()
        };
        agrees(&format!("{header} {body}"), 3, false);
    }
}

#[test]
fn what_is_added_to_a_convolution_changes_no_bit() {
    let weights = |count: usize| {
        let all: Vec<String> =
            (0..count).map(|i| format!("{:?}", (i * 7 % 11) as f32 / 9.0 - 0.5)).collect();
        all.join(", ")
    };
    let silu = "{ a = Conv<pads = [1, 1, 1, 1], GROUP>(x, w) s = Sigmoid(a) d = Mul(s, a)
        y = Mul(d, e) }";
    let body =
        "{ t = Relu(z) a = Conv<pads = [1, 1, 1, 1], GROUP>(x, w) b = Add(t, a) c = Sigmoid(b)
        d = Mul(c, e) y = Relu(d) }";
    for ((channels, group), body) in [(4, 1), (4, 2), (4, 4), (16, 1)]
        .into_iter()
        .flat_map(|sizes| [(sizes, body), (sizes, silu)])
    {
        let per = channels / group;
        let dims = format!("float[2, {channels}, 45, 40]");
        let factors = weights(channels);
        let graph = format!(
            "g ({dims} x, {dims} z) => ({dims} y) <float[{channels}, {per}, 3, 3] w = {{{}}},
            float[{channels}, 1, 1] e = {{{factors}}}> {}",
            weights(channels * per * 9),
            body.replace("GROUP", &format!("group = {group}"))
        );
        agrees(&graph, channels, false);
        agrees(&graph, channels, true);
    }
}
