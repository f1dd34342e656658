use crate::testing::{assert_near, bools, run, try_all, try_run, word};
use onnxd_ir::{Attr, Tensor};

fn tensor(dims: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(dims, values.to_vec())
}

#[test]
fn equal_keys_share_the_values_that_may_be_seen() {
    let q = tensor(&[1, 1, 2, 1], &[1.0, 1.0]);
    let k = tensor(&[1, 1, 2, 1], &[3.0, 3.0]);
    let v = tensor(&[1, 1, 2, 1], &[2.0, 6.0]);
    assert_near(&run("Attention", 23, &[], &[&q, &k, &v]), &[4.0, 4.0], 1e-6);
    let causal = [("is_causal", Attr::Int(1))];
    assert_near(&run("Attention", 23, &causal, &[&q, &k, &v]), &[2.0, 4.0], 1e-6);
    let mask = bools(&[false, true, false, false]).reshaped([2, 2]).unwrap();
    assert_near(&run("Attention", 23, &[], &[&q, &k, &v, &mask]), &[6.0, 0.0], 1e-6);
    let window = [("left_window_size", Attr::Int(0))];
    assert_near(&run("Attention", 25, &window, &[&q, &k, &v]), &[4.0, 6.0], 1e-6);
    assert!(try_run("Attention", 23, &[], &[&q, &k, &v, &tensor(&[3, 2], &[0.0; 6])]).is_err());
}

#[test]
fn what_is_no_number_stays_none() {
    let (q, k) = (tensor(&[1, 1, 1, 1], &[f32::NAN]), tensor(&[1, 1, 2, 1], &[3.0, 3.0]));
    let y = run("Attention", 23, &[], &[&q, &k, &k]);
    assert!(y.to_reals().unwrap().values[0].is_nan());
}

#[test]
fn a_cache_precedes_the_keys() {
    let q = tensor(&[1, 1, 2], &[0.0, 0.0]);
    let k = tensor(&[1, 1, 1], &[1.0]);
    let past = tensor(&[1, 1, 1, 1], &[5.0]);
    let one = |x: &Tensor| Some(x.clone());
    let inputs = [one(&q), one(&k), one(&k), None, one(&past), one(&past)];
    let attrs = [
        ("q_num_heads", Attr::Int(2)),
        ("kv_num_heads", Attr::Int(1)),
        ("is_causal", Attr::Int(1)),
        ("qk_matmul_output_mode", Attr::Int(3)),
    ];
    let found = try_all("Attention", 23, &attrs, &inputs, 4).unwrap();
    assert_eq!(found[0].dims(), [1, 1, 2]);
    assert_near(&found[0], &[3.0, 3.0], 1e-6);
    assert_near(&found[1], &[5.0, 1.0], 0.0);
    assert_near(&found[3], &[0.5; 4], 1e-6);
}

#[test]
fn rotation_by_a_right_angle() {
    let x = tensor(&[1, 1, 1, 4], &[1.0, 2.0, 3.0, 4.0]);
    let (cos, sin) = (tensor(&[1, 1, 2], &[0.0, 1.0]), tensor(&[1, 1, 2], &[1.0, 0.0]));
    let y = run("RotaryEmbedding", 23, &[], &[&x, &cos, &sin]);
    assert_near(&y, &[-3.0, 2.0, 1.0, 4.0], 0.0);
    let attrs = [("interleaved", Attr::Int(1))];
    let y = run("RotaryEmbedding", 23, &attrs, &[&x, &cos, &sin]);
    assert_near(&y, &[-2.0, 1.0, 3.0, 4.0], 0.0);
    let (cos, sin) = (tensor(&[2, 1], &[1.0, 0.0]), tensor(&[2, 1], &[0.0, 1.0]));
    let id = Tensor::from_vec(vec![1, 1], vec![1i64]);
    let attrs = [("rotary_embedding_dim", Attr::Int(2))];
    let y = run("RotaryEmbedding", 23, &attrs, &[&x, &cos, &sin, &id]);
    assert_near(&y, &[-2.0, 1.0, 3.0, 4.0], 0.0);
    let beyond = Tensor::from_vec(vec![1, 1], vec![2i64]);
    assert!(try_run("RotaryEmbedding", 23, &attrs, &[&x, &cos, &sin, &beyond]).is_err());
}

#[test]
fn linear_attention_sums_what_it_saw() {
    let q = tensor(&[1, 2, 1], &[1.0, 2.0]);
    let k = tensor(&[1, 2, 1], &[3.0, 1.0]);
    let heads = [("q_num_heads", Attr::Int(1)), ("kv_num_heads", Attr::Int(1))];
    let rule = |name: &str| [&heads[..], &[("update_rule", word(name))]].concat();
    let inputs = [Some(q.clone()), Some(k.clone()), Some(k)];
    let found = try_all("LinearAttention", 27, &rule("linear"), &inputs, 2).unwrap();
    assert_near(&found[0], &[9.0, 20.0], 1e-6);
    assert_near(&found[1], &[10.0], 1e-6);
    let beta = Some(tensor(&[1, 2, 1], &[1.0, 0.5]));
    let inputs = [&inputs[..], &[None, None, beta]].concat();
    // S = 9, then 9 + (1 - 9) / 2.
    let found = try_all("LinearAttention", 27, &rule("delta"), &inputs, 2).unwrap();
    assert_near(&found[0], &[9.0, 10.0], 1e-6);
    assert!(try_all("LinearAttention", 27, &rule("gated"), &inputs, 2).is_err());
}

#[test]
fn a_causal_convolution_keeps_its_past() {
    let x = tensor(&[1, 1, 2], &[3.0, 5.0]);
    let w = tensor(&[1, 1, 2], &[10.0, 1.0]);
    let past = Some(tensor(&[1, 1, 1], &[2.0]));
    let inputs = [Some(x), Some(w), None, past];
    let found = try_all("CausalConvWithState", 27, &[], &inputs, 2).unwrap();
    assert_near(&found[0], &[23.0, 35.0], 1e-6);
    assert_near(&found[1], &[5.0], 0.0);
}

#[test]
fn updates_of_a_cache() {
    let cache = tensor(&[2, 3, 1], &[0.0; 6]);
    let update = tensor(&[2, 2, 1], &[1.0, 2.0, 3.0, 4.0]);
    let at = Tensor::vector(vec![0i64, 2]);
    let circular = [("mode", word("circular"))];
    let y = run("TensorScatter", 24, &circular, &[&cache, &update, &at]);
    assert_near(&y, &[1.0, 2.0, 0.0, 4.0, 0.0, 3.0], 0.0);
    assert!(try_run("TensorScatter", 24, &[], &[&cache, &update, &at]).is_err());
}
