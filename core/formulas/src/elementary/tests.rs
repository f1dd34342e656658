//! Functions against those of the processor, in 64 bits.

use super::*;
use crate::complex::quotient;
use crate::testing::run;
use onnxd_ir::Tensor;

fn assert_all(f: fn(&GraphBuilder, Var) -> Result<Var>, wanted: fn(f64) -> f64, at: &[f64]) {
    let found = run(18, &[Tensor::vector(at.to_vec())], |b, x| f(b, x[0]));
    for (x, y) in at.iter().zip(found.to_reals().unwrap().values) {
        let wanted = wanted(*x);
        let is_near = (y - wanted).abs() <= 1e-14 * wanted.abs();
        assert!(is_near || y == wanted, "{y} for {wanted} at {x}");
    }
}

#[test]
fn functions_are_exact_near_zero_and_far_out() {
    let all = [-0.75, -1e-20, 0.0, 1e-20, 3e-9, 0.3, 0.999];
    assert_all(log1p, f64::ln_1p, &[&all[..], &[1e20, f64::INFINITY, -1.0]].concat());
    assert_all(expm1, f64::exp_m1, &[&all[..], &[-700.0, 700.0, f64::INFINITY]].concat());
    assert_all(asin, f64::asin, &[&all[..], &[-1.0, 1.0]].concat());
    assert_all(acos, f64::acos, &[&all[..], &[1.0]].concat());
    assert_all(atan, f64::atan, &[&all[..], &[-1e10, f64::INFINITY]].concat());
    assert_all(asinh, f64::asinh, &[&all[..], &[-1e200, 1e5]].concat());
    assert_all(acosh, f64::acosh, &[1.0, 1.5, 3.0, 1e200]);
    assert_all(atanh, f64::atanh, &all);
}

#[test]
fn angles_go_around() {
    let points = [[1.0, 0.0], [2.0, 1.0], [0.0, 2.0], [-1.0, 3.0], [-4.0, 0.0], [-1.0, -2.0]];
    let points = [&points[..], &[[0.0, -1.0], [1.0, -1.0], [0.0, 0.0]]].concat();
    let given = [0, 1].map(|i| Tensor::vector(points.iter().map(|x| x[i]).collect::<Vec<f64>>()));
    let found = run(18, &given, |b, x| atan2(b, x[1], x[0])).to_reals().unwrap().values;
    for ([x, y], found) in points.iter().zip(found) {
        assert!((found - y.atan2(*x)).abs() < 1e-15, "{found} at {x}, {y}");
    }
}

#[test]
fn a_number_over_itself_is_one() {
    let given = [Tensor::vector(vec![3.0, -0.1]), Tensor::vector(vec![4.0, 7.0])];
    let part = |i: usize| run(18, &given, |b, x| Ok(quotient(b, [x[0], x[1]], [x[0], x[1]])?[i]));
    assert_eq!([part(0), part(1)], [vec![1.0; 2], vec![0.0; 2]].map(Tensor::vector));
}
