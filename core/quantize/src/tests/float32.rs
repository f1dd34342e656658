//! Models of other types than float32 as models of float32.

use super::{Feeds, model, operators, outputs, samples};
use crate::graph::to_float32;
use onnxd_ir::{DataType, Model, Tensor, VerifyLevel, text, verify};

const TYPES: [DataType; 2] = [DataType::Bfloat16, DataType::Double];

/// The model in float32; inputs, outputs and what it computes must stay.
fn single(graph: &str, dtype: DataType) -> Model {
    let before = model(&graph.replace("T[", &format!("{dtype}[")), 7);
    let mut after = before.clone();
    assert_eq!(to_float32(&mut after).unwrap(), [dtype], "{}", text::print_model(&before));
    let found = verify(&after, VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}\n{}", text::print_model(&after));
    let ends = |model: &Model| -> Vec<(String, Option<DataType>)> {
        let g = &model.graph;
        let all = g.inputs().iter().chain(g.outputs());
        all.map(|v| (g[*v].name.clone(), g[*v].dtype())).collect()
    };
    assert_eq!(ends(&before), ends(&after));
    let near = if dtype == DataType::Double { 1e-6 } else { 3e-2 };
    for mut feeds in samples(&before, 3, 8) {
        to(&mut feeds, dtype);
        for ((name, a), (_, b)) in outputs(&before, &feeds).iter().zip(&outputs(&after, &feeds)) {
            assert_eq!((a.dtype(), a.dims()), (b.dtype(), b.dims()), "{name}");
            let (a, b) = (a.to_reals().unwrap(), b.to_reals().unwrap());
            let far =
                a.values.iter().zip(&b.values).any(|(a, b)| (a - b).abs() > near * (1.0 + a.abs()));
            assert!(!far, "{name}: {a:?} {b:?}");
        }
    }
    after
}

fn to(feeds: &mut Feeds, dtype: DataType) {
    for x in feeds.values_mut().filter(|x| x.dtype() == DataType::Float) {
        *x = x.to_reals().and_then(|x| x.to_tensor(dtype)).unwrap();
    }
}

fn has(model: &Model, dtype: DataType) -> usize {
    let graph = &model.graph;
    let constants = graph.value_ids().filter_map(|v| graph.constant(v));
    constants.filter(|data| data.dtype() == dtype).count()
}

#[test]
fn what_is_inside_is_float32() {
    for dtype in TYPES {
        let number = dtype.number();
        let found = single(
            &format!(
                "g (T[2,3,8] x) => (T[2,3,5] y, T[2,3,8] x, T[2,3,8] z, T[3] k)
                 <T[8,5] a, T[5] c>
                 {{ p = MatMul(x, a) q = Add(p, c) y = Relu(q) n = Neg(x) f = Cast<to = 1>(n)
                    b = Cast<to = {number}>(f) z = Abs(b) i = Shape(x) k = Cast<to = {number}>(i) }}"
            ),
            dtype,
        );
        assert_eq!(has(&found, dtype), 0, "{}", text::print_model(&found));
        let casts = operators(&found).matches("Cast").count();
        assert_eq!(casts, 5, "in front, `k`, and behind three outputs: {}", operators(&found));
    }
}

#[test]
fn bodies_and_attributes() {
    for dtype in TYPES {
        let number = dtype.number();
        let found = single(
            &format!(
                "g (T[2,4] x) => (T[2,4] y, T[2,4] w2) <T[4,4] w = {{1.5, 0.0, 0.25, -0.5, 1.0, 0.5, 0.0, 0.0,
                             -0.75, 1.0, 1.0, 0.0, 0.5, 0.5, -1.0, -0.25}}, T[2,4] w2>
                 {{ c = Constant<value = bool {{1}}>() m = Constant<value = int64 {{3}}>()
                    e = EyeLike<dtype = {number}>(n2) n2 = ConstantOfShape(s) s = Constant<value = int64[2] {{4, 4}}>()
                    h = MatMul(x, e) h2 = Add(h, w2)
                    y = Loop(m, c, h2) <body = b (int64 i, bool go, T[2,4] a) => (bool on, T[2,4] z)
                        {{ on = Identity(go) p = MatMul(a, w) z = Tanh(p) }}> }}"
            ),
            dtype,
        );
        let all = has(&found, dtype);
        assert_eq!(all, 1, "an output that is a constant: {}", text::print_model(&found));
    }
}

#[test]
fn limits_stay_limits() {
    let graph = "g (double[2,2] x) => (double[2,2] y)
        <double[2,2] w = {1, 2, 1e-200, -1e300}, double low = {-1.7976931348623157e308}, double e = {1e-100}>
        { p = MatMul(x, w) q = Clip(p, low) r = Sub(q, q) s = Add(r, e) y = Div(r, s) }";
    let found = single(&graph.replace("-1e300", "-3"), DataType::Double);
    let v = found.graph.value_named("low").unwrap();
    assert_eq!(found.graph.constant(v).unwrap(), &Tensor::scalar(f32::MIN));
    let v = found.graph.value_named("e").unwrap();
    assert_eq!(found.graph.constant(v).unwrap(), &Tensor::scalar(f32::MIN_POSITIVE));
}

#[test]
fn what_has_no_form_in_float32_stays() {
    let why = |graph: &str| {
        let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
        let before = text::print_model(&model);
        let found = to_float32(&mut model);
        assert_eq!(before, text::print_model(&model));
        found.map(|types| types.len())
    };
    let w = "<double[2,2] w = {1, 2, 3, 4}>";
    let foreign =
        format!("g (double[2,2] x) => (double[2,2] y) {w} {{ p = MatMul(x, w) y = else.Op(p) }}");
    assert_eq!(why(&foreign).unwrap_err(), "`Op` is no operator that is known");
    let list = format!(
        "g (double[2,2] x) => (seq(double[2,2]) y) {w} {{ p = MatMul(x, w) y = SequenceConstruct(p) }}"
    );
    assert_eq!(why(&list).unwrap_err(), "its output `y` is seq(double[2,2])");
    assert_eq!(why("g (double[2,2] x) => (double[2,2] y) { y = MatMul(x, x) }"), Ok(0));
    assert_eq!(why("g (float[2,2] x) => (float[2,2] y) { y = MatMul(x, x) }"), Ok(0));
}
