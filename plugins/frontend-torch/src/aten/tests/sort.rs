//! Tests of order, unique elements and counts. Expected numbers are torch's.

use super::{Arg, all, bools, floats, ints};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;

fn flags<const N: usize>(given: [(&'static str, bool); N]) -> [(&'static str, Arg); N] {
    given.map(|(name, flag)| (name, flag.into()))
}

#[test]
fn equal_elements_keep_their_order() {
    let sorted = |descending: bool| {
        let input = ("input", Arg::from(ints([2, 1, 2, 1])));
        let [descending, stable] = flags([("descending", descending), ("stable", true)]);
        all("aten::sort", [input, ("dim", (-1i64).into()), descending, stable])
    };
    assert_eq!(sorted(false), [ints([1, 1, 2, 2]), ints([1, 3, 0, 2])]);
    assert_eq!(sorted(true), [ints([2, 2, 1, 1]), ints([0, 2, 1, 3])]);
}

#[test]
fn types_that_runtimes_do_not_compare_come_back() {
    let [largest, sorted] = flags([("largest", true), ("sorted", true)]);
    let input = ("input", Arg::from(Tensor::vector(vec![3i16, 9, -4])));
    let top = [input, ("k", 2i64.into()), ("dim", 0i64.into()), largest, sorted];
    assert_eq!(all("aten::topk", top), [Tensor::vector(vec![9i16, 3]), ints([1, 0])]);
}

#[test]
fn unique_elements_say_where_they_are() {
    let x = || ("input", Arg::from(Tensor::from_vec([2, 2], vec![5i64, 3, 5, 4])));
    let [sorted, inverse, counts] =
        flags([("sorted", true), ("return_inverse", true), ("return_counts", true)]);
    let found = all("aten::_unique2", [x(), sorted, inverse, counts]);
    let places = Tensor::from_vec([2, 2], vec![2i64, 0, 2, 1]);
    assert_eq!(found, [ints([3, 4, 5]), places, ints([1, 1, 2])]);
    let [sorted, inverse] = flags([("sorted", true), ("return_inverse", false)]);
    let input = ("input", Arg::from(bools([true, false, true])));
    assert_eq!(all("aten::_unique", [input, sorted, inverse])[0], bools([false, true]));
}

#[test]
fn runs_of_equal_elements_are_one() {
    let [inverse, counts] = flags([("return_inverse", true), ("return_counts", true)]);
    let input = ("input", Arg::from(ints([1, 1, 2, 1, 1, 1])));
    let arguments = [input, inverse, counts, ("dim", Value::None.into())];
    let found = all("aten::unique_consecutive", arguments);
    assert_eq!(found, [ints([1, 2, 1]), ints([0, 0, 1, 2, 2, 2]), ints([2, 1, 3])]);
}

#[test]
fn numbers_are_counted() {
    let count = |weights: Arg, least: i64| {
        let input = ("input", Arg::from(ints([0, 2, 2])));
        all("aten::bincount", [input, ("weights", weights), ("minlength", least.into())]).remove(0)
    };
    assert_eq!(count(Value::None.into(), 0), ints([1, 0, 2]));
    assert_eq!(count(Value::None.into(), 4), ints([1, 0, 2, 0]));
    assert_eq!(count(floats([0.5, 1.0, 2.0]).into(), 0), floats([0.5, 0.0, 3.0]));
    let input = ("input", Arg::from(floats([0.0, 1.0, 1.5, 2.0, 5.0])));
    let range = [("bins", 2i64), ("min", 0), ("max", 2)].map(|(n, x)| (n, Arg::from(x)));
    let [bins, min, max] = range;
    assert_eq!(all("aten::histc", [input, bins, min, max]), [floats([1.0, 3.0])]);
}
