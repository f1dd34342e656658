use super::{Effort, Equivalence, equivalence};
use onnxd_ir::{Model, infer, text};

const EFFORT: Effort = Effort { work: 1 << 24, bytes_max: 1 << 24, stop: None };

fn model(graph: &str) -> Model {
    let mut model = Model::new(text::parse_graph(graph).unwrap(), 8, 17);
    assert!(infer(&mut model).0.is_empty());
    model
}

fn equivalence_of(before: &str, after: &str) -> Equivalence {
    equivalence(&model(before), &model(after), EFFORT)
}

/// Names of what differs.
fn different(found: &Equivalence) -> Vec<&str> {
    found.different.iter().map(|d| d.value.as_str()).collect()
}

const TWO: &str = "g (float[n,4] x) => (float[n,4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
    a = Add(x, w)
    b = Mul(a, w)
    y = Relu(b) }";

#[test]
fn what_nobody_changed_is_not_computed() {
    let found = equivalence_of(TWO, TWO);
    // The constant, and three nodes.
    assert_eq!((found.unchanged, found.equal, found.not_compared), (4, 0, 0));
    assert!(different(&found).is_empty());
}

#[test]
fn a_rewrite_that_keeps_the_values_is_equal() {
    let after = "g (float[n,4] x) => (float[n,4] y)
        <float[4] w = {1.0, 2.0, 3.0, 4.0}, float[4] s = {1.0, 4.0, 9.0, 16.0}> {
        p = Mul(x, w)
        b = Add(p, s)
        y = Relu(b) }";
    let found = equivalence_of(TWO, after);
    assert!(different(&found).is_empty(), "{found:?}");
    assert_eq!((found.equal, found.unchanged), (1, 2), "{found:?}");
}

#[test]
fn a_rewrite_that_does_not_is_told_with_its_first_value() {
    let after = "g (float[n,4] x) => (float[n,4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> {
        a = Sub(x, w)
        b = Mul(a, w)
        y = Relu(b) }";
    let found = equivalence_of(TWO, after);
    assert_eq!(different(&found), ["y", "a"], "{found:?}");
    assert!(found.different[0].what.contains("SQNR"), "{found:?}");
}

#[test]
fn other_sizes_and_types_differ() {
    let after =
        TWO.replace("y = Relu(b)", "u = Relu(b) y = Transpose(u)").replace("(float[n,4] y)", "(y)");
    assert_eq!(different(&equivalence_of(TWO, &after)), ["y"]);
}

#[test]
fn inner_values_may_change_if_the_outputs_do_not() {
    // `a` is twice what it was, and `b` takes it back.
    let before = "g (float[4] x) => (float[4] y) <float[4] w = {1.0, 2.0, 3.0, 4.0}> { a = Mul(x, w) y = Relu(a) }";
    let after =
        "g (float[4] x) => (float[4] y) <float[4] w = {2.0, 4.0, 6.0, 8.0}, float h = {0.5}> {
        a = Mul(x, w)
        b = Mul(a, h)
        y = Relu(b) }";
    assert!(different(&equivalence_of(before, after)).is_empty());
}

#[test]
fn what_holds_on_values_that_occur_is_equal() {
    // Right only because `a` is never negative, which random numbers in its place are.
    let before = "g (float[8] x) => (float[8] y, float[8] a) { a = Relu(x) b = Abs(a) y = Exp(b) }";
    let after = "g (float[8] x) => (float[8] y, float[8] a) { a = Relu(x) y = Exp(a) }";
    let found = equivalence_of(before, after);
    assert!(different(&found).is_empty() && found.equal == 1, "{found:?}");
}

#[test]
fn what_is_in_doubt_runs_at_once_and_what_fails_is_found() {
    let graph = |op: &str, row: usize| {
        format!(
            "g (float[n,4] x) => (float[n,4] y) <int64 row{row} = {{{row}}}> {{
            a = Relu(x)
            b = {op}(a)
            c = Neg(a)
            d = {op}(b)
            r = Gather(x, row{row})
            s = Add(d, r)
            y = Add(s, c) }}"
        )
    };
    let found = equivalence_of(&graph("Abs", 0), &graph("Relu", 0));
    assert!(different(&found).is_empty() && found.equal == 2, "{found:?}");
    // There are two rows.
    let found = equivalence_of(&graph("Abs", 0), &graph("Relu", 5));
    assert_eq!((different(&found), found.equal), (vec!["y", "r"], 2), "{found:?}");
    assert!(found.different[1].what.contains("cannot be computed any more"), "{found:?}");
}

#[test]
fn constants_are_compared_with_what_computed_them() {
    let before =
        "g (float[2] x) => (float[2] y) <float[2] a = {1.0, 2.0}, float[2] b = {3.0, 5.0}> {
        c = Add(a, b)
        y = Mul(x, c) }";
    let folded =
        |c: &str| format!("g (float[2] x) => (float[2] y) <float[2] c = {c}> {{ y = Mul(x, c) }}");
    let found = equivalence_of(before, &folded("{4.0, 7.0}"));
    assert_eq!((found.equal, found.different.len()), (1, 0), "{found:?}");
    assert_eq!(different(&equivalence_of(before, &folded("{4.0, 8.0}"))), ["y", "c"]);
}

#[test]
fn work_has_a_bound_and_the_smallest_come_first() {
    let before = "g (float[512,512] x, float[2] u) => (float[512,512] y, float[2] v) { y = MatMul(x, x) v = Relu(u) }";
    let after =
        "g (float[512,512] x, float[2] u) => (float[512,512] y, float[2] v) <float z = {0.0}> {
        p = Add(x, z)
        y = MatMul(p, x)
        v = Max(u, z) }";
    let found = equivalence_of(before, after);
    assert_eq!((found.equal, found.not_compared), (1, 1), "{found:?}");
    assert!(found.reasons[0].0 == "y" && found.reasons[0].1.contains("work"), "{found:?}");
    let none = equivalence(&model(before), &model(after), Effort { work: 0, ..EFFORT });
    assert_eq!((none.equal, none.not_compared), (0, 2));
}

#[test]
fn sub_graphs_are_run_with_what_they_read() {
    let graph = |op: &str| {
        format!(
            "g (float[2] x, bool c) => (float[2] y) {{
            a = Relu(x)
            y = If(c) <then_branch = t () => (float[2] p) {{ p = {op}(a) }},
                else_branch = e () => (float[2] q) {{ q = Abs(a) }}> }}"
        )
    };
    let effort = Effort { work: 1 << 40, ..EFFORT };
    let found = |op| equivalence(&model(&graph("Neg")), &model(&graph(op)), effort);
    assert_eq!(found("Neg").unchanged, 2);
    let other = ["Exp", "Cos"].map(|op| found(op).different.len() + found(op).equal);
    assert_eq!(other, [1, 1]);
}

/// The time may end at any question: before a part, or between its run before and after.
#[test]
fn a_comparison_that_is_stopped_finds_no_difference() {
    // Only the whole tells that `a` is never negative, and only an inner value may be at fault for what is not known.
    let before = "g (float[8] x) => (float[8] y) { a = Relu(x) b = Abs(a) c = Exp(b) y = Neg(c) }";
    let after = "g (float[8] x) => (float[8] y) { a = Relu(x) c = Exp(a) y = Neg(c) }";
    let (before, after) = (model(before), model(after));
    let mut compared = 0;
    for asked_max in 0..24 {
        let asked = std::sync::atomic::AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= asked_max;
        let found = equivalence(&before, &after, Effort { stop: Some(&stop), ..EFFORT });
        assert!(different(&found).is_empty(), "stopped after {asked_max}: {:?}", found.different);
        compared += found.equal;
    }
    assert!((1..24).contains(&compared), "{compared}");
}
