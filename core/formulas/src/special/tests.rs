use super::*;
use onnxd_eval::{Executor, RunOptions};
use onnxd_ir::{DataType, Graph, Model, Opsets, Tensor, ValueType};

/// What `f` gives at each of `at`.
fn values(f: fn(&GraphBuilder, Var) -> Result<Var>, at: &[f64]) -> Vec<f64> {
    let b = GraphBuilder::new(Graph::new("g"), Opsets::from([(String::new(), 18)]));
    let x = b.input("x", ValueType::tensor(DataType::Double, [at.len() as i64]));
    let y = f(&b, x).expect("a formula");
    b.output(y, "y").expect("a new name");
    let model = Model::new(b.finish(), 8, 18);
    let executor = Executor::new(&model).expect("a model");
    let feeds = [("x".to_owned(), Tensor::from_vec(vec![at.len()], at.to_vec()))];
    let found = executor.run(&feeds.into(), RunOptions::default()).expect("a run");
    found[0].1.to_reals().expect("reals").values
}

fn assert_near(found: &[f64], wanted: &[f64]) {
    for (found, wanted) in found.iter().zip(wanted) {
        let is_near = (found - wanted).abs() <= 1e-8 * wanted.abs().max(1.0);
        assert!(is_near || found == wanted, "{found} for {wanted}");
    }
}

#[test]
fn the_logarithm_of_gamma_is_infinite_at_poles_and_far_out() {
    let at = [f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, -1.0, -1e30, f64::MAX];
    assert_near(&values(lgamma, &at), &[f64::INFINITY; 7]);
    let found = values(lgamma, &[100.0, -0.5, 0.25]);
    assert_near(&found, &[359.134_205_369_575_4, 1.265_512_123_484_645_4, 1.288_022_524_698_077_4]);
    assert!(values(lgamma, &[f64::NAN])[0].is_nan());
}

#[test]
fn the_slope_of_the_logarithm_of_gamma_has_no_value_at_poles() {
    let poles = [0.0, -0.0, -1.0, -2.0, -1e30, f64::NEG_INFINITY, f64::NAN];
    let found = values(digamma, &poles);
    assert!(found.iter().all(|y| y.is_nan()), "{found:?}");
    let found = values(digamma, &[f64::INFINITY, -0.5, 0.25]);
    let wanted = [f64::INFINITY, 0.036_489_973_978_576_45, -4.227_453_533_376_266];
    assert_near(&found, &wanted);
}
