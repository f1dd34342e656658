use super::*;
use crate::{Attr, DataType, Graph, Model, Node, Origin, Tensor};
use half::f16;
use proptest::prelude::*;

/// Text that exercises the whole grammar, as a person would write it.
const EVERYTHING: &str = r#"
<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1, "local" : 1], producer_name: "x",
 producer_version: "1.0", domain: "org.x", model_version: 3, doc_string: "a \"b\" \\ c",
 metadata_props: ["k" : "v", "l" : ""]>
g (float[N,3] x, float["a b",?] q, float[] r, float s0 = {2}, z0, bool cond, "float",
   seq(float[2]) s1, map(int64, optional(float)) m, sparse_tensor(float[2,3]) sp, opaque(a, b) o)
   => (float[N] y, tt, x)
<float[2] w = {1, 2.5e-30}, float sc = {3}, int64[2,2] i = {1, -2, 3, -9223372036854775808},
 uint8[2] u = {1, 255}, bool[2] b = {1, 0}, float16[2] h = {15360, 1.5}, double[2] d = {1, -0.0},
 string[2] st = {"a", "b\"c\\"}, float[3] special = {-inf, nan, inf}, float[0,2] none = {},
 int4[3] packed = {33, 3}, complex64[1] c64 = {1.5, -2}, uint64[1] big = {18446744073709551615},
 float v, float8e4m3fn[2] f8 = {1, 200}, bfloat16[1] bf = {16256}>
{
  # a comment
  [n1] y = Op<a = 1, b = 1.0, c = "s", d = [1, 2], e = [1.0, -2.5], f = ["a", ""],
              g : float = 1, e1 : ints = [], e2 : strings = [], inf = -inf>(x, w, , "w.1")
  v, "", "a.1" = com.microsoft.Foo:over<t = float[2] {1, 2}, ts = [float[1] {1}, int64 {2}],
              ty = float[N], tys = [seq(float), float]>()
  later = Relu(tt)
  tt = If(cond)<then_branch = then () => (float[2] y3) <float[1] l = {1}> {
         y3 = Add(x, l)
       }, else_branch = other () => (y4) {
         y4 = Loop<body = body (int64 it, bool go) => (go2, deep) {
           go2 = Identity(go)
           deep = Mul(x, w)
         }>("", cond)
       }>
  = Sink(later, "a.1", h, u, b, d, st)
}
<domain: "local", overload: "o", opset_import: ["" : 17], doc_string: "f">
f <al, be : float = 1.0> (X, float[2] X2) => (Y) { Y = Op<a = @al, b : float = @be>(X, X2) }
"#;

fn fixed_point(model: &Model) -> Model {
    let text = print_model(model);
    let again = parse_model(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    assert_eq!(print_model(&again), text);
    again
}

fn error(text: &str) -> String {
    parse_model(text).unwrap_err().into_finding().message
}

#[test]
fn everything_survives() {
    let model = parse_model(EVERYTHING).unwrap();
    let again = fixed_point(&model);
    let (a, b) = (&model.graph, &again.graph);
    for v in a.value_ids() {
        let w = b.value_named(&a[v].name).unwrap();
        assert_eq!(a[v].initializer(), b[w].initializer(), "{}", a[v].name);
        assert_eq!(a[v].ty, b[w].ty, "{}", a[v].name);
    }
    assert_eq!(model.metadata, again.metadata);
    assert_eq!(model.opsets, again.opsets);
    assert_eq!(again.functions[0].attributes, ["al"]);
    assert_eq!(again.functions[0].overload, "o");
}

#[test]
fn names_in_sub_graphs_are_captures() {
    let model = parse_model(EVERYTHING).unwrap();
    let g = &model.graph;
    let x = g.value_named("x").unwrap();
    let tt = g.producer(g.value_named("tt").unwrap()).unwrap();
    let branches: Vec<&Graph> = g[tt].subgraphs().collect();
    assert_eq!(branches[0].captures().map(|(_, o)| o).collect::<Vec<_>>(), [x]);
    // Through two levels: the inner graph captures from the middle one.
    let middle = branches[1];
    let inner = middle.nodes().next().unwrap().1.subgraphs().next().unwrap();
    for (own, outer) in inner.captures() {
        assert_eq!(inner[own].name, middle[outer].name);
        assert!(matches!(middle[outer].origin(), Origin::Captured(_)));
    }
    assert_eq!(inner.captures().count(), 2);
}

#[test]
fn float16_by_pattern_and_by_value() {
    let g = parse_graph("g () => () <float16[3] h = {15360, 1.5, -2.0}> {}").unwrap();
    let h = g[g.value_named("h").unwrap()].initializer().unwrap();
    let expected = [1.0, 1.5, -2.0].map(f16::from_f32);
    assert_eq!(h.as_slice::<f16>().unwrap().as_ref(), expected);
}

#[test]
fn short_form() {
    let text = "g (float x) => (float y) {\n  y = Clip<min = -0.0, max = 6.0>(x)\n}\n";
    assert_eq!(print_graph(&parse_graph(text).unwrap()), text);
}

#[test]
fn captured_values_print_under_their_outer_name() {
    let text = "g (c, x, new) => (y) { y = If(c)<then_branch = t () => (z) { z = Abs(x) }> }";
    let mut g = parse_graph(text).unwrap();
    let [x, new] = ["x", "new"].map(|n| g.value_named(n).unwrap());
    g.replace_uses(x, new);
    g.rename(x, "old");
    g.rename(new, "z");
    let printed = print_graph(&g);
    assert!(printed.contains("z_1 = Abs(z)"), "{printed}");
    assert_eq!(print_graph(&parse_graph(&printed).unwrap()), printed);
}

#[test]
fn abbreviated_text_says_so() {
    let g = parse_graph("g () => () <float[4] w = {1, 2, 3, 4}, int32[2] k = {5, 6}> {}").unwrap();
    let options = PrintOptions { elements_max: Some(3), ..PrintOptions::default() };
    let text = print_graph_with(&g, &options);
    assert!(text.contains("w = {1.0, 2.0, 3.0, ...}"), "{text}");
    let options = PrintOptions { digest: Some(|t| format!("of {}", t.len())), ..options };
    let text = print_graph_with(&g, &options);
    assert!(text.contains("w = {1.0, 2.0, 3.0, ... of 4}"), "{text}");
    assert!(text.contains("k = {5, 6}"), "{text}");
    assert!(error(&text).contains("abbreviated"));
}

#[test]
fn errors_say_what_and_where() {
    let cases = [
        ("g (x) -> (y) {}", "line 1, column 7: expected `=>`, found `-`"),
        ("g () => (y) {\n y = A() y = B()\n}", "line 2, column 10: `y` is defined twice"),
        ("g () => () <float[2] w = {1}> {}", "does not have the 2 elements of `float[2]`"),
        ("g () => () <int4[3] w = {1,2,3}> {}", "3 elements, packed into bytes, of `int4[3]`"),
        ("g () => () <float[N] w = {1}> {}", "needs an element type and a known shape"),
        ("g () => () <int8[1] w = {128}> {}", "128 is out of range"),
        ("g () => () <bool[1] w = {2}> {}", "a bool is 0 or 1, not 2"),
        ("g () => () <float[1] w = {1e39}> {}", "1e39 is out of range"),
        ("g () => () <float[9999999999,9999999999] w = {1}> {}", "too many elements"),
        ("g () => () <float[1] w = [\"location\" : \"w\"]> {}", "external data"),
        ("g () => () { y = A<a = []>() }", "an empty list needs a type"),
        ("g () => () { y = A<a : int = 1.5>() }", "not of type `int`"),
        ("g () => () { y = A<a = [1, \"b\"]>() }", "items of the list do not match"),
        ("g () => () { y = A<a = 1, a = 2>() }", "attribute `a` is given twice"),
        ("g () => () { y = A(", "expected a name, found the end of the text"),
        ("<ir: 8> g () => () {}", "`ir` is not known here"),
        ("g () => () {} x", "expected `(`, found the end"),
    ];
    for (text, expected) in cases {
        assert!(error(text).contains(expected), "{text}: {}", error(text));
    }
}

#[test]
fn nesting_is_limited() {
    let deep = format!("g ({}float{} x) => () {{}}", "seq(".repeat(5000), ")".repeat(5000));
    assert!(error(&deep).contains("types are nested"));
    let open = "y = If<b = g () => () { ".repeat(5000);
    assert!(error(&format!("g () => () {{ {open}")).contains("sub-graphs are nested"));
    let open = "y = If<b = \"g\" () => () { ".repeat(5000);
    assert!(error(&format!("g () => () {{ {open}")).contains("nested"));
}

#[test]
fn inlining_renames_binds_and_captures() {
    let mut g = parse_graph("g (x, mul_t) => () { y = Relu(x) }").unwrap();
    let y = g.value_named("y").unwrap();
    let body = "double (float a, float c) => (r, t, a) <float two = {2}> {
        t = Mul(a, two)
        r = If(c)<then_branch = b () => (u) { u = Add(a, t) }>
    }";
    let bindings = [("a", y), ("c", y)];
    let outputs = inline_text(&mut g, "mul", body, &bindings).unwrap();
    assert_eq!(outputs[2], y);
    let names: Vec<&str> = outputs.iter().map(|v| g[*v].name.as_str()).collect();
    assert_eq!(names, ["mul_r", "mul_t_1", "y"]);
    let text = print_graph(&g);
    assert!(text.contains("mul_t_1 = Mul(y, mul_two)"), "{text}");
    assert!(text.contains("mul_u = Add(y, mul_t_1)"), "{text}");
}

#[test]
fn inlining_needs_every_input() {
    let mut g = parse_graph("g (x) => () {}").unwrap();
    let x = g.value_named("x").unwrap();
    let body = "b (input) => (o) { o = Neg(input) }";
    let unbound = inline_text(&mut g, "p", body, &[]).unwrap_err();
    assert!(unbound.message.contains("nothing defines `input`"), "{unbound}");
    let unknown = inline_text(&mut g, "p", body, &[("inputs", x)]).unwrap_err();
    assert!(unknown.message.contains("no input `inputs` (`input`?)"), "{unknown}");
    let open = inline_text(&mut g, "p", "b () => (o) { o = Neg(missing) }", &[]).unwrap_err();
    assert!(open.message.contains("nothing defines `missing`"), "{open}");
    assert_eq!(g.node_count(), 0);
}

#[test]
fn plain_identifiers() {
    assert_eq!(plain_identifier("model/conv.1:0"), "model_conv_1_0");
    assert_eq!(plain_identifier("1x"), "_1x");
    assert!(is_plain_identifier("_a1") && !is_plain_identifier("1a") && !is_plain_identifier(""));
}

fn numbers() -> impl Strategy<Value = Tensor> {
    prop_oneof![
        prop::collection::vec(any::<f32>(), 0..5).prop_map(Tensor::vector),
        prop::collection::vec(any::<f64>(), 0..5).prop_map(Tensor::vector),
        prop::collection::vec(any::<i64>(), 0..5).prop_map(Tensor::vector),
        prop::collection::vec(any::<u64>(), 0..5).prop_map(Tensor::vector),
        prop::collection::vec(any::<i8>(), 0..5).prop_map(Tensor::vector),
        prop::collection::vec(any::<u16>(), 0..5)
            .prop_map(|v| Tensor::vector(v.into_iter().map(f16::from_bits).collect())),
        prop::collection::vec(any::<u8>(), 3)
            .prop_map(|v| { Tensor::new(DataType::Int4, vec![2, 3], v.into()).unwrap() }),
    ]
}

fn attribute() -> impl Strategy<Value = Attr> {
    prop_oneof![
        any::<i64>().prop_map(Attr::Int),
        any::<f32>().prop_map(Attr::Float),
        ".{0,8}".prop_map(|s| Attr::Str(s.into())),
        prop::collection::vec(any::<i64>(), 0..4).prop_map(Attr::Ints),
        prop::collection::vec(any::<f32>(), 0..4).prop_map(Attr::Floats),
        prop::collection::vec(".{0,4}", 0..3)
            .prop_map(|v| Attr::Strs(v.into_iter().map(Into::into).collect())),
        numbers().prop_map(Attr::Tensor),
    ]
}

fn quiet_nans(attr: &Attr) -> String {
    // Text keeps the sign of a NaN, not its payload; Debug shows neither.
    match attr {
        Attr::Tensor(t) => format!("{t:?} {:?}", t.to_reals()),
        other => format!("{other:?}"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn any_graph_survives(
        names in prop::collection::vec("[a-z0-9_. \"\\\\é]{1,6}", 3),
        attrs in prop::collection::vec(("[a-zA-Z_]{1,5}[0-9]", attribute()), 0..4),
        weights in prop::collection::vec(numbers(), 0..3),
    ) {
        let mut g = Graph::new(names[0].clone());
        let x = g.add_input(&names[1], None);
        let mut node = Node::new("Op", [x], []);
        for (i, weight) in weights.iter().enumerate() {
            let w = g.add_initializer(&format!("w {i}"), weight.clone());
            node.inputs.extend([None, Some(w)]);
        }
        let y = g.add_value(&names[2], None);
        node.outputs.push(Some(y));
        node.name = names[0].clone();
        for (i, (name, attr)) in attrs.into_iter().enumerate() {
            node.attrs.push((format!("{name}_{i}"), attr));
        }
        let node = g.add_node(node);
        g.mark_output(y);

        let text = print_graph(&g);
        let again = parse_graph(&text).map_err(|e| TestCaseError::fail(format!("{e}\n{text}")))?;
        prop_assert_eq!(print_graph(&again), text);
        let (_, parsed) = again.nodes().next().unwrap();
        for ((_, a), (_, b)) in g[node].attrs.iter().zip(&parsed.attrs) {
            prop_assert_eq!(quiet_nans(a), quiet_nans(b));
        }
        for v in g.value_ids() {
            let w = again.value_named(&g[v].name).unwrap();
            let [a, b] = [&g[v], &again[w]].map(|x| x.initializer());
            let reals = a.and_then(Tensor::to_reals);
            if !reals.is_some_and(|r| r.values.iter().any(|x| x.is_nan())) {
                prop_assert_eq!(a, b);
            }
        }
    }

    #[test]
    fn arbitrary_text_never_panics(text in "[a-z(){}<>=,:\\[\\]@\"\\\\.0-9 #-]{0,60}") {
        let _ = parse_model(&text);
        let _ = parse_graph(&format!("g () => () {{ y = A<{text}>() }}"));
    }
}
