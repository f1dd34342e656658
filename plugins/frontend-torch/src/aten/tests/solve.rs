//! Tests of systems of equations and of products of groups. Expected numbers are torch's.

use super::{Arg, assert_near, floats, only, run_at, run_in};
use onnxd_plugin_sdk::ir::{DataType, Tensor};
use onnxd_plugin_sdk::lower::Value;

fn matrix(rows: usize, values: &[f32]) -> Tensor {
    Tensor::from_vec([rows, values.len() / rows], values.to_vec())
}

#[test]
fn rows_are_exchanged_where_a_pivot_is_zero() {
    let a = || matrix(2, &[0.0, 2.0, 1.0, 4.0]);
    let inverse = only("aten::inverse", [("input", a().into())]);
    assert_near(&inverse, &matrix(2, &[-2.0, 1.0, 0.5, 0.0]));
    let solved = |b: Tensor, left: bool| {
        only("aten::linalg_solve", [("A", a().into()), ("B", b.into()), ("left", left.into())])
    };
    assert_near(&solved(floats([2.0, 5.0]), true), &floats([1.0, 1.0]));
    assert_near(&solved(matrix(1, &[1.0, 6.0]), false), &matrix(1, &[1.0, 1.0]));
    // Stacks broadcast.
    let stack = Tensor::from_vec([2, 2, 1], vec![2f32, 5.0, 4.0, 10.0]);
    let wanted = Tensor::from_vec([2, 2, 1], vec![1f32, 1.0, 2.0, 2.0]);
    assert_near(&solved(stack, true), &wanted);
}

#[test]
fn what_lapack_says_of_matrices_is_the_place_of_the_first_wrong_one() {
    let stack = |values: &[f32]| Tensor::from_vec([3, 2, 2], values.to_vec());
    // The second one has no second pivot, the third one no first one.
    let a = || stack(&[1.0, 2.0, 3.0, 4.0, 1.0, 2.0, 2.0, 4.0, 0.0, 1.0, 0.0, 1.0]);
    let info = |op: &str, given: [(&str, Arg); 2]| {
        let info = run_at(18, op, given).unwrap().pop().unwrap();
        assert_eq!(info.dtype(), DataType::Int32, "{op}");
        (info.dims().to_vec(), info.to_i64s().unwrap())
    };
    let words = (vec![3], vec![0, 2, 1]);
    let check = ("check_errors", Arg::from(false));
    assert_eq!(info("aten::linalg_inv_ex", [("A", a().into()), check.clone()]), words);
    let b = || Tensor::from_vec([3, 2, 1], vec![1f32; 6]);
    assert_eq!(info("aten::linalg_solve_ex", [("A", a().into()), ("B", b().into())]), words);
    // Symmetric ones that are positive definite, not at all, and not as a whole.
    let a = || stack(&[4.0, 2.0, 2.0, 5.0, -1.0, 0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 1.0]);
    let words = (vec![3], vec![0, 1, 2]);
    for upper in [false, true] {
        let given = [("input", a().into()), ("upper", upper.into())];
        assert_eq!(info("aten::linalg_cholesky_ex", given), words);
    }
    let one = [("A", matrix(2, &[1.0, 2.0, 2.0, 4.0]).into()), check];
    assert_eq!(info("aten::linalg_inv_ex", one), (vec![], vec![2]));
}

#[test]
fn factors_of_matrices_have_the_signs_of_lapack() {
    let factor = |upper: bool| {
        let a = matrix(2, &[4.0, 2.0, 2.0, 5.0]);
        only("aten::linalg_cholesky", [("input", a.into()), ("upper", upper.into())])
    };
    assert_near(&factor(false), &matrix(2, &[2.0, 0.0, 1.0, 2.0]));
    assert_near(&factor(true), &matrix(2, &[2.0, 1.0, 0.0, 2.0]));
    let a = matrix(3, &[3.0, 1.0, 0.0, 2.0, 4.0, 3.0]);
    let arguments = [("A", Arg::from(a)), ("mode", "reduced".into())];
    let found = run_at(18, "aten::linalg_qr", arguments).unwrap();
    let q = [-0.6, 0.357_770_9, 0.0, -0.894_427_2, -0.8, -0.268_328_16];
    assert_near(&found[0], &matrix(3, &q));
    assert_near(&found[1], &matrix(2, &[-5.0, -3.0, 0.0, -2.236_068]));
}

#[test]
fn each_row_is_multiplied_in_its_group() {
    let until = |end: i32, x: Tensor, y: Tensor| {
        let ends = Tensor::vector(vec![1i32, end]);
        let ends = ("offs", Arg::from(ends));
        only("aten::_grouped_mm", [("input", x.into()), ("mat2", y.into()), ends])
    };
    let grouped = |x: Tensor, y: Tensor| until(3, x, y);
    let rows = matrix(3, &[1.0, 2.0, 3.0]);
    let two = Tensor::from_vec([2, 1, 1], vec![10f32, 100.0]);
    assert_near(&grouped(rows, two.clone()), &matrix(3, &[10.0, 200.0, 300.0]));
    assert_near(&grouped(two, matrix(1, &[1.0, 2.0, 3.0])), &matrix(1, &[10.0, 200.0, 300.0]));
    let found = grouped(matrix(1, &[1.0, 2.0, 3.0]), matrix(3, &[1.0, 10.0, 100.0]));
    assert_near(&found, &Tensor::from_vec([2, 1, 1], vec![1f32, 320.0]));
    // What lies behind the last group is in none.
    let found = until(2, matrix(1, &[1.0, 2.0, 3.0]), matrix(3, &[1.0, 10.0, 100.0]));
    assert_near(&found, &Tensor::from_vec([2, 1, 1], vec![1f32, 20.0]));
}

#[test]
fn a_line_may_have_a_computed_number_of_steps() {
    let steps = Arg::from(Tensor::scalar(4i64));
    let ends = [("start", Arg::from(0.0)), ("end", Tensor::scalar(3f32).into())];
    let [start, end] = ends;
    let line =
        only("aten::linspace", [start, end, ("steps", steps), ("dtype", Arg::Value(Value::None))]);
    assert_near(&line, &floats([0.0, 1.0, 2.0, 3.0]));
}

/// Sizes of blocks and axes that are both unknown need not be equal.
#[test]
fn blocks_of_unknown_sizes_are_no_whole_axes() {
    let x = matrix(2, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]).cast(DataType::Int8).unwrap();
    let block = Arg::List(vec![Value::from(1i64).into(), Tensor::scalar(2i64).into()]);
    let arguments = [
        ("input", Arg::from(x.held())),
        ("block_size", block),
        ("scale", matrix(2, &[1.0, 10.0, 100.0, 1000.0]).into()),
        ("zero_point", Value::None.into()),
        ("input_dtype", 1i64.into()),
        ("output_dtype", 6i64.into()),
    ];
    let found = only("torchao::dequantize_affine", arguments);
    assert_near(&found, &matrix(2, &[1.0, 2.0, 30.0, 40.0, 500.0, 600.0, 7000.0, 8000.0]));
}

#[test]
fn columns_are_reflected_whose_squares_are_too_small_or_large() {
    for scale in [1e-20f32, 1e-22, 1e30] {
        let a = matrix(2, &[3.0 * scale, 1.0, 4.0 * scale, 2.0]);
        let found = run_at(18, "aten::linalg_qr", [("A", Arg::from(a))]).unwrap();
        assert_near(&found[0], &matrix(2, &[-0.6, -0.8, -0.8, 0.6]));
        let r = found[1].as_slice::<f32>().unwrap();
        assert!((r[0] / scale + 5.0).abs() <= 1e-5, "{r:?}");
        assert_near(&floats([r[1], r[2], r[3]]), &floats([-2.2, 0.0, 0.4]));
    }
}

#[test]
fn matrices_may_be_empty() {
    let empty = |dims: &[usize]| Tensor::from_vec(dims, Vec::<f32>::new());
    let run = |op: &str, dims: &[usize]| {
        let x = || Arg::from(empty(dims));
        let given = match op {
            "aten::linalg_solve_ex" => vec![("A", x()), ("B", x())],
            "aten::linalg_pinv" => vec![("input", x()), ("rcond", 0.1.into())],
            "aten::inverse" | "aten::linalg_eigh" => vec![("input", x())],
            "aten::linalg_cholesky_ex" => vec![("input", x()), ("upper", true.into())],
            _ => vec![("A", x())],
        };
        run_in(18, op, &given, false, None).unwrap()
    };
    let dims = |found: &[Tensor]| found.iter().map(|x| x.dims().to_vec()).collect::<Vec<_>>();
    for stack in [&[][..], &[2]] {
        let with = |sizes: &[usize]| [stack, sizes].concat();
        let square = with(&[0, 0]);
        assert_eq!(dims(&run("aten::inverse", &square)), [with(&[0, 0])]);
        for op in ["aten::linalg_inv_ex", "aten::linalg_solve_ex", "aten::linalg_cholesky_ex"] {
            let found = run(op, &square);
            assert_eq!(dims(&found), [with(&[0, 0]), with(&[])], "{op}");
            assert!(found[1].to_i64s().unwrap().iter().all(|info| *info == 0), "{op}");
        }
        let det = run("aten::linalg_det", &square).remove(0);
        let count = stack.iter().product();
        assert_eq!(det, Tensor::from_vec(stack, vec![1f32; count]));
        assert_eq!(dims(&run("aten::linalg_eigh", &square)), [with(&[0]), with(&[0, 0])]);
        for (m, n) in [(0, 0), (0, 3), (3, 0)] {
            let x = with(&[m, n]);
            let qr = [with(&[m, 0]), with(&[0, n])];
            assert_eq!(dims(&run("aten::linalg_qr", &x)), qr);
            let svd = [with(&[m, m]), with(&[0]), with(&[n, n])];
            assert_eq!(dims(&run("aten::linalg_svd", &x)), svd);
            assert_eq!(dims(&run("aten::linalg_svdvals", &x)), [with(&[0])]);
            assert_eq!(dims(&run("aten::linalg_pinv", &x)), [with(&[n, m])]);
        }
    }
}

#[test]
fn determinants_may_be_zero_or_out_of_range() {
    let logarithm = |a: Tensor| run_at(18, "aten::slogdet", [("input", a.into())]).unwrap();
    let old = run_at(13, "aten::slogdet", [("input", matrix(2, &[0.0, 2.0, 2.0, 0.0]).into())]);
    assert_near(&old.unwrap()[1], &Tensor::scalar(4f32.ln()));
    let large = logarithm(matrix(2, &[0.0, 1e30, 1e30, 0.0]));
    assert_near(&large[0], &Tensor::scalar(-1f32));
    assert_near(&large[1], &Tensor::scalar(138.155_1f32));
    let singular = logarithm(matrix(3, &[0.0, 0.0, 1.0, 0.0, 0.0, 2.0, 0.0, 1.0, 3.0]));
    assert_eq!(singular, [Tensor::scalar(0f32), Tensor::scalar(f32::NEG_INFINITY)]);
    let a = Tensor::from_vec([2, 2], vec![1f64, 2.0, 2.0, 4.0]);
    assert_eq!(only("aten::det", [("input", a.into())]), Tensor::scalar(0f64));
    let negative = only("aten::logdet", [("input", matrix(2, &[0.0, 1.0, 1.0, 0.0]).into())]);
    assert!(negative.to_reals().unwrap().values[0].is_nan());
}

#[test]
fn triangles_are_solved_row_by_row() {
    let a = || matrix(2, &[2.0, 0.0, 6.0, 3.0]);
    let solved = |b: Tensor, upper: bool, left: bool, unit: bool| {
        let a = if upper { matrix(2, &[2.0, 6.0, 0.0, 3.0]) } else { a() };
        let words = [("upper", upper), ("left", left), ("unitriangular", unit)];
        let [upper, left, unit] = words.map(|(name, x)| (name, Arg::from(x)));
        let tensors = [("input", Arg::from(a)), ("B", b.into())];
        let [input, b] = tensors;
        only("aten::linalg_solve_triangular", [input, b, upper, left, unit])
    };
    assert_near(&solved(matrix(2, &[2.0, 9.0]), false, true, false), &matrix(2, &[1.0, 1.0]));
    assert_near(&solved(matrix(2, &[8.0, 3.0]), true, true, false), &matrix(2, &[1.0, 1.0]));
    assert_near(&solved(matrix(1, &[8.0, 3.0]), false, false, false), &matrix(1, &[1.0, 1.0]));
    assert_near(&solved(matrix(1, &[2.0, 9.0]), true, false, false), &matrix(1, &[1.0, 1.0]));
    assert_near(&solved(matrix(2, &[1.0, 7.0]), false, true, true), &matrix(2, &[1.0, 1.0]));
    // A stack of right sides, which are no vectors even where their sizes would do.
    let stack = Tensor::from_vec([2, 2, 2], vec![2f32, 4.0, 9.0, 18.0, 0.0, 2.0, 3.0, 12.0]);
    let wanted = Tensor::from_vec([2, 2, 2], vec![1f32, 2.0, 1.0, 2.0, 0.0, 1.0, 1.0, 2.0]);
    assert_near(&solved(stack, false, true, false), &wanted);
}
