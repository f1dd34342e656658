use super::SimplifyShapes;
use onnxd_plugin_sdk::ir::{Model, text};
use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_same, check_pass_skip};

fn same(graph: &str) -> Model {
    check_pass_same(&SimplifyShapes, graph)
}

fn skip(reason: &str, graph: &str) {
    check_pass_skip(&SimplifyShapes, reason, graph);
}

/// The operators that are left, without those of constants.
fn operators(model: &Model) -> Vec<&str> {
    model.graph.nodes().map(|(_, node)| node.op.as_str()).collect()
}

fn constant(model: &Model, name: &str) -> Vec<i64> {
    let v = model.graph.value_named(name).expect("the value is there");
    model.graph.constant(v).expect("it is a constant").to_i64s().expect("of whole numbers")
}

#[test]
fn doc_example() {
    check_doc_example_of(include_str!("mod.rs"), &SimplifyShapes);
}

#[test]
fn what_is_known_becomes_a_constant() {
    let model = same(
        "g (float[N,4,6] x) => (float[N,4,6] y, int64 two)
         <int64 one = {1}, int64 six = {6}>
         {
           s = Shape(x)
           n, c, w = Split<axis = 0>(s)
           v = Squeeze(w)
           b = Equal(v, six)
           i = Cast<to = 6>(v)
           f = Cast<to = 1>(b)
           j = Cast<to = 1>(i)
           t = Add(f, j)
           k = Cast<to = 1>(n)
           u = Add(t, k)
           y = Mul(x, u)
           two = Add(one, one)
         }",
    );
    assert_eq!(constant(&model, "b"), [1]);
    assert_eq!(constant(&model, "i"), [6]);
    assert!(!operators(&model).contains(&"Equal") && operators(&model).contains(&"Cast"));
}

#[test]
fn the_size_that_is_left_follows() {
    let model = same(
        "g (float[N,M,4] x) => (float[?,4] y)
         <int64[1] zero = {0}, int64[1] one = {1}, int64[1] four = {4}>
         {
           s = Shape(x)
           n = Gather(s, zero)
           m = Gather(s, one)
           p = Mul(n, m)
           to = Concat<axis = 0>(p, four)
           y = Reshape(x, to)
         }",
    );
    assert_eq!(constant(&model, "to_known"), [-1, 4]);
    assert_eq!(operators(&model), ["Reshape"]);
}

#[test]
fn the_size_that_followed_is_said() {
    let model = same(
        "g (float[N,M,4] x) => (float[?,2,4] y)
         <int64[1] zero = {0}, int64[1] one = {1}, int64[2] rest = {-1, 4}, int64[1] two = {2}>
         {
           d = Concat<axis = 0>(x, x)
           s = Shape(x)
           n = Gather(s, zero)
           m = Gather(s, one)
           p = Mul(n, m)
           to = Concat<axis = 0>(p, rest)
           r = Reshape(d, to)
           y = Neg(r)
         }",
    );
    assert_eq!(constant(&model, "to_known"), [-1, 2, 4]);
}

/// With no batch at all, the other size would follow from nothing.
#[test]
fn a_size_that_may_be_zero_leaves_nothing_to_follow() {
    skip(
        "size 1 does not follow from the others, if they may be 0",
        "g (float[N,2,M] x) => (float[N,?] y)
         <int64[1] two = {2}>
         {
           n = Shape<end = 1>(x)
           m = Shape<start = 2>(x)
           p = Mul(two, m)
           to = Concat<axis = 0>(n, p)
           y = Reshape(x, to)
         }",
    );
}

#[test]
fn a_zero_that_means_zero_stays_computed() {
    skip(
        "a size is 0",
        "g (float[N,0] x) => (float[0,N] y)
         <int64[1] zero = {0}>
         {
           n = Shape<end = 1>(x)
           to = Concat<axis = 0>(zero, n)
           y = Reshape<allowzero = 1>(x, to)
         }",
    );
}

#[test]
fn data_that_decides_a_shape_stays() {
    skip(
        "nothing is known of the shape",
        "g (float[4] x, int64[2] to) => (float[?,?] y)
         { y = Reshape(x, to) }",
    );
}

#[test]
fn expand_says_what_its_input_does_not() {
    let model = same(
        "g (float[N,1,M] x) => (float[N,3,M] y, float[N,1,M] z)
         <int64[1] zero = {0}, int64[1] end = {2}, int64[1] three = {3}>
         {
           s = Shape(x)
           n = Gather(s, zero)
           m = Gather(s, end)
           to = Concat<axis = 0>(n, three, m)
           y = Expand(x, to)
           r = Relu(x)
           e = Expand(r, s)
           z = Neg(e)
         }",
    );
    assert_eq!(constant(&model, "to_known"), [1, 3, 1]);
    assert_eq!(operators(&model), ["Expand", "Relu", "Neg"]);
}

#[test]
fn expand_to_another_size_stays() {
    skip(
        "a size is not known and not that of the input",
        "g (float[N] x, float[M] m) => (float[?] y)
         { s = Shape(m) y = Expand(x, s) }",
    );
}

#[test]
fn equal_vectors_are_computed_once_and_with_few_nodes() {
    let model = same(
        "g (float[N,4,M] x, float[K] k) => (float[N,1,M] y, float[N,1,M] z)
         <int64 zero = {0}, int64 end = {2}, int64[1] axis = {0}, int64[1] one = {1}, float v = {1.0}>
         {
           s = Shape(x)
           n = Gather(s, zero)
           m = Gather(s, end)
           p = Unsqueeze(n, axis)
           q = Unsqueeze(m, axis)
           to = Concat<axis = 0>(p, one, q)
           y = Expand(v, to)
           r = Relu(x)
           t = Shape(r)
           o = Gather(t, zero)
           u = Unsqueeze(o, axis)
           w = Concat<axis = 0>(u, one, q)
           e = Expand(v, w)
           z = Neg(e)
         }",
    );
    let mut operators = operators(&model);
    operators.sort_unstable();
    assert_eq!(operators, ["Concat", "Expand", "Expand", "Neg", "Shape", "Shape"]);
}

#[test]
fn a_scalar_is_a_size_of_another_value() {
    let model = same(
        "g (float[N,4] x, float[?] d) => (int64 y)
         <int64 zero = {0}, int64 two = {2}>
         {
           s = Shape(x)
           n = Gather(s, zero)
           t = Mul(n, two)
           u = Div(t, two)
           y = Neg(u)
         }",
    );
    assert_eq!(operators(&model), ["Shape", "Gather", "Neg"]);
}

#[test]
fn inside_a_branch() {
    let model = same(
        "g (bool b, float[N,4] x) => (float[N,2,2] y)
         <int64[1] zero = {0}, int64[2] rest = {2, 2}>
         {
           y = If (b) <
             then_branch = t () => (float[N,2,2] p) {
               s = Shape(x)
               n = Gather(s, zero)
               to = Concat<axis = 0>(n, rest)
               p = Reshape(x, to)
             },
             else_branch = e () => (float[N,2,2] q) <int64[3] k = {0, 2, 2}> { q = Reshape(x, k) }
           >
         }",
    );
    let text = text::print_graph(&model.graph);
    assert!(!text.contains("Shape(") || !text.contains("Concat"), "{text}");
}

#[test]
fn expand_goes_where_another_operand_has_the_shape() {
    let model = same(
        "g (float[N,4,M] x, float[4,1] a, float[1,M] b) => (float[N,4,M] y)
         {
           s = Shape(x)
           p = Expand(a, s)
           q = Expand(b, s)
           t = Mul(p, x)
           y = Add(q, t)
         }",
    );
    assert_eq!(operators(&model), ["Mul", "Add"]);
}

#[test]
fn expand_stays_where_it_gives_the_result_its_shape() {
    skip(
        "size 0 of the result of Mul is its own",
        "g (float[1,M] a, float[M] b) => (float[3,M] y)
         <int64[2] to = {3, 1}>
         { e = Expand(a, to) y = Mul(e, b) }",
    );
    // The rank counts, too.
    skip(
        "size 0 of the result of Mul is its own",
        "g (float[M] a, float[M] b) => (float[1,M] y)
         <int64[2] to = {1, 1}>
         { e = Expand(a, to) y = Mul(e, b) }",
    );
    skip(
        "it is read by MatMul",
        "g (float[1,2] a, float[2,2] b) => (float[3,2] y)
         <int64[2] to = {3, 1}>
         { e = Expand(a, to) y = MatMul(e, b) }",
    );
}

/// The exporter saw a batch of 1; runtimes warn, and compute on.
#[test]
fn what_an_output_declares_decides_nothing() {
    skip(
        "size 1 does not follow from the others, if they may be 0",
        "g (float[N,2,M] x) => (float[1,4] y)
         <int64[1] two = {2}, int64[1] rest = {-1}>
         {
           m = Shape<start = 2>(x)
           p = Mul(m, two)
           to = Concat<axis = 0>(rest, p)
           y = Reshape(x, to)
         }",
    );
}
