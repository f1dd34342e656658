use super::*;
use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_same, check_pass_skip};

#[test]
fn doc_example() {
    check_doc_example_of(include_str!("mod.rs"), pass().as_ref());
}

fn model(values: &str, constants: &str, body: &str) -> String {
    format!(
        "<ir_version: 11, opset_import: [\"\" : 23]> g ({values}) => (float[N,2,3,4] y)
         <int64[1] one = {{1}}, {constants}> {{ {body} }}"
    )
}

/// Two batches of angles, a partial rotation, and a result that is read as it is.
const HALVES: &str = "a, b = Split<axis = -1, num_outputs = 2>(h) m = Neg(b)
    t = Concat<axis = 3>(m, a) p = Mul(cos, h) q = Mul(t, sin)";

const COMPUTED: &str = "w = Concat<axis = 2>(f, f) c = Cos(w) s = Sin(w)
    cos = Unsqueeze(c, one) sin = Unsqueeze(s, one)";

#[test]
fn angles_of_each_batch() {
    let body = format!("{COMPUTED} {HALVES} y = Add(q, p)");
    let graph = model("float[N,2,3,4] h, float[N,3,2] f", "int64 u = {0}", &body);
    assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 3);
}

#[test]
fn constant_angles_and_the_rest_of_a_head() {
    let table = "{0.5, 0.25, 0.5, 0.25, 0.75, -0.5, 0.75, -0.5, 1.0, 0.0, 1.0, 0.0}";
    let constants = format!(
        "float[1,1,3,4] cos = {table}, float[3,4] sin = {table}, int64[2] parts = {{4, 2}}"
    );
    let body = format!(
        "h, rest = Split<axis = 3>(x, parts) {HALVES} r = Add(p, q) y = Concat<axis = -1>(r, rest)"
    );
    let graph = model("float[2,2,3,6] x", &constants, &body).replace("[N,2,3,4] y", "[2,2,3,6] y");
    let fused = check_pass_same(pass().as_ref(), &graph);
    assert_eq!(fused.graph.node_count(), 1);
    check_pass_skip(
        pass().as_ref(),
        "the elements of a pair differ in `cos`",
        &graph.replace("[1,1,3,4] cos = {0.5", "[1,1,3,4] cos = {0.75"),
    );
}

#[test]
fn neighbours() {
    let table = "{0.5, 0.5, 0.25, 0.25, 0.75, 0.75, -0.5, -0.5, 1.0, 1.0, 0.0, 0.0}";
    let constants = format!(
        "float[1,3,1,4] cos = {table}, float[1,3,1,4] sin = {table}, int64[1] zero = {{0}},
         int64[1] two = {{2}}, int64[1] last = {{3}}, int64[1] end = {{9223372036854775807}},
         int64[4] apart = {{0, 0, 2, 4}}, int64[1] inner = {{-1}}, int64[4] again = {{0, 0, 2, 4}}"
    );
    let body =
        "h = Reshape(x, apart) a = Slice(h, zero, end, last, two) b = Slice(h, one, end, last, two)
        m = Neg(b) mu = Unsqueeze(m, inner) au = Unsqueeze(a, inner) st = Concat<axis = -1>(mu, au)
        t = Reshape(st, again) p = Mul(h, cos) q = Mul(t, sin) y = Add(p, q)";
    let graph = model("float[1,3,8] x", &constants, body).replace("[N,2,3,4] y", "[1,3,2,4] y");
    assert_eq!(check_pass_same(pass().as_ref(), &graph).graph.node_count(), 2);
}

#[test]
fn declined() {
    let body = format!("{COMPUTED} {HALVES} y = Add(q, p)");
    let graph = model("float[N,2,3,4] h, float[N,3,2] f", "int64 u = {0}", &body);
    let check = |text: &str, why| check_pass_skip(pass().as_ref(), why, text);
    check(&graph.replace(": 23", ": 22"), "opset 22 has no RotaryEmbedding, which came with 23");
    check(&graph.replace("] y)", "] y, float[N,2,3,4] t)"), "`t` is read elsewhere, too");
    check(&graph.replace("float", "double"), "`y` is of type double");
    let why = "the two angles of each pair are not known equal in `cos`";
    check(&graph.replace("(f, f)", "(f, g)").replace("2] f", "2] f, float[N,3,2] g"), why);
    let why = "the angles are not one for each word";
    check(&graph.replace("float[N,2,3,4] h", "float[N,2,1,4] h"), why);
    let why = "the number of batches is no size of an input";
    let other =
        graph.replace("float[N,2,3,4] h", "float[?,2,3,4] h").replace("[N,3,2] f", "[1,3,2] f");
    check(&other, why);
}
