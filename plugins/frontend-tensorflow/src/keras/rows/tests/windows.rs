use super::{findings, floats, function, operation, operations, ran_with, reals};
use onnxd_plugin_sdk::diagnostics::Diagnostics;
use onnxd_plugin_sdk::ir::Tensor;

/// A layer of Keras 2 on three steps of one channel, whose weights are 0, 1/8, 2/8, ...
fn local(config: &str, kernel: &[u64], steps: u64) -> Result<Vec<f64>, Diagnostics> {
    let layer = format!(
        r#"{{"class_name": "LocallyConnected1D", "name": "y", "config": {{"name": "y", "filters": 1,
            "kernel_size": [2], "strides": [1], {config}}}, "inbound_nodes": [[["x0", 0, 0, {{}}]]]}}"#
    );
    let weights = [("0", kernel), ("1", &[steps, 1][..])];
    let feeds = [floats(&[1, 3, 1], &[1.0, 2.0, 3.0])];
    let found = ran_with(&layer, true, &feeds, &[("layers/locally_connected1d/vars", &weights)])?;
    Ok(reals(&found[0]))
}

#[test]
fn places_have_filters_of_their_own() {
    assert_eq!(local(r#""implementation": 1"#, &[2, 2, 1], 2).unwrap(), [0.25, 1.75]);
    assert_eq!(local(r#""implementation": 2"#, &[3, 1, 2, 1], 2).unwrap(), [0.5, 2.75]);
    assert_eq!(local(r#""implementation": 3"#, &[4], 2).unwrap(), [0.25, 1.75]);
    // The first place sees one cell.
    let same = r#""implementation": 3, "padding": "same""#;
    assert_eq!(local(same, &[5], 3).unwrap(), [0.0, 0.125 + 0.5 + 0.125, 0.75 + 1.5 + 0.25]);
    assert_eq!(findings(local(r#""implementation": 4"#, &[4], 2)).len(), 1);
}

#[test]
fn transposed_convolutions_spread_what_they_see() {
    let feeds = [floats(&[1, 2, 1], &[1.0, 2.0]), floats(&[3, 1, 1], &[1.0, 10.0, 100.0])];
    let y = operation("ConvTranspose", r#""strides": 2"#, "@0, @1", &feeds).unwrap();
    assert_eq!(reals(&y), [1.0, 10.0, 102.0, 20.0, 200.0]);
    let y =
        operation("ConvTranspose", r#""strides": 2, "padding": "same""#, "@0, @1", &feeds).unwrap();
    assert_eq!(y.dims(), [1, 4, 1]);
}

#[test]
fn windows_are_taken_out_and_put_together() {
    let x = floats(&[1, 1, 2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let y = operation("Unfold", r#""kernel_size": 2"#, "@0", &[x]).unwrap();
    assert_eq!(
        (y.dims(), reals(&y)),
        (&[1, 4, 2][..], vec![1.0, 2.0, 2.0, 3.0, 4.0, 5.0, 5.0, 6.0])
    );
    let config = r#""output_size": [2, 3], "kernel_size": 2"#;
    let x = operation("Fold", config, "@0", &[y]).unwrap();
    assert_eq!(reals(&x), [1.0, 4.0, 3.0, 4.0, 10.0, 6.0]);
    let large = r#""kernel_size": 2, "padding": 4000000000000"#;
    let picture = floats(&[1, 1, 2, 2], &[1.0; 4]);
    assert!(findings(operation("Unfold", large, "@0", &[picture]))[0].starts_with("N0213"));
}

#[test]
fn sound_is_cut_into_frames() {
    let x = [floats(&[5], &[1.0, 2.0, 3.0, 4.0, 5.0])];
    let config = r#""sequence_length": 3, "sequence_stride": 2"#;
    let y = operation("ExtractSequences", config, "@0", &x).unwrap();
    assert_eq!((y.dims(), reals(&y)), (&[2, 3][..], vec![1.0, 2.0, 3.0, 3.0, 4.0, 5.0]));
    let config = r#""sequence_length": 2, "sequence_stride": 2, "fft_length": 2, "window": null, "center": false"#;
    let y = operations("STFT", config, "@0", &x, 2).unwrap();
    let odd = r#""sequence_length": 3, "sequence_stride": 2, "fft_length": 3, "window": "hann", "center": false"#;
    let middle = operations("STFT", odd, "@0", &x, 2).unwrap();
    assert!((reals(&middle[0])[0] - 2.0).abs() < 1e-6, "{:?}", reals(&middle[0]));
    let near = |x: &Tensor| reals(x).iter().map(|x| x.round()).collect::<Vec<f64>>();
    assert_eq!((y[0].dims(), near(&y[0])), (&[2, 2][..], vec![3.0, -1.0, 7.0, -1.0]));
}

#[test]
fn functions_of_tensorflow_have_rows() {
    let x = [floats(&[2, 4], &[3.0, 1.0, 4.0, 0.0, 0.0, 2.0, 0.0, 0.0])];
    let cases: [(&str, &str, &[f64]); 7] = [
        ("compat.v1.shape", r#""name": null, "out_type": "int32""#, &[2.0, 4.0]),
        ("math.argmax", r#""axis": 1"#, &[2.0, 1.0]),
        ("math.argmin", r#""axis": null"#, &[1.0, 0.0, 1.0, 0.0]),
        ("compat.v1.gather", r#""indices": [2, 0], "axis": 1"#, &[4.0, 3.0, 0.0, 0.0]),
        ("split", r#""num_or_size_splits": [1, -1], "axis": 1"#, &[3.0, 0.0]),
        ("slice", r#""begin": [0, 1], "size": [-1, 2]"#, &[1.0, 4.0, 2.0, 0.0]),
        ("norm", r#""axis": 0, "ord": "euclidean""#, &[3.0, 5f64.sqrt(), 4.0, 0.0]),
    ];
    for (name, keywords, expected) in cases {
        let found = reals(&function(name, keywords, &x).unwrap());
        let near = found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-6);
        assert!(near && found.len() == expected.len(), "{name}: {found:?}");
    }
    let keywords = r#""depth": 2, "on_value": 5, "dtype": "int32""#;
    let hot = function(
        "one_hot",
        keywords,
        &[super::tensor(onnxd_plugin_sdk::ir::DataType::Int32, &[2], &[1.0, 7.0])],
    );
    assert_eq!(reals(&hot.unwrap()), [0.0, 5.0, 0.0, 0.0]);
    for (name, keywords) in
        [("split", r#""num_or_size_splits": 3, "axis": 1"#), ("norm", r#""ord": 1"#)]
    {
        assert_eq!(findings(function(name, keywords, &x)).len(), 1, "{name}");
    }
}
