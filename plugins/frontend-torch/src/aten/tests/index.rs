//! Tests of elements that tensors name. Expected numbers are torch's.

use super::{Arg, all, bools, counted, floats, ints, only, parts, run, run_at};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;

fn index(items: Vec<Arg>) -> (&'static str, Arg) {
    ("indices", Arg::List(items))
}

fn none() -> Arg {
    Value::None.into()
}

fn x<const N: usize>(dims: [usize; N]) -> (&'static str, Arg) {
    ("input", counted(dims).into())
}

#[test]
fn indexed_axes_go_where_torch_puts_them() {
    let at = |items| only("aten::index", [x([2, 3, 4]), index(items)]);
    let (one, two) = (|| Arg::from(ints([1, -2])), || Arg::from(ints([0, 1])));
    assert_eq!(parts(&at(vec![none(), one()])).0, [2, 2, 4]);
    // Neighbours stay in place.
    let inner = at(vec![none(), one(), two()]);
    assert_eq!(parts(&inner), (vec![2, 2], vec![4, 5, 16, 17]));
    // Others come first.
    let outer = at(vec![two(), none(), one()]);
    assert_eq!(parts(&outer), (vec![2, 3], vec![1, 5, 9, 14, 18, 22]));
}

#[test]
fn masks_pick_elements() {
    let mask = |items: [bool; 3]| Arg::from(bools(items));
    let rows = only("aten::index", [x([3, 2]), index(vec![mask([true, false, true])])]);
    assert_eq!(parts(&rows), (vec![2, 2], vec![0, 1, 4, 5]));
    let both = vec![mask([true, false, true]), Arg::from(ints([1, 0]))];
    assert_eq!(parts(&only("aten::index", [x([3, 2]), index(both)])).1, [1, 4]);
    let wide = [x([2, 3]), ("mask", bools([false, true, true]).into())];
    assert_eq!(parts(&only("aten::masked_select", wide)).1, [1, 2, 4, 5]);
}

#[test]
fn values_are_put_in_place() {
    let put = |items, values: Tensor, accumulate: bool| {
        let rest = [("values", values.into()), ("accumulate", accumulate.into())];
        let [values, accumulate] = rest;
        parts(&only("aten::index_put", [x([2, 3]), index(items), values, accumulate])).1
    };
    let columns = || vec![none(), Arg::from(ints([0, 2]))];
    assert_eq!(put(columns(), ints([-1, -2]), false), [-1, 1, -2, -1, 4, -2]);
    let twice = || vec![Arg::from(ints([0, 0])), Arg::from(ints([1, 1]))];
    assert_eq!(put(twice(), ints([10]), true), [0, 21, 2, 3, 4, 5]);
    let mask = || vec![Arg::from(bools([false, true]))];
    assert_eq!(put(mask(), ints([7, 8, 9]), false), [0, 1, 2, 7, 8, 9]);
    assert_eq!(put(mask(), ints([1]), true), [0, 1, 2, 4, 5, 6]);
}

#[test]
fn sources_may_be_larger_than_the_index() {
    let index = ("index", Arg::from(Tensor::from_vec([1, 2], vec![2i64, 0])));
    let src = ("src", Arg::from(Tensor::from_vec([2, 3], vec![10i64, 20, 30, 40, 50, 60])));
    let arguments = [x([2, 3]), ("dim", 1i64.into()), index.clone(), src.clone()];
    assert_eq!(parts(&only("aten::scatter", arguments)).1, [20, 1, 10, 3, 4, 5]);
    let arguments = [x([2, 3]), ("dim", 1i64.into()), index, src];
    let old = run_at(13, "aten::scatter_add", arguments).unwrap_err();
    assert!(old.contains("N0203") && old.contains("opset 16"), "{old}");
}

#[test]
fn reductions_may_leave_out_what_was_there() {
    let reduced = |reduce: &str, include: bool| {
        let input = ("input", Arg::from(floats([5.0, 6.0])));
        let index = ("index", Arg::from(ints([0, 0])));
        let src = ("src", Arg::from(floats([1.0, 2.0])));
        let rest = [("reduce", Arg::from(reduce)), ("include_self", include.into())];
        let [reduce, include] = rest;
        let arguments = [input, ("dim", 0i64.into()), index, src, reduce, include];
        only("aten::scatter_reduce", arguments)
    };
    assert_eq!(reduced("sum", false), floats([3.0, 6.0]));
    assert_eq!(reduced("prod", true), floats([10.0, 6.0]));
    assert_eq!(reduced("amin", false), floats([1.0, 6.0]));
    assert_eq!(reduced("mean", true), floats([8.0 / 3.0, 6.0]));
    assert_eq!(reduced("mean", false), floats([1.5, 6.0]));
}

#[test]
fn slices_are_added_along_an_axis() {
    let index = || ("index", Arg::from(ints([1, 1])));
    let source = || ("source", Arg::from(Tensor::from_vec([2, 2], vec![10i64, 20, 30, 40])));
    let add = |dim: i64| {
        let rest = [("dim", Arg::from(dim)), ("alpha", 1i64.into())];
        let [dim, alpha] = rest;
        parts(&only("aten::index_add", [x([2, 2]), dim, index(), source(), alpha])).1
    };
    assert_eq!(add(0), [0, 1, 42, 63]);
    assert_eq!(add(1), [0, 31, 2, 73]);
    let fill = [x([2, 2]), ("dim", 1i64.into()), index(), ("value", 9.7.into())];
    assert_eq!(parts(&only("aten::index_fill", fill)).1, [0, 9, 2, 9]);
}

#[test]
fn masked_places_take_elements_in_order() {
    let mask =
        Tensor::new(onnxd_plugin_sdk::ir::DataType::Bool, vec![2, 2], vec![0, 1, 1, 0].into());
    let mask = ("mask", Arg::from(mask.unwrap()));
    let source = ("source", Arg::from(ints([-1, -2, -3])));
    let found = only("aten::masked_scatter", [x([2, 2]), mask, source]);
    assert_eq!(parts(&found).1, [0, -1, -2, 3]);
}

#[test]
fn bags_of_any_length_are_summed() {
    let weight = || ("weight", Arg::from(Tensor::from_vec([3, 1], vec![1.0f32, 2.0, 4.0])));
    let bags = |mode: i64, offsets: Tensor, padding: Arg| {
        let rest = [
            ("mode", Arg::from(mode)),
            ("per_sample_weights", none()),
            ("include_last_offset", false.into()),
            ("padding_idx", padding),
        ];
        let [mode, weights, last, padding] = rest;
        let [indices, offsets] = [("indices", ints([0, 2, 1]).into()), ("offsets", offsets.into())];
        let given = [weight(), indices, offsets, mode, weights, last, padding];
        let found = all("aten::embedding_bag", given).remove(0);
        found.to_reals().unwrap().values
    };
    assert_eq!(bags(0, ints([0, 2, 2]), none()), [5.0, 0.0, 2.0]);
    assert_eq!(bags(1, ints([0, 2, 2]), none()), [2.5, 0.0, 2.0]);
    assert_eq!(bags(2, ints([0, 2, 2]), none()), [4.0, 0.0, 2.0]);
    assert_eq!(bags(1, ints([0, 2]), 2i64.into()), [1.0, 2.0]);
}

#[test]
fn places_in_sorted_numbers_are_found() {
    let find = |right: bool| {
        let rest = [("out_int32", Arg::from(false)), ("right", right.into())];
        let [short, right] = rest;
        let input = ("input", Arg::from(floats([0.0, 1.0, 3.5])));
        only("aten::bucketize", [input, ("boundaries", ints([1, 3]).into()), short, right])
    };
    assert_eq!(find(false), ints([0, 0, 2]));
    assert_eq!(find(true), ints([0, 1, 2]));
    let hot =
        run("aten::one_hot", [("input", ints([1, 0]).into()), ("num_classes", (-1i64).into())]);
    assert_eq!(parts(&hot), (vec![2, 2], vec![0, 1, 1, 0]));
}
