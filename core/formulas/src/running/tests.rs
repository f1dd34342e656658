//! Products and sums, one element after the other.

use super::*;
use crate::testing::run;

fn reals(x: &Tensor) -> Vec<f64> {
    x.to_reals().expect("reals").values
}

#[test]
fn products_run_both_ways_along_any_axis() {
    let x = Tensor::from_vec(vec![2, 3], vec![2i64, 3, 5, 7, 11, 13]);
    let at = |opset: i64, axis: usize, exclusive: bool, reverse: bool| {
        run(opset, std::slice::from_ref(&x), |b, x| {
            product(b, x[0], axis, Reach { exclusive, reverse })
        })
    };
    for opset in [13, 18] {
        assert_eq!(at(opset, 1, false, false).to_i64s().unwrap(), [2, 6, 30, 7, 77, 1001]);
        assert_eq!(at(opset, 0, false, false).to_i64s().unwrap(), [2, 3, 5, 14, 33, 65]);
        assert_eq!(at(opset, 1, true, true).to_i64s().unwrap(), [15, 5, 1, 143, 13, 1]);
    }
}

#[test]
fn logarithms_of_running_sums_are_safe() {
    let low = f64::NEG_INFINITY;
    let x = Tensor::vector(vec![low, low, 1000.0, 1000.0]);
    let found = run(18, &[x], |b, x| log_sum_exp(b, x[0], 0, Reach::default()));
    let found = reals(&found);
    assert_eq!(found[..3], [low, low, 1000.0]);
    assert!((found[3] - 1000.0 - std::f64::consts::LN_2).abs() < 1e-12, "{found:?}");
}
