//! Tests of shapes, views, joins and diagonals. Expected numbers are torch's.

use super::{Arg, all, counted, only, parts, run_at};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;

fn x<const N: usize>(dims: [usize; N]) -> (&'static str, Arg) {
    ("input", counted(dims).into())
}

fn dims(x: &Tensor) -> Vec<usize> {
    x.dims().to_vec()
}

fn none() -> Arg {
    Value::None.into()
}

#[test]
fn shapes_are_computed_with_what_is_left() {
    let view = |size: Vec<i64>| dims(&only("aten::view", [x([2, 3, 4]), ("size", size.into())]));
    assert_eq!(view(vec![2, -1]), [2, 12]);
    assert_eq!(view(vec![-1]), [24]);
    let flatten = |start: i64, end: i64| {
        let ends = [x([2, 3, 4, 5]), ("start_dim", start.into()), ("end_dim", end.into())];
        dims(&only("aten::flatten", ends))
    };
    assert_eq!(flatten(0, -1), [120]);
    assert_eq!(flatten(1, 2), [2, 12, 5]);
    assert_eq!(flatten(2, 2), [2, 3, 4, 5]);
    let apart = [x([2, 6, 4]), ("dim", 1i64.into()), ("sizes", vec![-1, 2].into())];
    assert_eq!(dims(&only("aten::unflatten", apart)), [2, 3, 2, 4]);
}

#[test]
fn a_scalar_has_one_element_when_it_is_flat() {
    let scalar = ("input", Arg::from(Tensor::scalar(3i64)));
    let flat = [scalar.clone(), ("start_dim", 0i64.into()), ("end_dim", (-1i64).into())];
    assert_eq!(parts(&only("aten::flatten", flat)), (vec![1], vec![3]));
    assert_eq!(dims(&only("aten::atleast_3d", [scalar])), [1, 1, 1]);
    assert_eq!(dims(&only("aten::atleast_3d", [x([2])])), [1, 2, 1]);
}

#[test]
fn shapes_without_elements_are_kept_apart_from_copied_sizes() {
    let empty = ("input", Arg::from(counted([2, 0])));
    let found = run_at(18, "aten::view", [empty.clone(), ("size", vec![0, 4].into())]).unwrap();
    assert_eq!(dims(&found[0]), [0, 4]);
    let old = run_at(13, "aten::view", [empty, ("size", vec![0, 4].into())]).unwrap_err();
    assert!(old.contains("N0203") && old.contains("opset 14"), "{old}");
}

#[test]
fn sizes_of_minus_one_are_kept_when_expanding() {
    let expand = |size: Vec<i64>| {
        let arguments = [x([2, 1]), ("size", size.into()), ("implicit", false.into())];
        parts(&only("aten::expand", arguments))
    };
    assert_eq!(expand(vec![-1, 2]), (vec![2, 2], vec![0, 0, 1, 1]));
    assert_eq!(expand(vec![2, -1, -1]), (vec![2, 2, 1], vec![0, 1, 0, 1]));
}

#[test]
fn repeats_are_in_blocks_or_next_to_each_other() {
    let blocks = [x([1, 2]), ("repeats", vec![2, 1, 2].into())];
    let found = parts(&only("aten::repeat", blocks));
    assert_eq!(found, (vec![2, 1, 4], vec![0, 1, 0, 1, 0, 1, 0, 1]));
    let by = |repeats: Arg, op: &str| {
        let rest = [("dim", Arg::from(1i64)), ("output_size", none())];
        let [dim, size] = rest;
        parts(&only(op, [x([1, 3]), ("repeats", repeats), dim, size])).1
    };
    assert_eq!(by(2i64.into(), "aten::repeat_interleave.self_int"), [0, 0, 1, 1, 2, 2]);
    let each = Tensor::vector(vec![1i64, 0, 2]);
    assert_eq!(by(each.into(), "aten::repeat_interleave.self_Tensor"), [0, 2, 2]);
}

#[test]
fn axes_move() {
    let moved = [x([2, 3, 4]), ("source", 0i64.into()), ("destination", (-1i64).into())];
    assert_eq!(dims(&only("aten::movedim", moved)), [3, 4, 2]);
    let swapped = [x([2, 3, 4]), ("dim0", 0i64.into()), ("dim1", (-1i64).into())];
    assert_eq!(dims(&only("aten::transpose", swapped)), [4, 3, 2]);
    let flipped = only("aten::flip", [x([2, 2]), ("dims", vec![-1].into())]);
    assert_eq!(parts(&flipped).1, [1, 0, 3, 2]);
    let rolled = |shift: i64| {
        let arguments = [x([1, 4]), ("shifts", vec![shift].into()), ("dims", vec![1].into())];
        parts(&only("aten::roll", arguments)).1
    };
    assert_eq!(rolled(1), [3, 0, 1, 2]);
    assert_eq!(rolled(-5), [1, 2, 3, 0]);
}

#[test]
fn pixels_are_shuffled_as_torch_orders_channels() {
    let up = only("aten::pixel_shuffle", [x([1, 4, 1, 2]), ("upscale_factor", 2i64.into())]);
    assert_eq!(parts(&up), (vec![1, 1, 2, 4], vec![0, 2, 1, 3, 4, 6, 5, 7]));
    let down = only("aten::pixel_unshuffle", [x([2, 2, 2]), ("downscale_factor", 2i64.into())]);
    assert_eq!(parts(&down), (vec![8, 1, 1], (0..8).collect()));
}

#[test]
fn parts_are_as_pythons_slices() {
    let slice = |start: Arg, end: Arg, step: i64| {
        let range = [("start", start), ("end", end), ("step", step.into())];
        let [start, end, step] = range;
        parts(&only("aten::slice", [x([5]), ("dim", 0i64.into()), start, end, step])).1
    };
    assert_eq!(slice((-2i64).into(), none(), 1), [3, 4]);
    assert_eq!(slice(none(), 100i64.into(), 2), [0, 2, 4]);
    assert_eq!(slice(3i64.into(), 1i64.into(), 1), [0i64; 0]);
    let narrow = |start: i64| {
        let range = [("start", Arg::from(start)), ("length", 2i64.into())];
        let [start, length] = range;
        parts(&only("aten::narrow", [x([5]), ("dim", 0i64.into()), start, length])).1
    };
    assert_eq!(narrow(-2), [3, 4]);
    assert_eq!(narrow(1), [1, 2]);
}

#[test]
fn parts_are_written() {
    let src = ("src", Arg::from(Tensor::from_vec([2, 2], vec![-1i64, -2, -3, -4])));
    let range = |dim: i64, start: i64, step: i64| {
        let [dim, start, step] =
            [("dim", dim), ("start", start), ("step", step)].map(|(name, x)| (name, Arg::from(x)));
        let arguments = [x([2, 4]), src.clone(), dim, start, ("end", none()), step];
        parts(&only("aten::slice_scatter", arguments)).1
    };
    assert_eq!(range(1, 2, 1), [0, 1, -1, -2, 4, 5, -3, -4]);
    assert_eq!(range(1, -2, 1), [0, 1, -1, -2, 4, 5, -3, -4]);
    assert_eq!(range(1, 1, 2), [0, -1, 2, -2, 4, -3, 6, -4]);
    let column = ("src", Arg::from(Tensor::vector(vec![-1i64, -2])));
    let arguments = [x([2, 2]), column, ("dim", 1i64.into()), ("index", (-1i64).into())];
    assert_eq!(parts(&only("aten::select_scatter", arguments)).1, [0, -1, 2, -2]);
}

#[test]
fn joined_tensors_have_a_common_type() {
    let both = Arg::List(vec![counted([1, 2]).into(), super::floats([]).into()]);
    let empty = run_at(18, "aten::cat", [("tensors", both), ("dim", 1i64.into())]).unwrap();
    assert_eq!(empty[0], Tensor::from_vec([1, 2], vec![0.0f32, 1.0]));
    let two = || Arg::List(vec![counted([2]).into(), counted([2]).into()]);
    let stacked = only("aten::stack", [("tensors", two()), ("dim", (-1i64).into())]);
    assert_eq!(parts(&stacked), (vec![2, 2], vec![0, 0, 1, 1]));
    assert_eq!(dims(&only("aten::column_stack", [("tensors", two())])), [2, 2]);
    assert_eq!(dims(&only("aten::hstack", [("tensors", two())])), [4]);
}

#[test]
fn the_last_part_may_be_shorter() {
    let sizes = |op: &str, name: &str, by: Arg| -> Vec<Vec<usize>> {
        let [input, dim] = [x([5]), ("dim", 0i64.into())];
        run_at(18, op, [input, (name, by), dim]).unwrap().iter().map(dims).collect()
    };
    assert_eq!(sizes("aten::split.Tensor", "split_size", 2i64.into()), [[2], [2], [1]]);
    assert_eq!(sizes("aten::chunk", "chunks", 4i64.into()), [[2], [2], [1]]);
    let even = || [x([5]), ("sections", 3i64.into()), ("dim", 0i64.into())];
    let found = all("aten::tensor_split.sections", even());
    assert_eq!(found.iter().map(dims).collect::<Vec<_>>(), [[2], [2], [1]]);
    let cut = [x([5]), ("indices", vec![1, -1].into()), ("dim", 0i64.into())];
    let found = all("aten::tensor_split.indices", cut);
    assert_eq!(found.iter().map(dims).collect::<Vec<_>>(), [[1], [3], [1]]);
}

#[test]
fn diagonals_are_read_and_written() {
    let at = |offset: i64, dim1: i64, dim2: i64| {
        [("offset", offset), ("dim1", dim1), ("dim2", dim2)].map(|(n, x)| (n, Arg::from(x)))
    };
    let read = |offset| {
        let [offset, one, two] = at(offset, 0, 1);
        parts(&only("aten::diagonal", [x([2, 3]), offset, one, two])).1
    };
    assert_eq!(read(0), [0, 4]);
    assert_eq!(read(1), [1, 5]);
    assert_eq!(read(-1), [3]);
    let [offset, one, two] = at(1, -2, -1);
    let matrix = only("aten::diag_embed", [("input", counted([2]).into()), offset, one, two]);
    assert_eq!(parts(&matrix), (vec![3, 3], vec![0, 0, 0, 0, 0, 1, 0, 0, 0]));
    let [offset, one, two] = at(0, 0, 1);
    let src = ("src", Arg::from(Tensor::vector(vec![-1i64, -2])));
    let written = run_at(18, "aten::diagonal_scatter", [x([2, 2]), src, offset, one, two]);
    assert_eq!(parts(&written.unwrap()[0]).1, [-1, 1, 2, -2]);
}

#[test]
fn triangles_are_the_same_in_old_versions() {
    for opset in [13, 18] {
        let lower = run_at(opset, "aten::tril", [x([2, 3]), ("diagonal", 1i64.into())]).unwrap();
        assert_eq!(parts(&lower[0]).1, [0, 1, 0, 3, 4, 5], "{opset}");
    }
}

#[test]
fn windows_slide() {
    let by = [("dimension", 0i64), ("size", 3), ("step", 2)].map(|(n, x)| (n, Arg::from(x)));
    let [dimension, size, step] = by;
    let found = only("aten::unfold", [x([5]), dimension, size, step]);
    assert_eq!(parts(&found), (vec![2, 3], vec![0, 1, 2, 2, 3, 4]));
}
