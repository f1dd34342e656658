use super::*;
use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_same, check_pass_skip};
use std::fmt::Write;

#[test]
fn doc_example() {
    check_doc_example_of(include_str!("mod.rs"), pass().as_ref());
}

/// Different numbers for the elements of a constant.
fn constant(name: &str, dims: &[usize]) -> String {
    let count: usize = dims.iter().product();
    let salt = name.bytes().map(usize::from).sum::<usize>();
    let values: Vec<String> = (0..count)
        .map(|i| format!("{:.2}", ((i * 7 + salt * 3) % 19) as f64 / 10.0 - 0.9))
        .collect();
    format!("float{dims:?} {name} = {{{}}}", values.join(", "))
}

/// A graph of `steps` steps over `x`, whose first states are `h` and `c`. `step` says one of them, of `@t`; it reads
/// `x@t`, `h@p` and `c@p`.
fn unrolled(steps: usize, step: &str, head: &str, tail: &str) -> String {
    let constants = [
        constant("w", &[3, 8]),
        constant("r", &[2, 8]),
        constant("w3", &[6, 3]),
        constant("r3", &[6, 2]),
        constant("wr", &[8, 5]),
        constant("b", &[8]),
        constant("b6", &[6]),
        constant("d6", &[6]),
        constant("wn", &[3, 2]),
        constant("rn", &[2, 2]),
        constant("w2", &[3, 4]),
        constant("r2", &[2, 4]),
        "int64[1] zero = {0}, int64[1] first = {1}, int64 at0 = {0}, int64 at1 = {1}, int64 at2 = {2}, int64 at3 = {3}"
            .into(),
        "float one = {1.0}".into(),
    ];
    let mut body = String::from("h_ = Identity(h) c_ = Identity(c)\n");
    for t in 0..steps {
        let before = if t == 0 { "_".to_owned() } else { (t - 1).to_string() };
        writeln!(body, "{}", step.replace("@t", &t.to_string()).replace("@p", &before)).unwrap();
    }
    format!("g {head} <{}> {{ {body} {tail} }}", constants.join(", "))
}

const HEAD: &str = "(float[3,N,3] x, float[N,2] h, float[N,2] c) => (float[N,2] y)";
const TAKEN: &str = "x@t = Gather(x, at@t)";
const LINEAR: &str =
    "a@t = MatMul(x@t, w) e@t = MatMul(h@p, r) s@t = Add(b, a@t) z@t = Add(s@t, e@t)";
const LSTM: &str = "i@t, f@t, g@t, o@t = Split<axis = -1>(z@t)
    si@t = Sigmoid(i@t) sf@t = Sigmoid(f@t) tg@t = Tanh(g@t) so@t = Sigmoid(o@t)
    k@t = Mul(c@p, sf@t) n@t = Mul(tg@t, si@t) c@t = Add(n@t, k@t) tc@t = Tanh(c@t) h@t = Mul(tc@t, so@t)";
const LAST: &str = "y = Identity(h2)";

fn lstm(head: &str, tail: &str) -> String {
    unrolled(3, &format!("{TAKEN} {LINEAR} {LSTM}"), head, tail)
}

/// The operators that are left, without Identity.
fn left(pass: &dyn Pass, graph: &str) -> String {
    let model = check_pass_same(pass, graph);
    let mut ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
    ops.retain(|op| *op != "Identity");
    ops.sort_unstable();
    ops.join(" ")
}

#[test]
fn states_as_they_are_wanted() {
    let ops = |outputs: &str, tail: &str| {
        let head = format!("(float[3,N,3] x, float[N,2] h, float[N,2] c) => ({outputs})");
        left(pass_of_all().as_ref(), &lstm(&head, tail))
    };
    let states = "LSTM Squeeze Unsqueeze Unsqueeze";
    assert_eq!(ops("float[N,2] y", "y = Neg(h2)"), "LSTM Neg Squeeze Unsqueeze Unsqueeze");
    assert_eq!(ops("float[N,2] c2", ""), states);
    assert_eq!(ops("float[N,2] h2", ""), states);
    let all = "u0 = Unsqueeze(h0, zero) u1 = Unsqueeze(h1, zero) u2 = Unsqueeze(h2, zero)
        y = Concat<axis = 0>(u0, u1, u2)";
    assert_eq!(ops("float[3,N,2] y", all), states);
    assert_eq!(
        ops("float[3,N,2] y, float[N,2] c2, float[N,2] h1, float[N,2] h2", all),
        "Gather Gather LSTM Squeeze Squeeze Unsqueeze Unsqueeze"
    );
    let batch_first = all.replace("zero", "first").replace("axis = 0", "axis = -2");
    assert_eq!(ops("float[N,3,2] y", &batch_first), "LSTM Squeeze Transpose Unsqueeze Unsqueeze");
}

#[test]
fn sequences() {
    let pass = pass_of_all();
    let ops = |taken: &str, head: &str| {
        left(pass.as_ref(), &unrolled(3, &format!("{taken} {LINEAR} {LSTM}"), head, LAST))
    };
    // Along the second axis, in another order, and values of their own.
    let batch_first = HEAD.replace("[3,N,3]", "[N,3,3]");
    let turned = ops("x@t = Gather<axis = 1>(x, at@t)", &batch_first);
    assert_eq!(turned, "LSTM Squeeze Transpose Unsqueeze Unsqueeze");
    let some = ops(TAKEN, &HEAD.replace("[3,N,3]", "[4,N,3]"));
    assert_eq!(some, "Gather LSTM Squeeze Unsqueeze Unsqueeze");
    let apart = HEAD.replace("float[3,N,3] x", "float[N,3] x0, float[N,3] x1, float[N,3] x2");
    assert_eq!(
        ops("", &apart),
        "Concat LSTM Squeeze Unsqueeze Unsqueeze Unsqueeze Unsqueeze Unsqueeze"
    );
}

#[test]
fn other_ways_to_say_the_gates() {
    let pass = pass_of_all();
    let wanted = "LSTM Squeeze Unsqueeze Unsqueeze";
    // One product of input and state, side by side.
    let joined = "v@t = Concat<axis = 1>(x@t, h@p) z@t = Gemm<transB = 1>(v@t, wr, b)";
    let graph = unrolled(3, &format!("{TAKEN} {joined} {LSTM}"), HEAD, LAST);
    assert_eq!(left(pass.as_ref(), &graph), wanted);
    // The products of all inputs at once.
    let before = "x@t = Gather(xw, at@t) e@t = MatMul(h@p, r) z@t = Add(x@t, e@t)";
    let graph = unrolled(3, &format!("{before} {LSTM}"), HEAD, LAST)
        .replace("h_ =", "xm = MatMul(x, w) xw = Add(xm, b) h_ =");
    assert_eq!(left(pass.as_ref(), &graph), wanted);
    // No biases, and a state of zeros.
    let plain = "a@t = MatMul(x@t, w) e@t = MatMul(h@p, r) z@t = Add(a@t, e@t)";
    let graph = unrolled(3, &format!("{TAKEN} {plain} {LSTM}"), HEAD, LAST)
        .replace("c_ = Identity(c)", "hs = Shape(h) c_ = ConstantOfShape(hs)");
    let model = check_pass_same(pass.as_ref(), &graph);
    let (_, node) = model.graph.nodes().find(|(_, node)| node.is("LSTM")).unwrap();
    assert_eq!(
        node.inputs.iter().map(Option::is_some).collect::<Vec<_>>(),
        [true, true, true, false, false, true]
    );
}

const GRU: &str = "a@t = Gemm<transB = 1>(x@t, w3, b6) e@t = Gemm<transB = 1>(h@p, r3, d6)
    ar@t, az@t, an@t = Split<axis = 1>(a@t) er@t, ez@t, en@t = Split<axis = 1>(e@t)
    rs@t = Add(ar@t, er@t) sr@t = Sigmoid(rs@t) z@t = Add(az@t, ez@t) sz@t = Sigmoid(z@t)
    m@t = Mul(sr@t, en@t) n@t = Add(an@t, m@t) tn@t = Tanh(n@t)";
const DIFFERENCE: &str = "d@t = Sub(h@p, tn@t) q@t = Mul(d@t, sz@t) h@t = Add(q@t, tn@t)";
const MIXTURE: &str =
    "v@t = Sub(one, sz@t) q@t = Mul(v@t, tn@t) p@t = Mul(sz@t, h@p) h@t = Add(q@t, p@t)";

#[test]
fn gru() {
    let pass = pass_of_all();
    for mixed in [DIFFERENCE, MIXTURE] {
        let graph = unrolled(3, &format!("{TAKEN} {GRU} {mixed}"), HEAD, LAST);
        assert_eq!(left(pass.as_ref(), &graph), "GRU Squeeze Unsqueeze");
    }
}

/// An exporter writes the constant state once for each of its readers.
#[test]
fn gru_whose_first_state_is_there_twice() {
    let zero = "float[4,2] h_ = {0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0}";
    let graph = unrolled(3, &format!("{TAKEN} {GRU} {DIFFERENCE}"), HEAD, LAST).replace("N,", "4,");
    let graph = graph.replace("h_ = Identity(h)", "").replace("Sub(h_,", "Sub(hh,");
    let graph = graph.replacen('<', &format!("<{zero}, {}, ", zero.replace("h_", "hh")), 1);
    assert_eq!(left(pass().as_ref(), &graph), "GRU Squeeze");
}

#[test]
fn gru_that_resets_before_the_product() {
    let before = "a@t = MatMul(x@t, w2) e@t = MatMul(h@p, r2) s@t = Add(a@t, e@t)
        z@t, rs@t = Split<axis = 1>(s@t) sz@t = Sigmoid(z@t) sr@t = Sigmoid(rs@t) m@t = Mul(h@p, sr@t)
        an@t = MatMul(x@t, wn) en@t = MatMul(m@t, rn) n@t = Add(an@t, en@t) tn@t = Tanh(n@t)";
    let graph = unrolled(
        2,
        &format!("{TAKEN} {before} {MIXTURE}"),
        &HEAD.replace("[3,N", "[2,N"),
        "y = Neg(h1)",
    );
    assert_eq!(left(pass_of_all().as_ref(), &graph), "GRU Neg Squeeze Unsqueeze");
}

#[test]
fn rnn() {
    for op in ["Tanh", "Relu"] {
        let step = format!(
            "{TAKEN} a@t = MatMul(x@t, wn) e@t = MatMul(h@p, rn) s@t = Add(a@t, e@t) h@t = {op}(s@t)"
        );
        let graph = unrolled(3, &step, HEAD, LAST);
        assert_eq!(left(pass_of_all().as_ref(), &graph), "RNN Squeeze Unsqueeze");
        check_pass_skip(pass().as_ref(), "", &graph.replace('N', "4"));
    }
}

/// The second layer reads the hidden states of the first one, and has weights of its own.
#[test]
fn layers() {
    let second =
        format!("{LINEAR} {LSTM}").replace("x@t", "h@t").replace("@t", "@t@").replace("@p", "@p@");
    let second =
        second.replace("h@t@, w)", "h@t, wb)").replace("MatMul(h@p@, r)", "MatMul(h@p@, rb)");
    let second = second.replace("@t@", "@tb").replace("@p@", "@pb");
    let weights = format!("<{}, {}, ", constant("wb", &[2, 8]), constant("rb", &[2, 8]));
    let graph =
        unrolled(3, &format!("{TAKEN} {LINEAR} {LSTM} {second}"), HEAD, "y = Identity(h2b)");
    let graph = graph
        .replacen('<', &weights, 1)
        .replace("c_ = Identity(c)", "c_ = Identity(c) h_b = Neg(h) c_b = Neg(c)");
    let ops = left(pass_of_all().as_ref(), &graph);
    assert_eq!(ops, "LSTM LSTM Neg Neg Squeeze Squeeze Unsqueeze Unsqueeze Unsqueeze Unsqueeze");
}

#[test]
fn batches_that_may_be_empty() {
    let why = "a batch may be empty, which only fuse-recurrent-all takes";
    check_pass_skip(pass().as_ref(), why, &lstm(HEAD, LAST));
    let known = lstm(HEAD, LAST).replace("N,", "4,");
    assert_eq!(left(pass().as_ref(), &known), "LSTM Squeeze Unsqueeze Unsqueeze");
}

#[test]
fn declined() {
    let skips = |why: &str, graph: &str| check_pass_skip(pass_of_all().as_ref(), why, graph);
    let one = unrolled(1, &format!("{TAKEN} {LINEAR} {LSTM}"), HEAD, "y = Identity(h0)");
    skips("a single step is not faster as one operator", &one);
    let graph = lstm(&HEAD.replace("y)", "y, float[N,2] f1)"), LAST);
    skips("`f1` is read elsewhere, too", &graph);
    let graph =
        lstm(HEAD, "more = MatMul(x, w) y = Identity(h2)").replace("y)", "y, float[3,N,8] more)");
    skips("its weights are read elsewhere, too", &graph);
    let graph = lstm(&HEAD.replace("[N,2] c", "[1,2] c"), LAST);
    skips("inputs and states are not known to be of the same batch", &graph);
    let graph = lstm(&HEAD.replace("float[N,2] h", "float[M,2] h"), LAST);
    skips("", &graph);
    let own = "x@t = MatMul(h@p, back)";
    let graph = unrolled(3, &format!("{own} {LINEAR} {LSTM}"), HEAD, LAST).replacen(
        '<',
        &format!("<{}, ", constant("back", &[2, 3])),
        1,
    );
    skips("what a step reads comes from the step before", &graph);
    // Of another type, and the cell state of a step.
    skips("", &lstm(HEAD, LAST).replace("float", "double"));
    skips(
        "a single step is not faster as one operator",
        &lstm(&HEAD.replace("y)", "y, float[N,2] c0, float[N,2] c1)"), LAST),
    );
}

/// A step that does not hand on its state alone ends a chain, and another one begins.
#[test]
fn a_cell_state_that_is_read_ends_a_chain() {
    let head = HEAD.replace("y)", "y, float[N,2] c1)").replace("[3,N", "[4,N");
    let graph = unrolled(4, &format!("{TAKEN} {LINEAR} {LSTM}"), &head, "y = Identity(h3)");
    let ops = left(pass_of_all().as_ref(), &graph);
    let states = "Squeeze Squeeze Squeeze Unsqueeze Unsqueeze Unsqueeze Unsqueeze";
    assert_eq!(ops, format!("Gather Gather LSTM LSTM {states}"));
}
