//! Tests of singular values and eigenvalues: what they are made of comes back, and vectors are orthogonal.

use super::{Arg, assert_near, floats, lowered, only, run_at, run_in};
use onnxd_plugin_sdk::ir::Tensor;
use onnxd_plugin_sdk::lower::Value;

/// A matrix of rows.
#[derive(Clone, Debug)]
struct Matrix {
    width: usize,
    values: Vec<f32>,
}

impl Matrix {
    fn from_tensor(tensor: &Tensor) -> Matrix {
        Matrix { width: tensor.dims()[1], values: tensor.as_slice::<f32>().unwrap().to_vec() }
    }

    fn height(&self) -> usize {
        self.values.len() / self.width
    }

    fn at(&self, row: usize, column: usize) -> f32 {
        self.values[row * self.width + column]
    }

    fn tensor(&self) -> Tensor {
        Tensor::from_vec([self.height(), self.width], self.values.clone())
    }

    fn made(height: usize, width: usize, at: impl Fn(usize, usize) -> f32) -> Matrix {
        let places = (0..height).flat_map(|row| (0..width).map(move |column| (row, column)));
        Matrix { width, values: places.map(|(row, column)| at(row, column)).collect() }
    }

    fn times(&self, other: &Matrix) -> Matrix {
        let at = |i, j| (0..self.width).map(|k| self.at(i, k) * other.at(k, j)).sum();
        Matrix::made(self.height(), other.width, at)
    }

    fn turned(&self) -> Matrix {
        Matrix::made(self.width, self.height(), |i, j| self.at(j, i))
    }

    fn diagonal(height: usize, width: usize, values: &[f32]) -> Matrix {
        Matrix::made(height, width, |i, j| if i == j { values[i] } else { 0.0 })
    }
}

/// Some numbers without a pattern.
fn odd(height: usize, width: usize) -> Matrix {
    Matrix::made(height, width, |i, j| ((i * 37 + j * 101 + i * j * 13) % 29) as f32 / 7.0 - 2.0)
}

/// All results of an operator, with sizes known or not.
fn both(op: &str, arguments: &[(&str, Arg)]) -> [Vec<Tensor>; 2] {
    [false, true].map(|open| run_in(18, op, arguments, open, None).unwrap())
}

fn is_near(found: &Matrix, wanted: &Matrix, scale: f32) {
    assert_eq!(found.width, wanted.width);
    let off = found.values.iter().zip(&wanted.values).map(|(a, b)| (a - b).abs());
    let off = off.fold(0f32, f32::max);
    assert!(off <= 2e-5 * scale, "{off} of {scale}");
}

fn is_orthogonal(x: &Matrix) {
    let ones = vec![1.0; x.width];
    is_near(&x.turned().times(x), &Matrix::diagonal(x.width, x.width, &ones), 1.0);
}

#[test]
fn singular_values_make_the_matrix_again() {
    let repeated = Matrix::made(6, 4, |i, j| odd(6, 4).at(i, j % 2));
    let all = [
        odd(5, 3),
        odd(3, 5),
        odd(2, 2),
        odd(7, 1),
        odd(12, 12),
        repeated,
        Matrix::made(3, 4, |_, _| 0.0),
        Matrix::made(3, 3, |i, j| odd(3, 3).at(i, j) * 1e30),
        Matrix::diagonal(4, 4, &[1.0, 1.0, -1.0, 1.0]),
    ];
    for x in all {
        let (m, n) = (x.height(), x.width);
        let scale = x.values.iter().fold(1f32, |most, x| most.max(x.abs()));
        for whole in [false, true] {
            let given = [("A", x.tensor().into()), ("full_matrices", whole.into())];
            for found in both("aten::linalg_svd", &given) {
                let [u, vh] = [0, 2].map(|at| Matrix::from_tensor(&found[at]));
                let s = found[1].as_slice::<f32>().unwrap();
                assert_eq!(s.len(), m.min(n));
                assert!(s.is_sorted_by(|a, b| a >= b) && s.iter().all(|s| *s >= 0.0), "{s:?}");
                let (rows, columns) = if whole { (m, n) } else { (s.len(), s.len()) };
                assert_eq!((u.height(), u.width, vh.height(), vh.width), (m, rows, columns, n));
                is_orthogonal(&u);
                is_orthogonal(&vh.turned());
                let again = u.times(&Matrix::diagonal(rows, columns, &s)).times(&vh);
                is_near(&again, &x, scale * m.max(n) as f32);
            }
        }
    }
    // Torch's numbers.
    let x = Tensor::from_vec([2, 3], vec![1f32, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let s = only_near("aten::linalg_svdvals", &[("A", x.into())]);
    assert_near(&s, &floats([9.508_032, 0.772_869_6]));
}

/// The one result of an operator, which hardly depends on whether sizes are known.
fn only_near(op: &str, arguments: &[(&str, Arg)]) -> Tensor {
    let [mut known, open] = both(op, arguments);
    let scale = known[0].as_slice::<f32>().unwrap().iter().fold(1f32, |most, x| most.max(x.abs()));
    let flat = |x: &Tensor| Matrix { width: 1, values: x.as_slice::<f32>().unwrap().to_vec() };
    is_near(&flat(&open[0]), &flat(&known[0]), scale);
    known.remove(0)
}

#[test]
fn eigenvalues_make_the_symmetric_matrix_again() {
    let even = |n: usize| Matrix::made(n, n, |i, j| odd(n, n).at(i.min(j), i.max(j)));
    let all = [even(1), even(2), even(5), even(8), Matrix::diagonal(3, 3, &[2.0, -2.0, 2.0])];
    for x in all {
        for half in ["L", "U"] {
            // The other half does not count.
            let own = |i: usize, j: usize| if half == "L" { i >= j } else { i <= j };
            let torn =
                Matrix::made(x.width, x.width, |i, j| if own(i, j) { x.at(i, j) } else { 9.0 });
            let given = [("input", torn.tensor().into()), ("UPLO", half.into())];
            for found in both("aten::linalg_eigh", &given) {
                let values = found[0].as_slice::<f32>().unwrap();
                assert!(values.is_sorted(), "{values:?}");
                let vectors = Matrix::from_tensor(&found[1]);
                is_orthogonal(&vectors);
                let by = Matrix::diagonal(x.width, x.width, &values);
                is_near(&vectors.times(&by).times(&vectors.turned()), &x, 2.0 * x.width as f32);
            }
        }
    }
}

#[test]
fn what_follows_from_singular_values() {
    // Of rank 2: the third row is the sum of the others.
    let x = || Tensor::from_vec([3, 2], vec![1f32, 2.0, 3.0, 4.0, 4.0, 6.0]);
    let wide = || Tensor::from_vec([2, 3], vec![1f32, 2.0, 3.0, 2.0, 4.0, 6.0]);
    let found = only_near("aten::linalg_pinv.atol_rtol_float", &[("input", x().into())]);
    let wanted = [-5f32 / 3.0, 4.0 / 3.0, -1.0 / 3.0, 7.0 / 6.0, -5.0 / 6.0, 1.0 / 3.0];
    assert_near(&found, &Tensor::from_vec([2, 3], wanted.to_vec()));
    // Of rank 1.
    let found = only_near("aten::pinverse", &[("input", wide().into()), ("rcond", 1e-5.into())]);
    let wanted = [1f32, 2.0, 2.0, 4.0, 3.0, 6.0].map(|x| x / 70.0);
    assert_near(&found, &Tensor::from_vec([3, 2], wanted.to_vec()));
    let rank = |x: Tensor| only("aten::linalg_matrix_rank.atol_rtol_float", [("input", x.into())]);
    assert_eq!((rank(x()), rank(wide())), (Tensor::scalar(2i64), Tensor::scalar(1i64)));
    let stack = Tensor::from_vec([2, 2, 2], vec![1f32, 2.0, 2.0, 4.0, 1.0, 2.0, 3.0, 4.0]);
    let ranks = only(
        "aten::linalg_matrix_rank",
        [("input", stack.into()), ("tol", Value::Float(1e-3).into()), ("hermitian", false.into())],
    );
    assert_eq!(ranks, Tensor::vector(vec![1i64, 2]));
}

#[test]
fn norms_of_singular_values() {
    // Stacks of `diag(3, 4)` and `diag(0, 5)` along the second axis.
    let x = || {
        let x = vec![3f32, 0.0, 0.0, 0.0, 0.0, 4.0, 0.0, 5.0];
        Arg::from(Tensor::from_vec([2, 2, 2], x))
    };
    let norm = |ord: Arg, keepdim: bool| {
        let arguments = [
            ("input", x()),
            ("ord", ord),
            ("dim", vec![0i64, 2].into()),
            ("keepdim", keepdim.into()),
            ("dtype", Value::None.into()),
        ];
        only_near("aten::linalg_matrix_norm", &arguments)
    };
    assert_near(&norm("nuc".into(), false), &floats([7.0, 5.0]));
    assert_near(&norm(2.0.into(), false), &floats([4.0, 5.0]));
    let nuclear = |dim: Arg, keepdim: bool| {
        let given = [("input", x()), ("dim", dim), ("keepdim", keepdim.into())];
        only_near("aten::nuclear_norm", &given)
    };
    assert_near(&nuclear(vec![0i64, 2].into(), false), &floats([7.0, 5.0]));
    let kept = Tensor::from_vec([1, 2, 1], vec![7f32, 5.0]);
    assert_near(&nuclear(vec![-1i64, 0].into(), true), &kept);
    assert_near(&nuclear(Value::None.into(), false), &floats([3.0, 41f32.sqrt()]));
    // There is nothing to sum or to compare.
    for ord in [Arg::from("nuc"), 2.0.into()] {
        let none = Tensor::from_vec([0, 3], Vec::<f32>::new());
        let dim = ("dim", vec![0i64, 1].into());
        let given = [("input", none.into()), ("ord", ord), dim, ("keepdim", false.into())];
        assert_eq!(both("aten::linalg_matrix_norm", &given)[0], [Tensor::scalar(0f32)]);
    }
    let least = norm(Value::from(-2i64).into(), true);
    assert_eq!(least.dims(), [1, 2, 1]);
    assert_near(&least, &Tensor::from_vec([1, 2, 1], vec![3f32, 0.0]));
}

#[test]
fn vectors_of_the_old_form_are_as_many_as_torch_gives() {
    let x = odd(5, 3);
    for (x, turn) in [(x.clone(), false), (x.turned(), true)] {
        let svd = |some: bool, compute_uv: bool| {
            let (some, compute_uv) = (some.into(), compute_uv.into());
            both(
                "aten::svd",
                &[("input", x.tensor().into()), ("some", some), ("compute_uv", compute_uv)],
            )
        };
        let dims = |found: &[Tensor]| {
            let [u, v] = if turn { [2, 0] } else { [0, 2] };
            [u, 1, v].map(|at| found[at].dims().to_vec())
        };
        for found in svd(true, true) {
            assert_eq!(dims(&found), [vec![5, 3], vec![3], vec![3, 3]]);
            let s = Matrix::diagonal(3, 3, &found[1].as_slice::<f32>().unwrap());
            let again = Matrix::from_tensor(&found[0])
                .times(&s)
                .times(&Matrix::from_tensor(&found[2]).turned());
            is_near(&again, &x, 5.0);
        }
        for found in svd(false, true) {
            assert_eq!(dims(&found), [vec![5, 5], vec![3], vec![3, 3]]);
            is_orthogonal(&Matrix::from_tensor(&found[0]));
            is_orthogonal(&Matrix::from_tensor(&found[2]));
        }
        let values = svd(true, true)[0][1].clone();
        for found in [svd(true, false), svd(false, false)].into_iter().flatten() {
            assert_eq!(dims(&found), [vec![5, 5], vec![3], vec![3, 3]]);
            assert_near(&found[1], &values);
            let is_zero = |x: &Tensor| x.as_slice::<f32>().unwrap().iter().all(|x| *x == 0.0);
            assert!(is_zero(&found[0]) && is_zero(&found[2]));
        }
    }
    // Zeros beside values that are none, too.
    let none = Tensor::from_vec([2, 2], vec![f32::NAN; 4]);
    let given = [("input", none.into()), ("some", true.into()), ("compute_uv", false.into())];
    assert_eq!(both("aten::svd", &given)[0][0], Tensor::from_vec([2, 2], vec![0f32; 4]));
}

#[test]
fn inner_forms_give_nothing_in_place_of_vectors() {
    let x = odd(4, 3);
    for whole in [false, true] {
        let svd = |compute_uv: bool| {
            let (whole, compute_uv) = (whole.into(), compute_uv.into());
            let given =
                [("A", x.tensor().into()), ("full_matrices", whole), ("compute_uv", compute_uv)];
            both("aten::_linalg_svd", &given)
        };
        for (found, alone) in svd(true).into_iter().zip(svd(false)) {
            let width = if whole { 4 } else { 3 };
            assert_eq!((found[0].dims(), found[2].dims()), (&[4, width][..], &[3, 3][..]));
            is_orthogonal(&Matrix::from_tensor(&found[0]));
            assert_near(&alone[1], &found[1]);
            assert_eq!((alone[0].dims(), alone[2].dims()), (&[0][..], &[0][..]));
        }
    }
    let x = Tensor::from_vec([2, 2], vec![2f32, 1.0, 9.0, 2.0]);
    let eigen = |compute_v: bool| {
        let given =
            [("A", x.clone().into()), ("UPLO", "U".into()), ("compute_v", compute_v.into())];
        both("aten::_linalg_eigh", &given)
    };
    for (found, alone) in eigen(true).into_iter().zip(eigen(false)) {
        assert_near(&found[0], &floats([1.0, 3.0]));
        is_orthogonal(&Matrix::from_tensor(&found[1]));
        assert_near(&alone[0], &found[0]);
        assert_eq!(alone[1].dims(), [0]);
    }
}

#[test]
fn limits_of_inverses_may_be_tensors() {
    // Stacks of `diag(4, -1)` and `diag(2, 0.5)`.
    let x = || Tensor::from_vec([2, 2, 2], vec![4f32, 0.0, 0.0, -1.0, 2.0, 0.0, 0.0, 0.5]);
    let wanted = |values: [f32; 4]| {
        let [a, b, c, d] = values;
        Tensor::from_vec([2, 2, 2], vec![a, 0.0, 0.0, b, c, 0.0, 0.0, d])
    };
    for hermitian in [false, true] {
        let of = |name: &'static str, limit: Tensor| {
            [("input", Arg::from(x())), (name, limit.into()), ("hermitian", hermitian.into())]
        };
        let by = |rcond: Tensor| only_near("aten::linalg_pinv.rcond_tensor", &of("rcond", rcond));
        assert_near(&by(floats([0.3, 0.2])), &wanted([0.25, 0.0, 0.5, 2.0]));
        assert_near(&by(Tensor::scalar(0.26f64)), &wanted([0.25, 0.0, 0.5, 0.0]));
        let within =
            |name, limit| only_near("aten::linalg_pinv.atol_rtol_tensor", &of(name, limit));
        assert_near(&within("atol", floats([0.9, 0.6])), &wanted([0.25, -1.0, 0.5, 0.0]));
        assert_near(&within("rtol", floats([0.3, 0.2])), &wanted([0.25, 0.0, 0.5, 2.0]));
        let found =
            only("aten::linalg_matrix_rank.atol_rtol_tensor", of("atol", floats([1.5, 0.1])));
        assert_eq!(found, Tensor::vector(vec![1i64, 2]));
    }
    // Of a hermitian one, the upper half does not count.
    let torn = Tensor::from_vec([2, 2], vec![2f32, 9.0, 0.0, 4.0]);
    let given = [("input", torn.into()), ("rcond", 1e-5.into()), ("hermitian", true.into())];
    let found = only_near("aten::linalg_pinv", &given);
    assert_near(&found, &Tensor::from_vec([2, 2], vec![0.5f32, 0.0, 0.0, 0.25]));
}

#[test]
fn norms_that_torch_has_not_are_named_by_their_order() {
    let refused = |ord: Arg| {
        let x = Arg::from(odd(2, 2).tensor());
        let given =
            [("input", x), ("ord", ord), ("dim", vec![0i64, 1].into()), ("keepdim", false.into())];
        run_at(18, "aten::linalg_matrix_norm", given).unwrap_err()
    };
    for (ord, word) in [(3.0.into(), "3"), ("abc".into(), "`abc`")] {
        let said = refused(ord);
        assert!(said.contains(&format!("Torch has no norm {word} of a matrix.")), "{said}");
    }
}

#[test]
fn users_hear_what_large_matrices_cost() {
    let notes = |op: &str, name: &str, dims: [usize; 2], open: bool| -> Vec<String> {
        let zeros = Tensor::from_vec(dims, vec![0f32; dims[0] * dims[1]]);
        let (_, notes, _) = lowered(18, op, &[(name, zeros.into())], open).unwrap();
        notes.into_iter().map(|note| note.message.clone()).collect()
    };
    let are_noted = |notes: Vec<String>, what: &str| {
        assert!(notes.len() == 1 && notes[0].contains(what), "{notes:?}");
        assert!(notes[0].contains("are found in a loop, which is slow"), "{notes:?}");
    };
    let what = "The singular values of 129 x 130 numbers";
    are_noted(notes("aten::linalg_svdvals", "A", [129, 130], false), what);
    are_noted(notes("aten::linalg_svd", "A", [129, 130], false), what);
    are_noted(notes("aten::linalg_pinv.atol_rtol_float", "input", [129, 130], false), what);
    are_noted(notes("aten::nuclear_norm", "input", [129, 130], false), what);
    let what = "The eigenvalues of 129 x 129 numbers";
    are_noted(notes("aten::linalg_eigvalsh", "input", [129, 129], false), what);
    // Smaller ones take less, and of open sizes nothing is known.
    assert!(notes("aten::linalg_svdvals", "A", [128, 300], false).is_empty());
    assert!(notes("aten::linalg_svdvals", "A", [129, 130], true).is_empty());
}
