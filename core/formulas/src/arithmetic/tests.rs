//! Numbers at the edge of what the plain formulas take.

use super::*;
use crate::testing::run;
use onnxd_ir::Tensor;

const INFINITY: f64 = f64::INFINITY;

fn both(f: fn(&GraphBuilder, Var, Var) -> Result<Var>, pairs: &[[f64; 2]]) -> Vec<f64> {
    let given = [0, 1].map(|i| Tensor::vector(pairs.iter().map(|x| x[i]).collect::<Vec<f64>>()));
    run(18, &given, |b, x| f(b, x[0], x[1])).to_reals().unwrap().values
}

#[test]
fn divisions_round_down() {
    let pairs = [[7.0, 2.0], [-7.0, 2.0], [7.0, -2.0], [-7.0, -2.0]];
    assert_eq!(both(floor_quotient, &pairs), [3.0, -4.0, -4.0, 3.0]);
    assert_eq!(both(floor_remainder, &pairs), [1.0, 1.0, -1.0, -1.0]);
    let given = [vec![7i64, -7], vec![2, 2]].map(Tensor::vector);
    let found = run(18, &given, |b, x| floor_quotient(b, x[0], x[1]));
    assert_eq!(found.to_i64s().unwrap(), [3, -4]);
    let found = run(18, &given[..1], |b, x| {
        floor_remainder(b, b.cast(x[0], Float)?, b.constant(Tensor::scalar(-4f32)))
    });
    assert_eq!(found.to_reals().unwrap().values, [-1.0, -3.0]);
}

#[test]
fn divisors_and_multiples_may_be_of_zero() {
    let given = [vec![12i64, 0, 5, 0], vec![18, 7, 0, 0]].map(Tensor::vector);
    let found = run(18, &given, |b, x| gcd(b, x[0], x[1]));
    assert_eq!(found.to_i64s().unwrap(), [6, 7, 5, 0]);
    let found = run(18, &given, |b, x| lcm(b, x[0], x[1]));
    assert_eq!(found.to_i64s().unwrap(), [36, 0, 0, 0]);
}

#[test]
fn lengths_and_sums_of_powers_stay_in_range() {
    let found = both(hypot, &[[3e300, -4e300], [0.0, 0.0], [INFINITY, INFINITY], [1.0, -INFINITY]]);
    assert!((found[0] / 5e300 - 1.0).abs() < 1e-15 && found[1] == 0.0, "{found:?}");
    assert_eq!(found[2..], [INFINITY; 2]);
    let sum = |b: &GraphBuilder, x: Var, y: Var| log_add_exp(b, x, y, 1.0);
    let pairs = [[1000.0, 1000.0], [-INFINITY, -INFINITY], [INFINITY, INFINITY], [0.0, -40.0]];
    let found = both(sum, &pairs);
    assert!((found[0] - 1000.0 - std::f64::consts::LN_2).abs() < 1e-12, "{found:?}");
    assert_eq!(found[1..3], [-INFINITY, INFINITY]);
    assert!((found[3] / (-40f64).exp() - 1.0).abs() < 1e-12, "{found:?}");
}

#[test]
fn negative_zero_is_negative() {
    let x = Tensor::vector(vec![0.0, -0.0, -1.0, -INFINITY, f64::NAN]);
    let found = run(18, &[x], |b, x| b.cast(is_negative(b, x[0])?, Int32));
    assert_eq!(found.to_i64s().unwrap(), [0, 1, 1, 1, 0]);
}
