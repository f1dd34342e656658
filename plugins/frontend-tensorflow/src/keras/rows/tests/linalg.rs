use super::{findings, floats, operation, operations, reals};

#[test]
fn norms_have_many_orders() {
    let x = [floats(&[2, 2], &[3.0, -4.0, 0.0, 1.0])];
    let cases: [(&str, &[f64]); 8] = [
        (r#""axis": [1]"#, &[5.0, 1.0]),
        (r#""axis": [1], "ord": 1"#, &[7.0, 1.0]),
        (r#""axis": [1], "ord": 0"#, &[2.0, 1.0]),
        (r#""axis": [0], "ord": Infinity"#, &[3.0, 4.0]),
        (r#""axis": [0], "ord": -Infinity"#, &[0.0, 1.0]),
        (r#""axis": null, "ord": "fro""#, &[26f64.sqrt()]),
        (r#""axis": [0, 1], "ord": 1"#, &[5.0]),
        (r#""axis": [0, 1], "ord": Infinity"#, &[7.0]),
    ];
    for (config, expected) in cases {
        let found = reals(&operation("Norm", config, "@0", &x).unwrap());
        let near = found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-5);
        assert!(near && found.len() == expected.len(), "{config}: {found:?}");
    }
    assert_eq!(findings(operation("Norm", r#""ord": "nuc""#, "@0", &x)).len(), 1);
    assert_eq!(findings(operation("Norm", r#""ord": 2"#, "@0", &x)).len(), 1);
}

#[test]
fn positive_matrices_have_roots() {
    let x = [floats(&[2, 2], &[4.0, 2.0, 2.0, 5.0])];
    let root = operation("Cholesky", r#""upper": true"#, "@0", &x).unwrap();
    assert_eq!(reals(&root), [2.0, 1.0, 0.0, 2.0]);
    let log = reals(&operation("Logdet", "", "@0", &x).unwrap())[0];
    assert!((log - 16f64.ln()).abs() < 1e-5, "{log}");
}

#[test]
fn matrices_are_taken_apart() {
    let x = [floats(&[3, 2], &[3.0, 1.0, 0.0, 2.0, 4.0, 3.0])];
    let near = |found: &[f64], wanted: &[f64]| {
        let all = found.iter().zip(wanted).all(|(x, y)| (x - y).abs() < 1e-5);
        assert!(all && found.len() == wanted.len(), "{found:?} for {wanted:?}");
    };
    let q = [-0.6, 0.357_771, 0.0, -0.894_427, -0.8, -0.268_328];
    let factors = operations("Qr", "", "@0", &x, 2).unwrap();
    near(&reals(&factors[0]), &q);
    near(&reals(&factors[1]), &[-5.0, -3.0, 0.0, -2.236_068]);
    let whole = operations("Qr", r#""mode": "complete""#, "@0", &x, 2).unwrap();
    assert_eq!([whole[0].dims(), whole[1].dims()], [[3, 3], [3, 2]]);
    assert_eq!(findings(operations("Qr", r#""mode": "r""#, "@0", &x, 2)).len(), 1);
    let s = [5.956_219, 1.877_087];
    near(&reals(&operation("SVD", r#""compute_uv": false"#, "@0", &x).unwrap()), &s);
    let parts = operations("SVD", r#""full_matrices": false"#, "@0", &x, 3).unwrap();
    let [u, v] = [0, 2].map(|i| reals(&parts[i]));
    near(&reals(&parts[1]), &s);
    let product = |i: usize, j: usize| (0..2).map(|k| u[2 * i + k] * s[k] * v[2 * k + j]).sum();
    let product: Vec<f64> = (0..6).map(|at| product(at / 2, at % 2)).collect();
    near(&product, &reals(&x[0]));
    near(&reals(&operation("MatrixRank", "", "@0", &x).unwrap()), &[2.0]);
    near(&reals(&operation("MatrixRank", r#""tol": 2.0"#, "@0", &x).unwrap()), &[1.0]);
    let inverse = reals(&operation("Pinv", "", "@0", &x).unwrap());
    near(&inverse, &[0.216, -0.24, 0.088, -0.16, 0.4, 0.12]);
}

#[test]
fn symmetric_matrices_have_eigenvalues() {
    // The upper half does not count.
    let x = [floats(&[2, 2], &[2.0, 9.0, 1.0, 2.0])];
    let found = operations("Eigh", "", "@0", &x, 2).unwrap();
    let (values, vectors) = (reals(&found[0]), reals(&found[1]));
    assert!(values.iter().zip([1.0, 3.0]).all(|(x, y)| (x - y).abs() < 1e-6), "{values:?}");
    assert!(vectors.iter().all(|x| (x.abs() - 0.5f64.sqrt()).abs() < 1e-6), "{vectors:?}");
}

#[test]
fn copies_are_left_out() {
    let x = [floats(&[5], &[3.0, 1.0, 3.0, 2.0, 1.0])];
    let config =
        r#""return_index": true, "return_inverse": true, "return_counts": true, "size": 4"#;
    let y = operations("Unique", config, "@0", &x, 4).unwrap();
    assert_eq!(reals(&y[0]), [1.0, 2.0, 3.0, 0.0]);
    assert_eq!(reals(&y[1]), [1.0, 3.0, 0.0, 1.0]);
    assert_eq!(reals(&y[2]), [2.0, 0.0, 2.0, 1.0, 0.0]);
    assert_eq!(reals(&y[3]), [2.0, 1.0, 2.0, 0.0]);
    let y = operation("Unique", r#""sorted": false, "size": 2"#, "@0", &x).unwrap();
    assert_eq!(reals(&y), [3.0, 1.0]);
}

#[test]
fn words_of_windows_and_methods_are_known() {
    let x = [floats(&[8], &[1.0; 8])];
    let window =
        r#""sequence_length": 2, "sequence_stride": 2, "fft_length": 2, "window": "kaiser""#;
    for (class, config) in [("STFT", window), ("Quantile", r#""q": 0.5, "method": "hazen""#)] {
        let found = findings(operation(class, config, "@0", &x));
        assert!(found.len() == 1 && found[0].starts_with("N0203"), "{class}: {found:?}");
    }
}
