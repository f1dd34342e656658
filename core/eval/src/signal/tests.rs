use crate::testing::{assert_near, run, try_run};
use onnxd_ir::{Attr, DataType, Tensor};

#[test]
fn a_transform_and_its_inverse() {
    let x = Tensor::from_vec(vec![1, 3, 1], vec![1f32, 2.0, 4.0]);
    let y = run("DFT", 20, &[], &[&x]);
    let root = 3f64.sqrt();
    assert_eq!(y.dims(), [1, 3, 2]);
    assert_near(&y, &[7.0, 0.0, -2.0, root, -2.0, -root], 1e-6);
    let back = run("DFT", 20, &[("inverse", Attr::Int(1))], &[&y]);
    assert_near(&back, &[1.0, 0.0, 2.0, 0.0, 4.0, 0.0], 1e-6);
}

#[test]
fn one_sided_transforms_of_real_signals() {
    let x = Tensor::from_vec(vec![1, 4, 1], vec![1f32, 2.0, 4.0, -1.0]);
    let half = ("onesided", Attr::Int(1));
    let y = run("DFT", 17, std::slice::from_ref(&half), &[&x]);
    assert_near(&y, &[6.0, 0.0, -3.0, -3.0, 4.0, 0.0], 1e-6);
    let back = run("DFT", 17, &[half, ("inverse", Attr::Int(1))], &[&y]);
    assert_eq!(back.dims(), [1, 4, 1]);
    assert_near(&back, &[1.0, 2.0, 4.0, -1.0], 1e-6);
    assert!(try_run("DFT", 17, &[("axis", Attr::Int(2))], &[&x]).is_err());
}

#[test]
fn frames_of_a_signal() {
    let x = Tensor::from_vec(vec![1, 4, 1], vec![1f32, 2.0, 3.0, 4.0]);
    let (step, window) = (Tensor::scalar(1i64), Tensor::vector(vec![1f32, 2.0]));
    let y = run("STFT", 17, &[], &[&x, &step, &window]);
    assert_eq!(y.dims(), [1, 3, 2, 2]);
    assert_near(&y, &[5.0, 0.0, -3.0, 0.0, 8.0, 0.0, -4.0, 0.0, 11.0, 0.0, -5.0, 0.0], 1e-6);
    assert!(try_run("STFT", 17, &[], &[&x, &Tensor::scalar(0i64), &window]).is_err());
}

#[test]
fn windows() {
    let size = Tensor::scalar(4i32);
    let near = |op: &str, periodic: i64, expected: &[f64]| {
        assert_near(&run(op, 17, &[("periodic", Attr::Int(periodic))], &[&size]), expected, 1e-7);
    };
    near("HannWindow", 1, &[0.0, 0.5, 1.0, 0.5]);
    near("HannWindow", 0, &[0.0, 0.75, 0.75, 0.0]);
    near("HammingWindow", 1, &[4.0 / 46.0, 25.0 / 46.0, 1.0, 25.0 / 46.0]);
    near("BlackmanWindow", 1, &[0.0, 0.34, 1.0, 0.34]);
    let wide = [("output_datatype", Attr::Int(11))];
    assert_eq!(run("HannWindow", 17, &wide, &[&size]).dtype(), DataType::Double);
    let endless = try_run("HannWindow", 17, &[], &[&Tensor::scalar(1i64 << 40)]);
    assert_eq!(endless.unwrap_err().code, "N0305");
}

#[test]
fn mel_filters_are_triangles() {
    let scalars = [Tensor::scalar(3i32), Tensor::scalar(16i32), Tensor::scalar(8192i32)];
    let edges = [Tensor::scalar(0f32), Tensor::scalar(4096f32)];
    let inputs: Vec<&Tensor> = scalars.iter().chain(&edges).collect();
    let y = run("MelWeightMatrix", 17, &[], &inputs);
    assert_eq!(y.dims(), [9, 3]);
    let upper = [1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 1.0, 0.0, 0.0, 0.5];
    assert_near(&y, &[&upper[..], &[0.0; 12]].concat(), 1e-7);
}
