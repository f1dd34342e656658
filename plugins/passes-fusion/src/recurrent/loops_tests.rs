use super::*;
use onnxd_plugin_sdk::rewrite::check::{check_doc_example_of, check_pass_same, check_pass_skip};

#[test]
fn doc_example() {
    check_doc_example_of(include_str!("loops.rs"), &FuseLoops);
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

const X: &str = "float[4,N,3] x";
const SLICE: &str = "x_ = Gather(x, i)";
const LINEAR: &str = "a = MatMul(x_, w) e = MatMul(p, r) t = Add(b, a) z = Add(t, e)";
const LSTM: &str = "zi, zf, zg, zo = Split<axis = -1>(z)
    si = Sigmoid(zi) sf = Sigmoid(zf) tg = Tanh(zg) so = Sigmoid(zo)
    k0 = Mul(q, sf) k1 = Mul(tg, si) q1 = Add(k1, k0) tc = Tanh(q1) p1 = Mul(tc, so)";
const LSTM_LEFT: &str = "LSTM Squeeze Unsqueeze Unsqueeze";

/// A graph over `x`, `h` and `c`, with all that the tests need.
fn graph(x: &str, outputs: &str, body: &str) -> String {
    let constants = [
        constant("w", &[3, 8]),
        constant("r", &[2, 8]),
        constant("b", &[8]),
        constant("w6", &[3, 6]),
        constant("r6", &[2, 6]),
        constant("b6", &[6]),
        constant("d6", &[1, 6]),
        constant("wn", &[3, 2]),
        constant("rn", &[2, 2]),
        "int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 three = {3}, int64 four = {4}"
            .into(),
        "int64[1] first = {0}, float unit = {1.0}, bool go = {1}, bool no = {0}".into(),
    ];
    format!(
        "g ({x}, float[N,2] h, float[N,2] c) => ({outputs}) <{}> {{
           sizes = Shape(x) size = Gather(sizes, zero) {body}
         }}",
        constants.join(", ")
    )
}

/// A loop over both states, `trips` times, which also stacks `o`. `y`, `d` and `all` are what it gives.
fn looped(trips: &str, step: &str) -> String {
    format!(
        "y, d, all = Loop ({trips}, go, h, c) <body = body (int64 i, bool k_, float[N,2] p, float[N,2] q)
         => (bool on, float[N,2] p1, float[N,2] q1, float[N,2] o) {{ on = Identity(k_) {step} }}>"
    )
}

fn lstm(slice: &str) -> String {
    format!("{slice} {LINEAR} {LSTM} o = Identity(p1)")
}

/// A loop over the state of a cell without cell state.
fn simple(step: &str) -> String {
    format!(
        "y = Loop (size, , h) <body = body (int64 i, bool k_, float[N,2] p) => (bool on, float[N,2] p1)
         {{ on = Identity(k_) {SLICE} {step} }}>"
    )
}

/// The operators that are left, without Identity and what computes the trip count.
fn left(graph: &str) -> String {
    let model = check_pass_same(&FuseLoops, graph);
    let mut ops: Vec<&str> = model.graph.nodes().map(|(_, node)| node.op.as_str()).collect();
    ops.retain(|op| !["Identity", "Shape", "Gather"].contains(op));
    ops.sort_unstable();
    ops.join(" ")
}

#[test]
fn what_is_wanted() {
    let ops = |outputs: &str| left(&graph(X, outputs, &looped("four", &lstm(SLICE))));
    assert_eq!(ops("float[N,2] y"), LSTM_LEFT);
    assert_eq!(ops("float[N,2] d"), LSTM_LEFT);
    assert_eq!(ops("float[4,N,2] all"), LSTM_LEFT);
    let all = ops("float[4,N,2] all, float[N,2] y, float[N,2] d");
    assert_eq!(all, "LSTM Squeeze Squeeze Squeeze Unsqueeze Unsqueeze");
}

#[test]
fn sequences() {
    let ops = |x: &str, trips: &str, slice: &str| {
        left(&graph(x, "float[N,2] y, float[?,N,2] all", &looped(trips, &lstm(slice))))
    };
    let plain = "LSTM Squeeze Squeeze Unsqueeze Unsqueeze";
    assert_eq!(ops(X, "size", SLICE), plain);
    assert_eq!(ops(X, "size", "j = Cast<to = 6>(i) x_ = Gather(x, j)"), plain);
    let turned = ops("float[N,4,3] x", "four", "x_ = Gather<axis = 1>(x, i)");
    assert_eq!(turned, format!("{} Transpose {}", &plain[..20], &plain[21..]));
    // Some of the steps.
    let some = "LSTM Reshape Slice Squeeze Squeeze Unsqueeze Unsqueeze";
    assert_eq!(ops(X, "three", SLICE), some);
}

/// Without an iteration, the first states are the last ones.
#[test]
fn loops_that_may_have_no_iteration() {
    let x = "float[T,N,3] x";
    let ops = |outputs: &str, trips: &str| {
        left(&graph(x, outputs, &format!("less = Sub(size, one) {}", looped(trips, &lstm(SLICE)))))
    };
    let chosen = "Greater LSTM Squeeze Squeeze Sub Unsqueeze Unsqueeze Where Where";
    assert_eq!(ops("float[N,2] y, float[N,2] d", "size"), chosen);
    assert_eq!(ops("float[?,N,2] all", "size"), "LSTM Squeeze Sub Unsqueeze Unsqueeze");
    // The number of iterations is not less than 0.
    let sliced = "Greater LSTM Reshape Slice Squeeze Sub Unsqueeze Unsqueeze Where";
    assert_eq!(ops("float[?,N,2] all", "less"), sliced);
    let counted = "y, n = Loop (less, , h, one) <body = body
         (int64 i, bool k_, float[N,2] p, int64 j) => (bool on, float[N,2] p1, int64 j1) {
         on = Identity(k_) j1 = Add(j, one) x_ = Gather(x, i)
         a = MatMul(x_, wn) e = MatMul(p, rn) s = Add(a, e) p1 = Tanh(s) }>";
    let ops = left(&graph(x, "int64 n", &format!("less = Sub(size, one) {counted}")));
    assert!(ops.contains("Where") && !ops.contains("Loop"), "{ops}");
    let computed = "y, n = Loop (size, , h, h) <body = body
         (int64 i, bool k_, float[N,2] p, float[N,2] j) => (bool on, float[N,2] p1, float[N,2] j1) {
         on = Identity(k_) j1 = Neg(p1) x_ = Gather(x, i)
         a = MatMul(x_, wn) e = MatMul(p, rn) s = Add(a, e) p1 = Tanh(s) }>";
    skipped("it may have no iteration", &graph(x, "float[N,2] n", computed));
    assert!(left(&graph(X, "float[N,2] n", computed)).contains("RNN"));
}

#[test]
fn what_else_is_carried() {
    let loop_ = format!(
        "y, d, n, m, u = Loop (three, , h, c, one, two, l) <
           body = body (int64 i, bool k_, float[N,2] p, float[N,2] q, int64 j, int64 v, float[1,N,2] l0)
             => (bool go, float[N,2] p1, float[N,2] q1, int64 j1, int64 v, float[1,N,2] l1) {{
             j1 = Add(j, one) {} l1 = Unsqueeze(p1, first)
           }}>",
        format_args!("x_ = Gather(x, j) {LINEAR} {LSTM}")
    );
    let outputs = "float[N,2] y, int64 n, int64 m, float[1,N,2] u";
    let body = format!("l = Unsqueeze(h, first) {loop_}");
    let ops = left(&graph(X, outputs, &body));
    let number = "Add Add LSTM Mul Reshape Reshape Slice";
    assert_eq!(ops, format!("{number} Squeeze Unsqueeze Unsqueeze Unsqueeze"));
}

/// As PyTorch's front-end writes what a loop appends to a list.
#[test]
fn lists_of_states() {
    let body = |readers: &str| {
        format!(
            "e = SequenceEmpty<dtype = 1>()
             d, l, m = Loop (size, go, h, e, c) <body = body
               (int64 i, bool k_, float[N,2] p, seq(float[N,2]) l0, float[N,2] q)
               => (bool on, float[N,2] p1, seq(float[N,2]) l1, float[N,2] q1) {{
                 on = Identity(k_) {SLICE} {LINEAR} {LSTM} l1 = SequenceInsert(l0, p1)
               }}>
             y = ConcatFromSequence<axis = 0, new_axis = 1>(l) {readers}"
        )
    };
    let x = "float[T,N,3] x";
    assert_eq!(left(&graph(x, "float[?,N,2] y", &body(""))), LSTM_LEFT);
    let outputs = "float[?,N,2] y, float[?,?] z";
    let ops = left(&graph(x, outputs, &body("z = ConcatFromSequence<axis = 0>(l)")));
    assert_eq!(ops, "ConcatFromSequence LSTM SplitToSequence Squeeze Unsqueeze Unsqueeze");
}

const GATES: &str = "xw = MatMul(x_, w6) xb = Add(xw, b6) xz, xr, xn = Split<axis = 1>(xb)";
const STATE: &str = "hw = MatMul(p, r6) hb = Add(hw, d6) hz, hr, hn = Split<axis = 1>(hb)
    az = Add(xz, hz) ar = Add(xr, hr) z = Sigmoid(az) rr = Sigmoid(ar)";
const RESET: &str = "rn_ = Mul(rr, hn) s = Add(xn, rn_) n = Tanh(s)";
const MIXED: &str = "k0 = Mul(z, p) rest = Sub(unit, z) k1 = Mul(rest, n) p1 = Add(k0, k1)";

#[test]
fn cells_that_are_no_steps_of_operators() {
    let stays = |x: &str, step: &str| skipped("", &graph(x, "float[N,2] y", &simple(step)));
    // The reset gate applies to the input.
    let gates = GATES.replace("w6", "r6");
    let input = RESET.replace("Mul(rr, hn)", "Mul(rr, xx)");
    let step = format!("{gates} {STATE} xx = MatMul(x_, rn) {input} {MIXED}");
    stays("float[4,N,2] x", &step);
    // What is kept is the input.
    let (gates, state) = (GATES.replace("(x_, w6)", "(p, r6)"), STATE.replace("(p,", "(x_,"));
    let mixed = MIXED.replace("(z, p)", "(z, x_)");
    stays("float[4,N,2] x", &format!("{gates} {state} {RESET} {mixed}"));
    // Weights of their own for each iteration.
    for weight in ["Bernoulli(wn)", "Dropout(wn, unit, go)"] {
        let rnn = "a = MatMul(x_, wm) e = MatMul(p, rn) s = Add(a, e) p1 = Tanh(s)";
        stays(X, &format!("wm = {weight} {rnn}"));
    }
    // A gate with a single column, which is repeated.
    let narrow =
        lstm(SLICE).replace("zo = Split<axis = -1>(z)", "zo, zz = Split<axis = -1>(z, parts)");
    let graph = graph(X, "float[N,2] y", &looped("four", &narrow));
    skipped("", &graph.replacen('<', "<int64[5] parts = {2, 2, 2, 1, 1}, ", 1));
}

#[test]
fn cells() {
    let ops = |step: &str| left(&graph(X, "float[N,2] y", &simple(step)));
    let after = format!("{GATES} {STATE} {RESET} {MIXED}");
    assert_eq!(ops(&after), "GRU Squeeze Unsqueeze");
    let before = format!(
        "{GATES} {STATE} rh = Mul(rr, p) rm = MatMul(rh, rn) s = Add(xn, rm) n = Tanh(s) {MIXED}"
    );
    assert_eq!(ops(&before), "GRU Squeeze Unsqueeze");
    for activation in ["Tanh", "Relu", "Sigmoid"] {
        let rnn =
            format!("a = MatMul(x_, wn) e = MatMul(p, rn) s = Add(a, e) p1 = {activation}(s)");
        assert_eq!(ops(&rnn), "RNN Squeeze Unsqueeze");
    }
    // The activation comes before what shares out the gates, and the states have another one.
    let step = format!(
        "{SLICE} {LINEAR} g4 = Sigmoid(z) si, sf, no, so = Split<axis = 1>(g4)
         tg = Relu(zg) n3, n4, zg, n5 = Split<axis = 1>(z)
         k0 = Mul(q, sf) k1 = Mul(tg, si) q1 = Add(k1, k0) tc = Relu(q1) p1 = Mul(tc, so) o = Identity(p1)"
    );
    assert_eq!(left(&graph(X, "float[N,2] y", &looped("four", &step))), LSTM_LEFT);
}

/// Weights that are inputs of the network, and what the body makes of them.
#[test]
fn weights_that_are_computed() {
    let x = "float[4,N,3] x, float[8,3] v, float[1,8] u";
    let step =
        lstm(SLICE).replace("MatMul(x_, w)", "MatMul(x_, vt)").replace("Add(b, a)", "Add(u, a)");
    let body = looped("four", &format!("vt = Transpose(v) {step}"));
    let ops = left(&graph(x, "float[N,2] y", &body));
    assert!(ops.contains("LSTM") && !ops.contains("Loop"), "{ops}");
}

fn scan(attrs: &str) -> String {
    format!(
        "y, d, all = Scan<num_scan_inputs = 1 {attrs}, body = body (float[N,2] p, float[N,2] q, float[N,3] x_)
           => (float[N,2] p1, float[N,2] q1, float[N,2] o) {{ {} }}>(h, c, x)",
        lstm("")
    )
}

#[test]
fn scans() {
    let outputs = "float[N,2] d, float[?,N,2] all";
    let ops = left(&graph(X, outputs, &scan("")));
    assert_eq!(ops, "LSTM Squeeze Squeeze Unsqueeze Unsqueeze");
    let ops = left(&graph("float[T,N,3] x", outputs, &scan("")));
    assert_eq!(ops, "Greater LSTM Squeeze Squeeze Unsqueeze Unsqueeze Where");
    let turned = left(&graph("float[N,4,3] x", outputs, &scan(", scan_input_axes = [1]")));
    assert_eq!(turned, "LSTM Squeeze Squeeze Transpose Unsqueeze Unsqueeze");
    let backwards = scan(", scan_input_directions = [1]");
    skipped("", &graph("float[T,N,3] x", outputs, &backwards));
}

fn skipped(reason: &str, graph: &str) {
    check_pass_skip(&FuseLoops, reason, graph);
}

#[test]
fn loops_that_stay() {
    let all = "float[N,2] y, float[?,N,2] all";
    let step = lstm(SLICE);
    let ends = "it may end before its trip count";
    skipped(ends, &graph(X, all, &looped("", &step)));
    skipped(ends, &graph(X, all, &looped("four", &step).replace("Identity(k_)", "Not(k_)")));
    skipped("it has no iteration", &graph(X, all, &looped("zero", &step)));
    let memory = step.replace("Identity(p1)", "Identity(q1)");
    skipped("it stacks what is no hidden state", &graph(X, all, &looped("four", &memory)));
    let other = step.replace("Mul(q, sf)", "Mul(p, sf)");
    skipped("", &graph(X, all, &looped("four", &other)));
    let repeated = graph(X, all, &looped("four", &step)).replace("float[N,2] h", "float[1,2] h");
    skipped(
        "inputs and states are not of the same batch",
        &repeated.replace("[4,N,3] x", "[4,5,3] x").replace("N", "?"),
    );
    // One row would be spread by the first step, and two sizes that are not known may differ.
    let unknown = graph(X, all, &looped("four", &step)).replace('N', "?");
    skipped("inputs and states are not of the same batch", &unknown);
    let others = [
        ("float[N,2] h", "float[M,2] h", "float[?,2] p,"),
        ("float[N,2] h", "float[?,2] h", "float[?,2] p,"),
        ("float[N,2] h", "float[5,2] h", "float[?,2] p,"),
        ("float[N,2] c", "float[N,1] c", "float[N,?] q)"),
    ];
    for (from, begin, inner) in others {
        let graph = graph(X, all, &looped("four", &step)).replace(from, begin);
        let graph = graph.replace(&format!("float[N,2] {}", &inner[inner.len() - 2..]), inner);
        skipped("inputs and states are not of the same batch", &graph);
    }
}
