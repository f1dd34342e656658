//! Ranges at run time in models of other types than float32.

use super::dynamic::dynamic;
use super::{model, operators, outputs, samples};
use crate::plan::Settings;
use crate::report::Form;
use onnxd_ir::{DataType, Graph, Model};

const TYPES: [DataType; 3] = [DataType::Float16, DataType::Bfloat16, DataType::Double];

/// Both forms, whose outputs must be of the type still, and near those of the float model.
fn close(graph: &str, dtype: DataType) -> [Model; 2] {
    let float = model(&graph.replace("T[", &format!("{dtype}[")), 7);
    [Form::Qdq, Form::QLinear].map(|form| {
        let (made, done) = dynamic(&float, Settings::default(), form);
        assert!(done.tensors.iter().all(|row| !row.name.contains("float32")), "{done:?}");
        for mut feeds in samples(&float, 3, 8) {
            for x in feeds.values_mut() {
                *x = x.to_reals().and_then(|x| x.to_tensor(dtype)).unwrap();
            }
            let (mut noise, mut signal) = (0.0, 0.0);
            for ((_, a), (_, b)) in outputs(&float, &feeds).iter().zip(&outputs(&made, &feeds)) {
                assert_eq!((a.dtype(), a.dims()), (dtype, b.dims()));
                assert_eq!(b.dtype(), dtype);
                let both = a.to_reals().unwrap().values.into_iter();
                for (a, b) in both.zip(b.to_reals().unwrap().values) {
                    noise += (a - b) * (a - b);
                    signal += a * a;
                }
            }
            assert!(noise > 0.0 && noise < 1e-3 * signal, "{dtype} {form:?}: {noise} {signal}");
        }
        made
    })
}

/// How many nodes there are of an operator, in sub-graphs too.
fn count(graph: &Graph, op: &str) -> usize {
    let one = |(_, node): (_, &onnxd_ir::Node)| {
        usize::from(node.op == op) + node.subgraphs().map(|g| count(g, op)).sum::<usize>()
    };
    graph.nodes().map(one).sum()
}

#[test]
fn products_compute_on_integers() {
    for dtype in TYPES {
        let [pairs, own] = close(
            "g (T[2,3,8] x) => (T[2,3,5] y, T[6,4] z) <T[8,5] a, T[8,4] b, T[5] c, T[4] d>
             { p = MatMul(x, a) y = Add(p, c) f = Reshape(x, s) z = Gemm<beta = 0.5>(f, b, d)
               s = Constant<value = int64[2] {6, 8}>() }",
            dtype,
        );
        for made in [&pairs, &own] {
            assert_eq!(count(&made.graph, "DynamicQuantizeLinear"), 2);
            let w = made.graph.value_named("a");
            assert!(w.is_none_or(|v| made.graph[v].initializer().is_none()), "weights stay");
        }
        assert_eq!(count(&pairs.graph, "MatMulInteger"), 2);
        assert_eq!(count(&own.graph, "MatMulIntegerToFloat"), 2);
        let [pairs, _] = close(
            "g (T[2,4,7,7] x) => (T[2,6,7,7] y, T[2,2,7,7] z) <T[6,4,3,3] w, T[6] b, T[2,4,1,1] v>
             { y = Conv<pads = [1,1,1,1]>(x, w, b) z = Conv(x, v) }",
            dtype,
        );
        // What both read is cast once.
        assert_eq!((count(&pairs.graph, "ConvInteger"), count(&pairs.graph, "Cast")), (2, 5));
    }
}

#[test]
fn layers_of_onnx_runtime_and_tables() {
    let graph = "g (T[5,2,4] x) => (T[5,1,2,3] y, T[1,2,3] h)
         <T[1,12,4] w, T[1,12,3] r, T[1,24] b, T[1,2,3] h0, int32[2] n = {5, 3}>
         { y, h = LSTM<hidden_size = 3>(x, w, r, b, n, h0) }";
    // The float form stays without operators of ONNX Runtime.
    let float = model(&graph.replace("T[", "double["), 7);
    let (own, done) = dynamic(&float, Settings::default(), Form::QLinear);
    assert!(done.left_in_float.is_empty(), "{done:?}");
    assert_eq!(count(&own.graph, "Cast"), 3, "{}", operators(&own));
    assert_eq!(count(&own.graph, "DynamicQuantizeLSTM"), 1);
    for dtype in TYPES {
        let [made, _] = close(
            "g (T[2,3] x) => (T[4,64] z) <T[80,64] t, int64[4] i = {0, 79, -1, 3}>
             { z0 = Gather(t, i) w = ReduceMax<keepdims = 0>(x) z = Mul(z0, w) }",
            dtype,
        );
        assert!(operators(&made).contains("Gather D Cast"), "{}", operators(&made));
    }
}

#[test]
fn bodies_and_what_stays() {
    let float = model(
        "g (float16[1,2,4,4] x, bool c) => (float16[1,2,4,4] y, float16[1,3,6,6] z)
         <float16[2,3,3,3] w, float16[4,4] v>
         { z = ConvTranspose(x, w) h = MatMul(x, v)
           y = If<then_branch = t () => (float16[1,2,4,4] a) { a = MatMul(h, v) },
                  else_branch = e () => (float16[1,2,4,4] b) { b = Relu(x) }>(c) }",
        3,
    );
    let (made, done) = dynamic(&float, Settings::default(), Form::Qdq);
    assert!(operators(&made).contains("ConvTranspose"));
    assert_eq!(done.left_in_float[0].reason, "there is no ConvTranspose on integers");
    assert_eq!(count(&made.graph, "Cast"), 2 * 3, "what stays has no casts");
    assert_eq!((done.layers.len(), count(&made.graph, "MatMulInteger")), (2, 2));
}
