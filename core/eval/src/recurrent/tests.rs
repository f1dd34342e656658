use crate::testing::{assert_near, run, try_all, word};
use onnxd_ir::{Attr, Tensor};

fn tensor(dims: &[usize], values: &[f32]) -> Tensor {
    Tensor::from_vec(dims, values.to_vec())
}

fn names(list: &[&str]) -> Attr {
    Attr::Strs(list.iter().map(|s| (*s).to_owned().into()).collect())
}

/// `h = x + h / 2` over three steps, forth and back, two batches of different length.
#[test]
fn directions_and_lengths() {
    let x = tensor(&[3, 2, 1], &[1.0, 10.0, 2.0, 20.0, 4.0, 40.0]);
    let inputs = [
        Some(x),
        Some(tensor(&[2, 1, 1], &[1.0, 1.0])),
        Some(tensor(&[2, 1, 1], &[0.5, 0.5])),
        None,
        Some(Tensor::vector(vec![3i32, 2])),
    ];
    let attrs =
        [("direction", word("bidirectional")), ("activations", names(&["Affine", "Affine"]))];
    let found = try_all("RNN", 14, &attrs, &inputs, 2).unwrap();
    assert_eq!(found[0].dims(), [3, 2, 2, 1]);
    let forth_and_back = [1.0, 10.0, 3.0, 20.0, 2.5, 25.0, 4.0, 20.0, 5.25, 0.0, 4.0, 0.0];
    assert_near(&found[0], &forth_and_back, 0.0);
    assert_near(&found[1], &[5.25, 25.0, 3.0, 20.0], 0.0);
}

#[test]
fn batch_first_equals_the_other_layout() {
    let x = tensor(&[2, 1, 1], &[1.0, 2.0]);
    let w = tensor(&[1, 1, 1], &[1.0]);
    let first = run("RNN", 14, &[], &[&x, &w, &w]);
    let flat = x.reshaped([1, 2, 1]).unwrap();
    let second = run("RNN", 14, &[("layout", Attr::Int(1))], &[&flat, &w, &w]);
    assert_eq!(second.dims(), [1, 2, 1, 1]);
    let h = 1f64.tanh();
    assert_near(&first, &[h, (2.0 + h).tanh()], 1e-6);
    assert_near(&second, &[h, (2.0 + h).tanh()], 1e-6);
}

#[test]
fn gru_with_the_reset_before_and_after() {
    let x = tensor(&[1, 1, 1], &[1.0]);
    let w = tensor(&[1, 3, 1], &[0.0, 0.0, 1.0]);
    let r = tensor(&[1, 3, 1], &[0.0, 0.0, 2.0]);
    let b = tensor(&[1, 6], &[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]);
    let inputs = [Some(x), Some(w), Some(r), Some(b), None, Some(tensor(&[1, 1, 1], &[4.0]))];
    for (after, hidden) in [(0, 1.0 + 4.0 + 1.0), (1, 1.0 + 0.5 * (8.0 + 1.0))] {
        let attrs = [
            ("linear_before_reset", Attr::Int(after)),
            ("activations", names(&["Sigmoid", "Relu"])),
        ];
        let found = try_all("GRU", 14, &attrs, &inputs, 2).unwrap();
        assert_near(&found[1], &[0.5 * hidden + 0.5 * 4.0], 1e-6);
    }
}

#[test]
fn lstm_with_peepholes_and_clip() {
    let x = tensor(&[1, 1, 1], &[3.0]);
    let w = tensor(&[1, 4, 1], &[0.0, 0.0, 0.0, 1.0]);
    let r = tensor(&[1, 4, 1], &[0.0; 4]);
    let p = tensor(&[1, 3], &[1.0, 2.0, 3.0]);
    let state = |v: f32| Some(tensor(&[1, 1, 1], &[v]));
    let inputs = [Some(x), Some(w), Some(r), None, None, state(0.0), state(0.5), Some(p)];
    let linear = names(&["Affine", "Affine", "Affine"]);
    let attrs = [("activations", linear), ("clip", Attr::Float(2.0))];
    let found = try_all("LSTM", 14, &attrs, &inputs, 3).unwrap();
    // i = 0.5, f = 1.5, c = min(3, 2): C = 1.5 * 0.5 + 0.5 * 2; o = min(2 C, 2).
    assert_near(&found[2], &[1.75], 1e-6);
    assert_near(&found[1], &[3.5], 1e-6);
    let unknown = [("activations", names(&["Step", "Tanh", "Tanh"]))];
    assert!(try_all("LSTM", 14, &unknown, &inputs, 1).is_err());
}
