//! Tests of tensors that are made of numbers. Expected numbers are torch's.

use super::{Arg, assert_near, floats, ints, only, parts, run_at};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

fn none() -> Arg {
    Value::None.into()
}

fn arange(start: Arg, end: Arg, step: Arg, dtype: Arg) -> Tensor {
    only("aten::arange", [("start", start), ("end", end), ("step", step), ("dtype", dtype)])
}

#[test]
fn ranges_have_the_type_of_their_numbers() {
    assert_eq!(arange(none(), 3i64.into(), none(), none()), ints([0, 1, 2]));
    assert_eq!(arange(5i64.into(), 0i64.into(), (-2i64).into(), none()), ints([5, 3, 1]));
    assert_eq!(arange(0i64.into(), 1i64.into(), 0.5.into(), none()), floats([0.0, 0.5]));
    let short = arange(none(), 2i64.into(), none(), 3i64.into());
    assert_eq!(short, Tensor::vector(vec![0i32, 1]));
    // An end that is known only at run time.
    let end = Arg::from(Tensor::scalar(2i64));
    assert_eq!(arange(none(), end, none(), 6i64.into()), floats([0.0, 1.0]));
}

#[test]
fn the_ends_of_a_line_are_exact() {
    let line = |steps: i64, dtype: Arg| {
        let ends = [("start", Arg::from(-3i64)), ("end", 10i64.into())];
        let [start, end] = ends;
        only("aten::linspace", [start, end, ("steps", steps.into()), ("dtype", dtype)])
    };
    assert_near(&line(3, none()), &floats([-3.0, 3.5, 10.0]));
    assert_eq!(line(3, 4i64.into()), ints([-3, 3, 10]));
    assert_eq!(line(1, none()), floats([-3.0]));
}

#[test]
fn equal_elements_have_the_type_of_the_number() {
    let full = |value: Arg, dtype: Arg| {
        let size = ("size", Arg::from(vec![2]));
        only("aten::full", [size, ("fill_value", value), ("dtype", dtype)])
    };
    assert_eq!(full(7i64.into(), none()), ints([7, 7]));
    assert_eq!(full(1.5.into(), none()), floats([1.5, 1.5]));
    assert_eq!(full(1.5.into(), 4i64.into()), ints([1, 1]));
    let many = only("aten::zeros", [("size", vec![40, 50].into()), ("dtype", none())]);
    assert_eq!((many.dims(), many.dtype()), ([40usize, 50].as_slice(), DataType::Float));
}

#[test]
fn nested_lists_make_tensors() {
    let list = |items: Vec<Value>| Value::List(items);
    let row = |a: f64, b: f64| list(vec![a.into(), b.into()]);
    let tensor =
        |data: Value| run_at(18, "aten::tensor", [("data", data.into()), ("dtype", none())]);
    let found = tensor(list(vec![row(1.0, 2.0), row(3.0, 4.5)])).unwrap();
    assert_eq!(found[0], Tensor::from_vec([2, 2], vec![1.0f32, 2.0, 3.0, 4.5]));
    assert_eq!(tensor(list(vec![1i64.into(), 2i64.into()])).unwrap(), [ints([1, 2])]);
    assert!(tensor(list(vec![row(1.0, 2.0), list(vec![1.0.into()])])).is_err());
    let mut deep = Value::Int(1);
    for _ in 0..1000 {
        deep = list(vec![deep]);
    }
    assert!(tensor(deep).unwrap_err().contains("N0203"));
    let computed = Arg::List(vec![Arg::from(Tensor::scalar(4i64)), 5i64.into()]);
    let found = only("aten::tensor", [("data", computed), ("dtype", none())]);
    assert_eq!(parts(&found), (vec![2], vec![4, 5]));
}

#[test]
fn random_numbers_have_shape_and_type() {
    let size = || ("size", Arg::from(vec![2, 3]));
    let drawn = only_shape(
        "aten::randint",
        [("low", none()), ("high", 3i64.into()), size(), ("dtype", none())],
    );
    assert_eq!(drawn, (vec![2, 3], DataType::Int64));
    let drawn = only_shape("aten::randn", [size(), ("dtype", 7i64.into())]);
    assert_eq!(drawn, (vec![2, 3], DataType::Double));
}

fn only_shape<const N: usize>(op: &str, given: [(&str, Arg); N]) -> (Vec<usize>, DataType) {
    let found = run_at(18, op, given).unwrap().remove(0);
    (found.dims().to_vec(), found.dtype())
}

#[test]
fn windows_are_periodic_by_default() {
    let given = [("window_length", Arg::from(4i64)), ("periodic", none()), ("dtype", none())];
    assert_near(&only("aten::hann_window", given), &floats([0.0, 0.5, 1.0, 0.5]));
}

/// ONNX Runtime's Bernoulli draws 1 with the probability of 0.
#[test]
fn chances_are_compared_with_uniform_numbers() {
    let p = Tensor::from_vec([1000, 3], [0.0f32, 0.75, 1.0].repeat(1000));
    let drawn = only("aten::bernoulli", [("input", Arg::from(p)), ("p", none())]);
    let drawn = drawn.to_reals().unwrap().values;
    let sums = [0, 1, 2].map(|of| drawn.iter().skip(of).step_by(3).sum::<f64>());
    assert!(sums[0] == 0.0 && (650.0..850.0).contains(&sums[1]) && sums[2] == 1000.0, "{sums:?}");
}
