use super::*;
use crate::ops::Relu;
use crate::text::{parse_graph, parse_model};
use crate::{Attr, Tensor};

const SOUND: &str = r#"<ir_version: 8, opset_import: ["" : 17, "local" : 1, "com.microsoft" : 1]>
g (float[N,3] x, bool c) => (float[N,3] y, float[] z)
<float[3] w = {1, 2, 3}>
{
  a = Add(x, w)
  y = If<then_branch = t () => (r) { r = Relu(a) }, else_branch = e () => (r2) { r2 = Neg(w) }>(c)
  m = com.microsoft.Whatever<anything = [1.0]>(a)
  z = local.f<k = 2>(m)
}
<domain: "local", opset_import: ["" : 17]>
f <k> (v) => (u) { u = Flatten<axis : int = @k>(v) }"#;

fn messages(text: &str) -> Vec<String> {
    let found = verify(&parse_model(text).unwrap(), VerifyLevel::Full);
    found.0.iter().map(ToString::to_string).collect()
}

#[test]
fn a_sound_model() {
    assert_eq!(messages(SOUND), Vec::<String>::new());
}

/// Operators of ONNX Runtime: unknown ones pass, known ones must have what the runtime demands.
#[test]
fn a_domain_that_is_known_in_part() {
    let model = |node: &str| {
        format!(
            r#"<ir_version: 8, opset_import: ["" : 17, "com.microsoft" : 1]>
            g (uint8[2] x, float s, uint8 z, float[2] f) => (float[2] f) {{ {node} }}"#
        )
    };
    for sound in [
        "y = com.microsoft.QLinearAdd(x, s, z, x, s, z, s)",
        "y = com.microsoft.QLinearAdd(x, s, \"\", x, s, \"\", s, z)",
        "y = com.microsoft.Gelu<later = 1>(f, f)", "y = com.microsoft.Unheard(f)",
        "y = SimplifiedLayerNormalization(f, f)",
    ] {
        assert_eq!(messages(&model(sound)), Vec::<String>::new(), "{sound}");
    }
    for (wrong, message) in [
        ("y = com.microsoft.QLinearAdd(x, s, z, x)", "`QLinearAdd` has 7 to 8 inputs"),
        ("y = com.microsoft.QLinearSigmoid(f, s, z, s, z)", "`f` (X) is float[2]"),
        ("y = com.microsoft.MatMulNBits<K = 2, N = 2>(f, x, f)", "`block_size` is missing"),
    ] {
        let found = messages(&model(wrong));
        assert!(found.iter().any(|f| f.contains(message)), "{wrong}: {found:?}");
    }
}

#[test]
fn everything_wrong_is_found_at_once() {
    let text = r#"<ir_version: 8, opset_import: ["" : 11, "ai.onnx.ml" : 99]>
        g (float[2] x, untyped) => (float y, float missing) {
          a = Relu(nowhere)
          b = Rely(x)
          c = LayerNormalization(x, x)
          d = Add(x)
          e = Concat(x, x)
          [named] f = Softmax<axs = 1, axis = 1.0>(x)
          h = Upsample(x, x)
          i = other.Op(x)
          j = Add(x, y)
          k = And(x, x)
          l = Cast<to = @t>(x)
          m = If<then_branch = t (q) => () {}, else_branch = e () => (x) {}>(k)
          n = Clip("", x)
          o = ai.onnx.ml.Scaler(x)
          y = Cast<to = 7>(p)
          p = Neg(y)
        }"#;
    let found = messages(text);
    let expected = [
        "Nothing defines `nowhere`, which is read here. [layer Relu -> a (Relu)]",
        "Nothing defines `missing`, which is listed as an output.",
        "Nodes depend on each other: ",
        "`Rely` is no operator of the domain \"\"; `Relu` is one. [layer Rely -> b (Rely)]",
        "`LayerNormalization` exists since opset 17, the model imports 11.",
        "`Add` has 2 inputs, the node has 1.",
        "The attribute `axis` is missing. [layer Concat -> e (Concat)]",
        "`Softmax` has no attribute `axs` (`axis`?). [layer named (Softmax)]",
        "The attribute `axis` must be of type int, it is of type float.",
        "`Upsample` must not be used in opset 11.",
        "The model uses the domain \"other\" but imports none.",
        "`x` (A) is float[2]; opset 7 allows bool.",
        "The attribute `to` refers to `@t`, which no enclosing function has.",
        "The sub-graph `then_branch` has 1 inputs and 0 outputs",
        "The input `input` is missing. [layer Clip -> n (Clip)]",
        "N0504 unsupported: The model imports version 99 of the domain \"ai.onnx.ml\"",
        "The input `untyped` has no type.",
    ];
    for message in expected {
        let hit = found.iter().any(|f| f.contains(message));
        assert!(hit, "{message}\n--- found:\n{}", found.join("\n"));
    }
}

#[test]
fn types_that_must_agree() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        g (float[2] x, double[2] d) => (float y) { y = Add(x, d) }"#;
    let found = messages(text);
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(found[0].contains("`A` and `B` must have the same type; they are float[2] and double"));
}

#[test]
fn functions_do_not_recurse() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
        g (float x) => (float y) { y = local.f(x, x) }
        <domain: "local", opset_import: ["local" : 1]> f (a) => (b) { b = local.h(a) }
        <domain: "local", opset_import: ["local" : 1]> h (a) => (b) { b = local.f(a) }
        <domain: "local", opset_import: ["local" : 1]> h (a) => (a) {}"#;
    let found = messages(text);
    assert!(found[0].contains("`h` is defined twice"), "{found:?}");
    assert!(messages(&text[..text.rfind('<').unwrap()])[0].contains("`f` applies itself"));
    assert!(found.iter().any(|f| f.contains("The function has 1 inputs, the node 2.")));
}

#[test]
fn initializers_agree_with_their_declaration() {
    let mut g = parse_graph("g (float[2] w = {1, 2}) => () {}").unwrap();
    assert!(verify_structure(&g).0.is_empty());
    let w = g.value_named("w").unwrap();
    g.set_initializer(w, Some(Tensor::vector(vec![1.0f32; 3])));
    let found = verify_structure(&g);
    assert!(found.0[0].message.contains("declared as float[2], its data are float[3]"), "{found}");
}

#[test]
fn a_broken_graph_is_a_defect() {
    let mut g = parse_graph("g (x) => (y) { a = Relu(x) y = Neg(a) }").unwrap();
    assert!(verify_structure(&g).0.is_empty());
    let [x, a] = ["x", "a"].map(|n| g.value_named(n).unwrap());

    let mut broken = g.clone();
    let neg = broken.readers(a)[0];
    broken.node_mut(neg).inputs[0] = Some(x);
    let found = verify_structure(&broken);
    assert_eq!(found.0[0].code, "N0901");
    assert!(found.to_string().contains("The readers of `x` are not those recorded"), "{found}");

    let mut broken = g.clone();
    broken[a].name = "x".to_owned();
    assert!(verify_structure(&broken).to_string().contains("`x` is used for several values"));

    let mut broken = g.clone();
    broken.node_mut(neg).inputs[0] = Some(crate::ValueId(99));
    assert!(verify_structure(&broken).to_string().contains("a value of another graph"));

    let mut inner = Graph::new("inner");
    inner.capture(crate::ValueId(99), "far", None);
    let far = g.add("far", Relu::new(x));
    let node = g.producer(far).unwrap();
    g.node_mut(node).attrs.push(("body".into(), Attr::Graph(Box::new(inner))));
    let found = verify_structure(&g).to_string();
    assert!(found.contains("a value of another graph"), "{found}");
}

#[test]
fn findings_are_bounded() {
    let mut g = Graph::new("g");
    for i in 0..1000 {
        let lost = g.add_value(&format!("lost{i}"), None);
        g.add("y", Relu::new(lost));
    }
    assert_eq!(verify_structure(&g).0.len(), FINDINGS_MAX);
}

#[test]
fn deep_nesting_is_reported() {
    let mut g = Graph::new("g");
    for _ in 0..NESTING_MAX + 2 {
        let mut outer = Graph::new("g");
        outer.add_node(crate::Node::new("If", [], []).with("b", Attr::Graph(Box::new(g))));
        g = outer;
    }
    assert!(verify_structure(&g).to_string().contains("nested more than"));
}

/// Whoever reads a finding knows the layer of his own file, not the node.
#[test]
fn findings_point_to_the_layer_of_the_source() {
    let mut graph =
        parse_graph("g (float[2] x) => (float[2] y) { y = Relu<what = 1>(x) }").unwrap();
    let id = graph.node_ids()[0];
    let conv = Layer { place: "net.ini:7".into(), ..Layer::new("conv1", "Conv") };
    graph.node_mut(id).layers = vec![conv, Layer::new("relu1", "Activation")].into();
    let found = verify(&Model::new(graph, 8, 17), VerifyLevel::Full);
    let text = found.0[0].to_string();
    assert!(
        text.contains("[layer conv1 and 1 more (Conv, node Relu -> y) at net.ini:7]"),
        "{text}"
    );
}
