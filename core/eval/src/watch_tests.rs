use super::*;
use crate::{Executor, RunOptions};
use onnxd_ir::text::parse_model;
use std::collections::{BTreeMap, BTreeSet};

#[test]
fn joined_names_can_be_told_apart() {
    let joined = |parts: &[&str]| parts.iter().map(|p| quoted(p)).collect::<Vec<_>>().join("::");
    assert_eq!(joined(&["/layer/x:0", "body", "y"]), "/layer/x:0::body::y");
    let alike: [&[&str]; 8] = [
        &["a", "b", "c"],
        &["a::b", "c"],
        &["a", "b::c"],
        &["a::b::c"],
        &["a:", "b", "c"],
        &["a", ":b", "c"],
        &["a\\::b", "c"],
        &["a\\", "b", "c"],
    ];
    let names: BTreeSet<String> = alike.iter().map(|p| joined(p)).collect();
    assert_eq!(names.len(), alike.len());
}

const NESTED: &str = r#"<ir_version: 8, opset_import: ["" : 17, "local" : 1]>
main (float[2] x) => (float[2] y, float[2] z) {
    n = Constant <value_int = 3> ()
    c = Constant <value = bool {1}> ()
    y = Loop (n, c, x) <body = b (int64 i, bool keep, float[2] s) => (bool go, float[2] t) {
        go = Identity (keep)
        t = Add (s, s)
    }>
    u = local.Twice (y)
    z = local.Twice (u)
}
<domain: "local", opset_import: ["" : 17]>
Twice (a) => (b) { b = Add (a, a) }
"#;

/// Wants some values, and counts what it is asked and shown.
#[derive(Default)]
struct Some_ {
    unwanted: BTreeSet<String>,
    asked: BTreeMap<String, usize>,
    seen: BTreeMap<String, Vec<f64>>,
}

impl Observer for Some_ {
    fn wants(&mut self, value: &str) -> bool {
        *self.asked.entry(value.to_owned()).or_default() += 1;
        !self.unwanted.contains(value)
    }

    fn see(&mut self, value: &str, tensor: &Tensor) {
        let first = tensor.to_reals().unwrap().values[0];
        self.seen.entry(value.to_owned()).or_default().push(first);
    }
}

#[test]
fn values_inside_are_named_by_where_they_are() {
    let model = parse_model(NESTED).unwrap();
    let executor = Executor::new(&model).unwrap();
    let unwanted = BTreeSet::from(["c".to_owned(), "y::body::keep".to_owned()]);
    let mut observer = Some_ { unwanted, ..Some_::default() };
    let inputs = BTreeMap::from([("x".to_owned(), Tensor::vector(vec![1f32, 0.0]))]);
    let options = RunOptions { observer: Some(&mut observer), ..RunOptions::default() };
    executor.run(&inputs, options).unwrap();
    let expected: BTreeMap<String, Vec<f64>> = [
        ("n", vec![3.0]),
        ("u", vec![16.0]),
        ("u::Twice::a", vec![8.0]),
        ("u::Twice::b", vec![16.0]),
        ("x", vec![1.0]),
        ("y", vec![8.0]),
        ("y::body::go", vec![1.0; 3]),
        ("y::body::i", vec![0.0, 1.0, 2.0]),
        ("y::body::s", vec![1.0, 2.0, 4.0]),
        ("y::body::t", vec![2.0, 4.0, 8.0]),
        ("z", vec![32.0]),
        ("z::Twice::a", vec![16.0]),
        ("z::Twice::b", vec![32.0]),
    ]
    .into_iter()
    .map(|(name, values)| (name.to_owned(), values))
    .collect();
    assert_eq!(observer.seen, expected);
    assert!(observer.asked.values().all(|n| *n == 1), "{:?}", observer.asked);
}

#[test]
fn an_endless_loop_is_stopped() {
    let text = r#"<ir_version: 8, opset_import: ["" : 17]>
        main (float[2] x) => (float[2] y) {
            c = Constant <value = bool {1}> ()
            y = Loop (, c, x) <body = b (int64 i, bool keep, float[2] s) => (bool keep2, float[2] t) {
                keep2 = Identity (keep)
                t = Neg (s)
            }>
        }"#;
    let model = parse_model(text).unwrap();
    let executor = Executor::new(&model).unwrap();
    let inputs = BTreeMap::from([("x".to_owned(), Tensor::vector(vec![1f32, 0.0]))]);
    let asked = std::sync::atomic::AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed) == 1000;
    let options = RunOptions { stop: Some(&stop), ..RunOptions::default() };
    let found = executor.run(&inputs, options).unwrap_err();
    assert_eq!(found.0[0].code, "N0309");
    assert!(found.0[0].layer.is_some());
    let mut shown = 0;
    let mut none = |_: &str, _: &Tensor| shown += 1;
    let stop = || true;
    let options = RunOptions { stop: Some(&stop), observer: Some(&mut none), ..Default::default() };
    assert!(executor.run(&inputs, options).is_err());
    assert_eq!(shown, 1, "the input is fed, nothing is computed");
}
