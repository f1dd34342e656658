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
