use crate::testing::{assert_near, bools, ints, reals, run, try_all, try_run, word};
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, Tensor};

fn matrix() -> Tensor {
    Tensor::from_vec(vec![2, 3], vec![1i32, 2, 3, 4, 5, 6])
}

fn list(values: &[i64]) -> Tensor {
    Tensor::vector(values.to_vec())
}

#[test]
fn reshape_copies_and_infers() {
    let x = matrix();
    assert_eq!(run("Reshape", 14, &[], &[&x, &list(&[0, -1, 1])]).dims(), [2, 3, 1]);
    assert!(try_run("Reshape", 14, &[], &[&x, &list(&[-1, -1])]).is_err());
    assert!(try_run("Reshape", 14, &[], &[&x, &list(&[4, -1])]).is_err());
    assert!(try_run("Reshape", 14, &[], &[&x, &list(&[i64::MAX, 2])]).is_err());
    let empty = Tensor::from_vec(vec![0, 3], Vec::<f32>::new());
    let zero = [("allowzero", Attr::Int(1))];
    assert_eq!(run("Reshape", 14, &zero, &[&empty, &list(&[3, 0])]).dims(), [3, 0]);
}

#[test]
fn slices_of_both_eras_and_directions() {
    let x = matrix();
    let attrs = [("starts", ints(&[1])), ("ends", ints(&[1000])), ("axes", ints(&[1]))];
    assert_eq!(run("Slice", 1, &attrs, &[&x]).to_i64s().unwrap(), [2, 3, 5, 6]);
    let back = [&x, &list(&[-1]), &list(&[i64::MIN]), &list(&[-1]), &list(&[-2])];
    assert_eq!(run("Slice", 13, &[], &back).to_i64s().unwrap(), [3, 1, 6, 4]);
    let none = [&x, &list(&[2]), &list(&[1]), &list(&[0]), &list(&[1])];
    assert_eq!(run("Slice", 13, &[], &none).dims(), [0, 3]);
}

#[test]
fn padding_in_every_mode() {
    let x = list(&[1, 2, 3]);
    let pad = |mode, pads: &[i64]| {
        run("Pad", 19, &[("mode", word(mode))], &[&x, &list(pads)]).to_i64s().unwrap()
    };
    assert_eq!(pad("constant", &[1, -1]), [0, 1, 2]);
    assert_eq!(pad("edge", &[2, 1]), [1, 1, 1, 2, 3, 3]);
    assert_eq!(pad("reflect", &[2, 1]), [3, 2, 1, 2, 3, 2]);
    assert_eq!(pad("wrap", &[1, 2]), [3, 1, 2, 3, 1, 2]);
    let attrs = [("pads", ints(&[1, 0])), ("value", Attr::Float(7.0))];
    assert_eq!(run("Pad", 2, &attrs, &[&x]).to_i64s().unwrap(), [7, 1, 2, 3]);
    assert_eq!(pad("constant", &[i64::MIN, i64::MAX]), [0, 0]);
    let huge = try_run("Pad", 13, &[], &[&x, &list(&[i64::MAX - 3, 0])]);
    assert_eq!(huge.unwrap_err().code, "N0305");
}

#[test]
fn gathering() {
    let x = matrix();
    let columns = [("axis", Attr::Int(1))];
    let y = run("Gather", 13, &columns, &[&x, &Tensor::from_vec(vec![1, 2], vec![-1i64, 0])]);
    assert_eq!((y.dims(), y.to_i64s().unwrap()), (&[2usize, 1, 2][..], vec![3, 1, 6, 4]));
    assert!(try_run("Gather", 13, &[], &[&x, &list(&[2])]).is_err());
    let at = Tensor::from_vec(vec![1, 3], vec![1i64, 0, 1]);
    assert_eq!(run("GatherElements", 13, &[], &[&x, &at]).to_i64s().unwrap(), [4, 2, 6]);
    let pairs = Tensor::from_vec(vec![2, 2], vec![0i64, 1, 1, -1]);
    assert_eq!(run("GatherND", 13, &[], &[&x, &pairs]).to_i64s().unwrap(), [2, 6]);
}

#[test]
fn scattering() {
    let x = matrix();
    let at = Tensor::from_vec(vec![1, 2], vec![1i64, 1]);
    let updates = Tensor::from_vec(vec![1, 2], vec![10i32, 20]);
    let y = run("ScatterElements", 18, &[], &[&x, &at, &updates]);
    assert_eq!(y.to_i64s().unwrap(), [1, 2, 3, 10, 20, 6]);
    let rows = Tensor::from_vec(vec![2, 1], vec![0i64, 0]);
    let add = [("reduction", word("add"))];
    let updates = Tensor::from_vec(vec![2, 3], vec![1i32; 6]);
    let y = run("ScatterND", 18, &add, &[&x, &rows, &updates]);
    assert_eq!(y.to_i64s().unwrap(), [3, 4, 5, 4, 5, 6]);
}

#[test]
fn splitting() {
    use crate::testing::try_all;
    let x = Some(list(&[1, 2, 3, 4, 5]));
    let parts = try_all("Split", 18, &[("num_outputs", Attr::Int(2))], std::slice::from_ref(&x), 2)
        .unwrap();
    assert_eq!(parts[1].to_i64s().unwrap(), [4, 5]);
    let parts =
        try_all("Split", 11, &[("split", ints(&[1, 4]))], std::slice::from_ref(&x), 2).unwrap();
    assert_eq!(parts[0].to_i64s().unwrap(), [1]);
    assert!(try_all("Split", 13, &[], &[x, Some(list(&[1, 5]))], 2).is_err());
}

#[test]
fn repeating() {
    let x = Tensor::from_vec(vec![2, 1], vec![1i32, 2]);
    assert_eq!(run("Expand", 13, &[], &[&x, &list(&[2, 1, 2])]).dims(), [2, 2, 2]);
    let y = run("Tile", 13, &[], &[&x, &list(&[2, 2])]);
    assert_eq!(y.to_i64s().unwrap(), [1, 1, 2, 2, 1, 1, 2, 2]);
    assert_eq!(run("Tile", 13, &[], &[&x, &list(&[0, 3])]).dims(), [0, 3]);
    let huge = try_run("Expand", 13, &[], &[&x, &list(&[1 << 40, 1, 1])]);
    assert_eq!(huge.unwrap_err().code, "N0305");
    let empty = try_run("Expand", 13, &[], &[&list(&[]), &list(&[1 << 40, 1 << 40, 0])]);
    assert_eq!(empty.unwrap_err().code, "N0305", "nothing, along axes that overflow");
}

#[test]
fn blocks_of_space() {
    let x = Tensor::from_vec(vec![1, 4, 1, 1], vec![1f32, 2.0, 3.0, 4.0]);
    let attrs = [("blocksize", Attr::Int(2))];
    let y = run("DepthToSpace", 13, &attrs, &[&x]);
    assert_eq!((y.dims(), reals(&y)), (&[1usize, 1, 2, 2][..], vec![1.0, 2.0, 3.0, 4.0]));
    assert_eq!(run("SpaceToDepth", 13, &attrs, &[&y]), x);
}

#[test]
fn casts() {
    let to = |dtype: DataType| [("to", Attr::Int(dtype.number().into()))];
    let x = Tensor::vector(vec![-1.9f32, 0.0, 300.7]);
    assert_eq!(run("Cast", 13, &to(DataType::Int32), &[&x]).to_i64s().unwrap(), [-1, 0, 300]);
    assert_eq!(run("Cast", 13, &to(DataType::Bool), &[&x]), bools(&[true, false, true]));
    let wide = list(&[300, -1]);
    assert_eq!(run("Cast", 13, &to(DataType::Uint8), &[&wide]).to_i64s().unwrap(), [44, 255]);
    let half = run("Cast", 13, &to(DataType::Float16), &[&Tensor::scalar(65520f32)]);
    assert_eq!(reals(&half), [f64::INFINITY]);
    let text = run("Cast", 13, &to(DataType::String), &[&wide]);
    assert_eq!(run("Cast", 13, &to(DataType::Int64), &[&text]), wide);
    let big = list(&[i64::MAX]);
    let exact = run("Cast", 13, &to(DataType::Uint64), &[&big]);
    assert_eq!(exact.to_i64s().unwrap(), [i64::MAX]);
    assert!(try_run("Cast", 13, &[("to", Attr::Int(99))], &[&x]).is_err());
}

#[test]
fn selections() {
    let x = Tensor::from_vec(vec![2, 2], vec![0i32, 1, 2, 0]);
    let y = run("NonZero", 13, &[], &[&x]);
    assert_eq!((y.dims(), y.to_i64s().unwrap()), (&[2usize, 2][..], vec![0, 1, 1, 0]));
    let hot = run("OneHot", 11, &[], &[&list(&[1, -1, 5]), &list(&[2]), &list(&[0, 9])]);
    assert_eq!((hot.dims(), hot.to_i64s().unwrap()), (&[3usize, 2][..], vec![0, 9, 0, 9, 0, 0]));
    let upper = run("Trilu", 14, &[], &[&Tensor::from_vec(vec![2, 2], vec![1i32; 4])]);
    assert_eq!(upper.to_i64s().unwrap(), [1, 1, 0, 1]);
    let range = run(
        "Range",
        11,
        &[],
        &[&Tensor::scalar(5i32), &Tensor::scalar(0i32), &Tensor::scalar(-2i32)],
    );
    assert_eq!(range.to_i64s().unwrap(), [5, 3, 1]);
}

#[test]
fn axes_of_size_one() {
    let x = Tensor::from_vec(vec![1, 3, 1], vec![1i32, 2, 3]);
    assert_eq!(run("Squeeze", 13, &[], &[&x, &list(&[-1])]).dims(), [1, 3]);
    assert_eq!(run("Squeeze", 11, &[("axes", ints(&[0]))], &[&x]).dims(), [3, 1]);
    assert!(try_run("Squeeze", 13, &[], &[&x, &list(&[1])]).is_err());
    assert_eq!(run("Unsqueeze", 13, &[], &[&x, &list(&[-1, 0])]).dims(), [1, 1, 3, 1, 1]);
    let part = [("start", Attr::Int(-2)), ("end", Attr::Int(-1))];
    assert_eq!(run("Shape", 15, &part, &[&x]).to_i64s().unwrap(), [3]);
}

#[test]
fn resampling() {
    let x = Tensor::from_vec(vec![1, 1, 1, 2], vec![1f32, 3.0]);
    let none = Tensor::vector(Vec::<f32>::new());
    let scales = Tensor::vector(vec![1f32, 1.0, 1.0, 2.0]);
    let resize = |mode, how| {
        let attrs = [("mode", word(mode)), ("coordinate_transformation_mode", word(how))];
        run("Resize", 13, &attrs, &[&x, &none, &scales])
    };
    assert_near(&resize("linear", "half_pixel"), &[1.0, 1.5, 2.5, 3.0], 1e-6);
    assert_near(&resize("linear", "align_corners"), &[1.0, 5.0 / 3.0, 7.0 / 3.0, 3.0], 1e-6);
    assert_near(&resize("linear", "asymmetric"), &[1.0, 2.0, 3.0, 3.0], 1e-6);
    assert_near(&resize("nearest", "asymmetric"), &[1.0, 1.0, 3.0, 3.0], 0.0);
    let y = run("Upsample", 9, &[("mode", word("linear"))], &[&x, &scales]);
    assert_near(&y, &[1.0, 2.0, 3.0, 3.0], 1e-6);
    let bad = Tensor::vector(vec![1f32, 1.0, 1.0, f32::NAN]);
    assert!(try_run("Resize", 13, &[], &[&x, &none, &bad]).is_err());
}

#[test]
fn distinct_values_have_one_order_with_nan_last() {
    let nan = f32::NAN;
    let values: Vec<f32> = (0..60).map(|i| [nan, 2.0, -1.0, nan, 0.5][i * 7 % 5]).collect();
    let found = run("Unique", 17, &[], &[&Tensor::vector(values)]);
    assert_near(&found, &[-1.0, 0.5, 2.0, f64::NAN], 0.0);
}

#[test]
fn distinct_strings_are_ordered_by_their_bytes() {
    let words = |list: &[&'static str]| -> Tensor {
        let list: Vec<Bytes> = list.iter().map(|s| Bytes::from(*s)).collect();
        Tensor::strings(vec![list.len()], list).unwrap()
    };
    let x = words(&["b", "ä", "", "b", "B"]);
    let found = try_all("Unique", 11, &[], &[Some(x)], 4).unwrap();
    assert_eq!(found[0], words(&["", "B", "b", "ä"]));
    let numbers: Vec<Vec<i64>> = found[1..].iter().map(|t| t.to_i64s().unwrap()).collect();
    assert_eq!(numbers, [vec![2, 4, 0, 1], vec![2, 3, 0, 2, 1], vec![1, 1, 2, 1]]);
}
