//! Singular values where columns of rounding noise and numbers of many magnitudes make rotations go on. Ranks are
//! those that NumPy finds.

use super::*;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{Dim, Element, Graph, Model, Opsets, ValueType};

/// Rows of a matrix.
type Matrix = Vec<Vec<f64>>;

fn made(height: usize, width: usize, mut at: impl FnMut(usize, usize) -> f64) -> Matrix {
    (0..height).map(|row| (0..width).map(|column| at(row, column)).collect()).collect()
}

/// Numbers between -1 and 1 without a pattern.
fn odd(height: usize, width: usize) -> Matrix {
    let mut state = 1u64;
    made(height, width, |_, _| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / f64::from(1 << 23) - 1.0
    })
}

fn product(x: &Matrix, y: &Matrix) -> Matrix {
    let at = |i: usize, j: usize| y.iter().enumerate().map(|(k, row)| x[i][k] * row[j]).sum();
    made(x.len(), y[0].len(), at)
}

fn turned(x: &Matrix) -> Matrix {
    made(x[0].len(), x.len(), |i, j| x[j][i])
}

/// The largest difference.
fn off(x: &Matrix, y: &Matrix) -> f64 {
    assert_eq!((x.len(), x[0].len()), (y.len(), y[0].len()));
    let pairs = x.iter().flatten().zip(y.iter().flatten());
    pairs.map(|(x, y)| if x.is_nan() { f64::INFINITY } else { (x - y).abs() }).fold(0.0, f64::max)
}

/// Runs a formula on a matrix, whose sizes are known or not.
fn run<T: Element, const N: usize>(
    x: &Tensor,
    open: bool,
    f: impl Fn(&GraphBuilder, Var) -> Result<[Var; N]>,
) -> [Tensor; N] {
    let b = GraphBuilder::new(Graph::new("g"), Opsets::from([(String::new(), 18)]));
    let dims = x.dims().iter().enumerate().map(|(axis, n)| match open {
        true => Dim::Symbol(format!("n{axis}").into()),
        false => Dim::Known(*n as i64),
    });
    let var = b.input("x", ValueType::tensor(T::DTYPE, dims.collect::<Vec<_>>()));
    for (i, result) in f(&b, var).expect("a formula").into_iter().enumerate() {
        b.output(result, &format!("y{i}")).expect("a new name");
    }
    let model = Model::new(b.finish(), 8, 18);
    let executor = Executor::new(&model).expect("a model");
    let feeds = [("x".to_owned(), x.clone())];
    let found = executor.run(&feeds.into(), RunOptions::default()).expect("a run");
    let found: Vec<Tensor> = found.into_iter().map(|(_, tensor)| tensor).collect();
    found.try_into().expect("as many results")
}

fn matrix_of(x: &Tensor) -> Matrix {
    let values = x.to_reals().expect("reals").values;
    values.chunks(x.dims()[1].max(1)).map(<[f64]>::to_vec).collect()
}

fn doubles(x: &Matrix) -> Tensor {
    Tensor::from_vec([x.len(), x[0].len()], x.concat())
}

fn singles(x: &Matrix) -> Tensor {
    let values = x.concat().into_iter().map(|x| x as f32).collect();
    Tensor::from_vec([x.len(), x[0].len()], values)
}

/// Checks what a matrix is made of, and gives its rank.
fn rank<T: Element>(x: &Tensor, epsilon: f64) -> usize {
    let original = matrix_of(x);
    let (m, n) = (x.dims()[0], x.dims()[1]);
    let [u, s, v, alone, quiet] = run::<T, 5>(x, m % 2 == 0, |b, x| {
        let Singular { u, s, v } = singular(b, x)?;
        let [_, r, _] = pivoted(b, b.div(x, magnitude(b, x)?)?)?;
        let [_, quiet] = rotated_until_orthogonal(b, transposed(b, r)?, true)?;
        Ok([u, s, v, values(b, x)?, quiet])
    });
    let (u, v) = (matrix_of(&u), matrix_of(&v));
    let [s, alone] = [s, alone].map(|s| s.to_reals().expect("reals").values);
    let most = s[0].max(f64::MIN_POSITIVE);
    let bound = 6.0 * (m.max(n) as f64).sqrt() * epsilon;
    for vectors in [&u, &v] {
        let size = vectors.len();
        let one = made(size, size, |i, j| f64::from(u8::from(i == j)));
        assert!(off(&product(&turned(vectors), vectors), &one) <= bound);
    }
    let diagonal = made(m, n, |i, j| if i == j { s[i] } else { 0.0 });
    let again = product(&product(&u, &diagonal), &turned(&v));
    assert!(off(&again, &original) <= bound * most, "{}", off(&again, &original) / most);
    assert!(off(&vec![alone], &vec![s.clone()]) <= bound * most);
    assert!(s.is_sorted_by(|a, b| a >= b));
    // The loop ended since nothing was left to rotate in what has as many columns as the matrix has rows.
    let others = m.next_multiple_of(2) as i64 - 1;
    assert_eq!(quiet.to_i64s(), Some(vec![others]));
    let limit = s[0] * m.max(n) as f64 * epsilon;
    s.iter().filter(|s| **s > limit).count()
}

fn assert_rank(x: &Matrix, [in_double, in_single]: [usize; 2]) {
    assert_eq!(rank::<f64>(&doubles(x), f64::EPSILON), in_double);
    assert_eq!(rank::<f32>(&singles(x), f64::from(f32::EPSILON)), in_single);
}

#[test]
fn columns_that_depend_on_others_do_not_count() {
    assert_rank(&product(&odd(60, 50), &odd(50, 60)), [50, 50]);
    assert_rank(&product(&odd(31, 2), &odd(2, 20)), [2, 2]);
    assert_rank(&product(&odd(9, 1), &odd(1, 30)), [1, 1]);
    let x = odd(24, 8);
    assert_rank(&made(24, 24, |i, j| x[i][j % 8]), [8, 8]);
    assert_rank(&made(20, 20, |_, _| 1.0), [1, 1]);
    assert_rank(&made(5, 4, |_, _| 0.0), [0, 0]);
}

#[test]
fn rows_and_columns_may_differ_by_many_orders_of_magnitude() {
    let x = odd(40, 40);
    let power = |at: usize| 0.25f64.powi(at as i32);
    assert_rank(&made(40, 40, |i, j| x[i][j] * power(i)), [24, 9]);
    assert_rank(&made(40, 40, |i, j| x[i][j] * power(39 - i)), [24, 9]);
    assert_rank(&made(40, 40, |i, j| x[i][j] * power(j)), [24, 9]);
    assert_rank(&made(40, 40, |i, j| x[i][j] * power(i + 39 - j)), [13, 6]);
    // Hilbert's.
    assert_rank(&made(15, 15, |i, j| 1.0 / (i + j + 1) as f64), [12, 6]);
    // Kahan's, whose last column is not small.
    let kahan = |i: usize, j: usize| 0.5f64.powi(i as i32) * if i == j { 1.0 } else { -0.8 };
    assert_rank(&made(30, 30, |i, j| if i > j { 0.0 } else { kahan(i, j) }), [29, 17]);
    assert_rank(&made(30, 40, |i, j| 1e-30 * x[i][j]), [30, 30]);
}

#[test]
fn eigenvectors_are_orthogonal_where_eigenvalues_repeat() {
    for (x, name) in [
        (product(&odd(30, 20), &turned(&odd(30, 20))), "rank 20"),
        (made(9, 9, |_, _| 1.0), "ones"),
        (made(6, 6, |i, j| if i == j { -1.0 } else { 0.0 }), "negative"),
        (made(4, 4, |_, _| 0.0), "zeros"),
        (made(1, 1, |_, _| -3.0), "a number"),
    ] {
        let n = x.len();
        let [values, vectors] = run::<f64, 2>(&doubles(&x), n % 2 == 0, |b, x| {
            let Eigen { values, vectors } = symmetric(b, x)?;
            Ok([values, vectors])
        });
        let (values, v) = (values.to_reals().expect("reals").values, matrix_of(&vectors));
        let one = made(n, n, |i, j| f64::from(u8::from(i == j)));
        assert!(off(&product(&turned(&v), &v), &one) <= 1e-13, "{name}");
        let scaled = made(n, n, |i, j| v[i][j] * values[j]);
        let most = values.iter().fold(1f64, |most, x| most.max(x.abs()));
        assert!(off(&product(&scaled, &turned(&v)), &x) <= 1e-13 * most, "{name}");
        assert!(values.is_sorted(), "{name}");
    }
}
