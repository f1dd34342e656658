//! Graphs before and after as ONNX text, both evaluated; and the way up and back again.

use crate::{convert, table};
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Model, Tensor, ValueType, schema, text, verify};
use proptest::prelude::*;
use std::collections::BTreeMap;

fn model(opset: i64, graph: &str) -> Model {
    let graph = text::parse_graph(graph).unwrap_or_else(|d| panic!("{d}"));
    let model = Model::new(graph, 8, opset);
    let found = verify(&model, verify::VerifyLevel::Full);
    assert!(found.0.is_empty(), "{found}");
    model
}

/// Inputs by a fixed rule, between -2 and 2.
fn feeds(model: &Model) -> BTreeMap<String, Tensor> {
    let mut state = 1u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
        (state >> 40) as f32 / (1u64 << 22) as f32 - 2.0
    };
    let g = &model.graph;
    let mut made = |ty: &ValueType| {
        let dims: Vec<usize> = ty.dims().unwrap().iter().map(|d| *d as usize).collect();
        let count = dims.iter().product();
        Tensor::from_vec(dims, (0..count).map(|_| next()).collect())
    };
    let inputs = g.inputs().iter().filter(|v| g[**v].initializer().is_none());
    inputs.map(|v| (g[*v].name.clone(), made(g[*v].ty.as_ref().unwrap()))).collect()
}

fn outputs(model: &Model) -> Vec<(String, Tensor)> {
    let executor = Executor::new(model).unwrap_or_else(|d| panic!("{d}"));
    executor.run(&feeds(model), RunOptions::default()).unwrap_or_else(|d| panic!("{d}"))
}

fn assert_same(before: &Model, after: &Model, tolerance: f64) {
    for ((name, want), (other, got)) in outputs(before).iter().zip(&outputs(after)) {
        assert_eq!((name, want.dims(), want.dtype()), (other, got.dims(), got.dtype()));
        let (want, got) = (want.to_reals().unwrap(), got.to_reals().unwrap());
        for (a, b) in want.values.iter().zip(&got.values) {
            assert!((a - b).abs() <= tolerance * a.abs().max(1.0), "{name}: {a} became {b}");
        }
    }
}

/// Converts `before`, which must become `after` and compute the same.
fn check(from: i64, to: i64, before: &str, after: &str) {
    let before = model(from, before);
    let mut got = before.clone();
    convert(&mut got, to).unwrap_or_else(|d| panic!("{d}"));
    assert_eq!(got.opset(), to);
    let want = model(to, after);
    assert_eq!(bare(&got), bare(&want));
    assert_same(&before, &got, 1e-6);
}

/// The text without types of inner values, names of the graph, and what nothing reads.
fn bare(model: &Model) -> String {
    let mut graph = model.graph.clone();
    graph.name = "g".into();
    for v in graph.value_ids() {
        let is_end = graph.inputs().contains(&v) || graph.is_output(v);
        if graph[v].initializer().is_some() && graph.uses(v) == 0 {
            graph.set_initializer(v, None);
        }
        if !is_end && graph[v].initializer().is_none() {
            graph[v].ty = None;
        }
    }
    text::print_graph(&graph)
}

/// Converting must fail for `reasons`, one for each node, and change nothing.
fn check_refused(from: i64, to: i64, graph: &str, reasons: &[(&str, &str)]) {
    let before = model(from, graph);
    let mut after = before.clone();
    let found = convert(&mut after, to).unwrap_err();
    assert_eq!(text::print_model(&before), text::print_model(&after));
    let texts: Vec<String> = found.0.iter().map(ToString::to_string).collect();
    assert_eq!(texts.len(), reasons.len(), "{texts:#?}");
    for (text, (node, reason)) in texts.iter().zip(reasons) {
        assert!(
            text.starts_with("N0505") && text.contains(node) && text.contains(reason),
            "{text}"
        );
    }
}

#[test]
fn rows_name_operators_of_the_standard() {
    for row in table::rows() {
        for op in row.ops {
            let history = schema::history("", op);
            let changed = history.iter().any(|s| s.since == row.since);
            let retired = history.last().is_some_and(|s| s.deprecated && s.since < row.since);
            assert!(changed || retired, "`{op}` did not change in {}", row.since);
        }
    }
}

#[test]
fn rows_are_not_said_twice() {
    let mut seen = std::collections::HashSet::new();
    for row in table::rows() {
        for op in row.ops {
            assert!(seen.insert((*op, row.since)), "{op} {}", row.since);
        }
    }
}

#[test]
fn softmax_of_flattened_axes() {
    check(
        12,
        13,
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax(x) }",
        "g (float[2,3,4] x) => (float[2,3,4] y) {
            y_flatten = Flatten(x)
            y_softmax = Softmax<axis = 1>(y_flatten)
            y_shape = Shape(x)
            y = Reshape(y_softmax, y_shape)
        }",
    );
    check(
        12,
        13,
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 2>(x) }",
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 2>(x) }",
    );
    check(
        13,
        11,
        "g (float[2,3,4] x) => (float[2,3,4] y) { y = Softmax<axis = 0>(x) }",
        "g (float[2,3,4] x) => (float[2,3,4] y) {
            y_transpose = Transpose<perm = [2, 1, 0]>(x)
            y_softmax = Softmax<axis = 2>(y_transpose)
            y = Transpose<perm = [2, 1, 0]>(y_softmax)
        }",
    );
}

#[test]
fn softmax_of_nothing_keeps_its_shape() {
    check(
        4,
        13,
        "g (float[0,0] x) => (float[0,0] y) { y = Hardmax<axis = 0>(x) }",
        "g (float[0,0] x) => (float[0,0] y) { y = Hardmax<axis = -1>(x) }",
    );
}

#[test]
fn attributes_become_inputs_and_inputs_attributes() {
    let old = "g (float[2,3,4] x) => (float[3,1] y) {
        m = ReduceMean<axes = [2]>(x)
        s = Slice<starts = [1], ends = [2], axes = [0]>(m)
        c = Clip<max = 0.5, min = -0.5>(s)
        y = Squeeze<axes = [0]>(c)
    }";
    let new = "g (float[2,3,4] x) => (float[3,1] y)
    <int64[1] s_starts = {1}, int64[1] s_ends = {2}, int64[1] s_axes = {0},
     float c_min = {-0.5}, float c_max = {0.5}, int64[1] y_axes = {0}, int64[1] m_axes = {2}>
    {
        m = ReduceMean(x, m_axes)
        s = Slice(m, s_starts, s_ends, s_axes)
        c = Clip(s, c_min, c_max)
        y = Squeeze(c, y_axes)
    }";
    check(9, 18, old, new);
    let back = "g (float[2,3,4] x) => (float[3,1] y) {
        m = ReduceMean<axes = [2]>(x)
        s = Slice<starts = [1], ends = [2], axes = [0]>(m)
        c = Clip<min = -0.5, max = 0.5>(s)
        y = Squeeze<axes = [0]>(c)
    }";
    check(18, 9, new, back);
}

#[test]
fn upsampling_divides_coordinates() {
    check(
        9,
        13,
        "g (float[1,1,2,3] x) => (float[1,1,4,6] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}>
         { y = Upsample<mode = \"nearest\">(x, s) }",
        "g (float[1,1,2,3] x) => (float[1,1,4,6] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}>
         { y = Resize<coordinate_transformation_mode = \"asymmetric\",
             nearest_mode = \"floor\">(x, , s) }",
    );
}

#[test]
fn defaults_that_changed_are_written_out() {
    let mut m = model(1, "g (float[2] x) => (float[2] y) { y = Selu(x) }");
    convert(&mut m, 6).unwrap();
    let (_, node) = m.graph.nodes().next().unwrap();
    let attr = |name: &str| match node.attr(name) {
        Some(onnxd_ir::Attr::Float(x)) => *x,
        other => panic!("{other:?}"),
    };
    assert_eq!((attr("alpha"), attr("gamma")), (1.6732, 1.0507));
}

#[test]
fn new_operators_are_decomposed() {
    check(
        14,
        13,
        "g (float[2,3] x) => (float[2,3] y) { y = HardSwish(x) }",
        "g (float[2,3] x) => (float[2,3] y) {
            y_hard_sigmoid = HardSigmoid<alpha = 0.16666667>(x)
            y = Mul(x, y_hard_sigmoid)
        }",
    );
}

#[test]
fn every_node_that_cannot_be_said_is_named() {
    let graph = "g (float[2,3] x, int64[1] k) => (float[?,3] y, float[2,3] z, float[2,3] e) {
        [top] y, i = TopK<axis = 0>(x, k)
        [round] z = Round(x)
        [erf] e = Erf(x)
    }";
    let reasons = [
        ("round", "exists since opset 11"),
        ("top", "`k` is an attribute at opset 9, `k` is computed"),
        ("erf", "exists since opset 9"),
    ];
    check_refused(17, 7, graph, &reasons);
}

#[test]
fn an_unknown_opset_is_refused() {
    let mut m = model(17, "g (float[2] x) => (float[2] y) { y = Relu(x) }");
    assert_eq!(convert(&mut m, 99).unwrap_err().0[0].code, "N0505");
}

#[test]
fn new_nodes_come_from_the_layer_of_the_old() {
    let mut m = model(12, "g (float[2,3,4] x) => (float[2,3,4] y) { [soft] y = Softmax(x) }");
    let id = m.graph.node_ids()[0];
    let layer = onnxd_diagnostics::Layer::new("softmax", "Softmax");
    m.graph.node_mut(id).layers.push(layer.clone());
    convert(&mut m, 13).unwrap();
    assert_eq!(m.graph.node_count(), 4);
    assert!(m.graph.nodes().all(|(_, n)| n.layers == [layer.clone()]));
}

#[test]
fn what_is_new_keeps_name_and_place_of_the_old() {
    check(
        17,
        9,
        "g (float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] m) {
            [norm] y, m = LayerNormalization<axis = -1>(x, s)
        }",
        "g (float[2,3] x, float[3] s) => (float[2,3] y, float[2,1] m) <float y_constant = {0.00001}> {
            y_reduce_mean = ReduceMean<axes = [1]>(x)
            y_sub = Sub(x, y_reduce_mean)
            y_mul = Mul(y_sub, y_sub)
            y_reduce_mean_1 = ReduceMean<axes = [1]>(y_mul)
            y_add = Add(y_reduce_mean_1, y_constant)
            y_sqrt = Sqrt(y_add)
            y_div = Div(y_sub, y_sqrt)
            [norm] y = Mul(y_div, s)
            m = Identity(y_reduce_mean)
        }",
    );
}

#[test]
fn constants_around_a_branch_are_seen_in_it() {
    let graph = |split: &str, call: &str| {
        format!(
            "g (float[4,2] x, bool c) => (float[?,?] y) <int64[2] k = {{1, 3}}> {{
                {split}
                y = If(c) <then_branch = t () => (float[1,2] p) {{ p, r = {call} }},
                           else_branch = e () => (float[4,2] q) {{ q = Identity(x) }}>
            }}"
        )
    };
    let mut m = model(13, &graph("s = Identity(k)", "Split(x, s)"));
    convert(&mut m, 11).unwrap();
    let text = text::print_graph(&m.graph);
    assert!(text.contains("Split<split = [1, 3]>(x)"), "{text}");
}

#[test]
fn a_type_that_is_not_known_is_not_guessed() {
    let function = "<ir_version: 8, opset_import: [\"\" : 20, \"l\" : 1]>
        g (float16[2] x) => (float16[2] y) { y = l.F(x) }
        <domain: \"l\", opset_import: [\"\" : 20]> F (a) => (b) { t = Foo(a) b = Gelu(t) }";
    let mut m = text::parse_model(&function.replace("t = Foo(a)", "t = l.G(a)")).unwrap();
    let found = convert(&mut m, 18).unwrap_err();
    assert!(found.0[0].message.contains("the element type of `t` is not known"), "{found}");
}

/// A branch that no run takes may contradict itself; what it is made of can be converted all the same.
#[test]
fn contradicting_branches_are_converted() {
    let graph = "g (float[2,3] x) => (float[?,?] y) <bool c = {1}> {
        y = If(c) <then_branch = t () => (float[2,3] p) { p = Identity(x) },
                   else_branch = e () => (float[?,?] q) { w = Concat<axis = 0>(x, x) z = Transpose(x)
                                                          a = Add(w, z) q = HardSwish(a) }>
    }";
    let mut m = model(14, graph);
    convert(&mut m, 13).unwrap();
    assert!(text::print_graph(&m.graph).contains("HardSigmoid"));
}

/// Chains of operators that every opset from 7 on has in some form.
fn chain() -> impl Strategy<Value = (i64, i64, String)> {
    let steps = prop::sample::select(vec![
        "Softmax<axis = 1>", "Softmax<axis = 0>", "LogSoftmax<axis = 2>", "Relu",
        "Clip<min = -0.5>", "ReduceMean<axes = [1]>", "ReduceSum<axes = [2]>",
        "Pad<pads = [0, 1, 0, 0, 0, 2]>", "Slice<starts = [0], ends = [9], axes = [2]>", "Dropout",
        "Elu", "Unsqueeze<axes = [1]>", "Flatten", "Transpose",
    ]);
    let chain = prop::collection::vec(steps, 1..6);
    (7i64..10, 13i64..25, chain).prop_map(|(from, to, steps)| {
        let mut body = String::new();
        for (i, op) in steps.iter().enumerate() {
            // The rank changes on the way, so every operator starts from the input's shape.
            let (call, input) = (format!("v{i} = {op}"), format!("x{i}"));
            let before = if i == 0 { "x".to_owned() } else { format!("f{}", i - 1) };
            body += &format!("{input} = Identity({before})\n{call}({input})\n");
            body += &format!("r{i} = ReduceMax<keepdims = 0>(v{i})\nf{i} = Add(x, r{i})\n");
        }
        let last = steps.len() - 1;
        (from, to, format!("g (float[2,3,4] x) => (float[2,3,4] f{last}) {{ {body} }}"))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn up_and_down_again_computes_the_same((from, to, graph) in chain()) {
        let before = model(from, &graph);
        let mut up = before.clone();
        convert(&mut up, to).unwrap_or_else(|d| panic!("{d}"));
        assert_same(&before, &up, 1e-6);
        let mut down = up.clone();
        convert(&mut down, from).unwrap_or_else(|d| panic!("{d}"));
        assert_same(&before, &down, 1e-6);
    }
}
