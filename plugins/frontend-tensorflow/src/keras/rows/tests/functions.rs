use super::{findings, floats, function, reals};
use onnxd_plugin_sdk::ir::Tensor;

fn line() -> [Tensor; 1] {
    [floats(&[2, 3], &[3.0, 1.0, 2.0, 6.0, 4.0, 5.0])]
}

#[test]
fn sorts_the_last_axis_in_either_direction() {
    let up = function("sort", "", &line()).unwrap();
    assert_eq!(reals(&up), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]);
    let down = function("sort", r#""axis": -1, "direction": "DESCENDING""#, &line()).unwrap();
    assert_eq!(reals(&down), [3.0, 2.0, 1.0, 6.0, 5.0, 4.0]);
}

#[test]
fn arguments_without_a_row_are_refused_unless_they_change_nothing() {
    let cases = [
        ("nn.silu", r#""beta": 2.0"#, "beta"),
        ("nn.bias_add", r#""bias": [1.0, 2.0, 3.0], "data_format": "NCHW""#, "data_format"),
        ("nn.space_to_depth", r#""block_size": 1, "data_format": "NCHW""#, "data_format"),
        (
            "image.resize", r#""size": [4, 4], "preserve_aspect_ratio": true"#,
            "preserve_aspect_ratio",
        ),
        ("math.exp", r#""whatever": 1"#, "whatever"),
    ];
    for (name, keywords, argument) in cases {
        let found = findings(function(name, keywords, &line()));
        assert_eq!(found.len(), 1, "{name}: {found:?}");
        assert!(found[0].starts_with("N0203") && found[0].contains(argument), "{name}: {found:?}");
    }
    let same = [
        ("nn.silu", r#""beta": 1.0"#),
        ("nn.bias_add", r#""bias": [1.0, 2.0, 3.0], "data_format": null"#),
        ("compat.v1.transpose", r#""perm": [1, 0], "name": "transpose", "conjugate": false"#),
    ];
    for (name, keywords) in same {
        assert!(function(name, keywords, &line()).is_ok(), "{name}");
    }
}

#[test]
fn nothing_stands_for_the_default() {
    let x = [floats(&[2, 2], &[0.0, 0.0, 0.0, 0.0])];
    let y = function("nn.softmax", r#""axis": null"#, &x).unwrap();
    assert_eq!(reals(&y), [0.5; 4]);
}

#[test]
fn adjoint_matrices_are_transposed() {
    let x = [floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    let y = function("linalg.matmul", r#""b": ["x0", 0, 0], "adjoint_b": true"#, &x).unwrap();
    assert_eq!(reals(&y), [5.0, 11.0, 11.0, 25.0]);
}
