//! Numbers of descriptions that are too large, negative, or mean nothing.

use super::{findings, floats, operation, tensor};
use onnxd_plugin_sdk::ir::DataType::Int64;
use onnxd_plugin_sdk::ir::Tensor;

fn picture() -> Tensor {
    floats(&[1, 4, 4, 1], &[1.0; 16])
}

fn line() -> Tensor {
    floats(&[4], &[1.0, 2.0, 3.0, 4.0])
}

fn codes(class: &str, config: &str, args: &str, feeds: &[Tensor]) -> Vec<String> {
    let found = findings(operation(class, config, args, feeds));
    found.into_iter().map(|found| found[..5].to_owned()).collect()
}

#[test]
fn one_number_does_not_make_a_large_tensor() {
    let places = tensor(Int64, &[2], &[0.0, 1.0]);
    let cases = [
        ("OneHot", r#""num_classes": 4000000000000"#, places.clone()),
        ("Vander", r#""N": 4000000000000"#, line()),
        ("Repeat", r#""repeats": [1, 4000000000000, 1, 1], "axis": 0"#, line()),
        ("ArraySplit", r#""indices_or_sections": 4000000000000"#, line()),
        ("Diff", r#""n": 4000000000000"#, line()),
        ("Diag", r#""k": -9223372036854775808"#, line()),
        ("Resize", r#""size": [4000000000, 4], "interpolation": "lanczos3""#, picture()),
        ("Resize", r#""size": [4000000, 4], "interpolation": "lanczos3""#, picture()),
        ("ExtractPatches", r#""size": [100000, 100000]"#, picture()),
    ];
    for (class, config, feed) in cases {
        let found = findings(operation(class, config, "@0", &[feed]));
        assert!(found.len() == 1 && found[0].starts_with("N0213"), "{class} {config} {found:?}");
    }
}

#[test]
fn numbers_that_do_not_fit_are_refused() {
    let cases = [
        ("OneHot", r#""num_classes": -1"#, tensor(Int64, &[1], &[0.0])),
        (
            "OneHot",
            r#""num_classes": 2, "axis": -9223372036854775808"#,
            tensor(Int64, &[1], &[0.0]),
        ),
        ("Repeat", r#""repeats": -2, "axis": 0"#, line()),
        ("Repeat", r#""repeats": [1, -2, 1, 1], "axis": 0"#, line()),
        ("Diff", r#""n": -1"#, line()),
        ("Unstack", r#""num": 3"#, line()),
        ("ExtractPatches", r#""size": [-1, -1]"#, picture()),
        ("ExtractPatches", r#""size": [9223372036854775807, 3]"#, picture()),
        ("ExtractPatches", r#""size": [2, 2], "strides": -1"#, picture()),
        ("MaxPool", r#""pool_size": [2, 2, 2]"#, picture()),
        (
            "CropImages",
            r#""top_cropping": 3, "bottom_cropping": 3, "left_cropping": 0, "right_cropping": 0"#,
            picture(),
        ),
        (
            "PadImages",
            r#""top_padding": 0, "target_height": 2, "left_padding": 0, "right_padding": 0"#,
            picture(),
        ),
        (
            "PadImages",
            r#""top_padding": -9223372036854775808, "bottom_padding": 9223372036854775807"#,
            picture(),
        ),
    ];
    for (class, config, feed) in cases {
        assert_eq!(codes(class, config, "@0", &[feed]), ["N0204"], "{class} {config}");
    }
    let roll = r#""shift": -9223372036854775808, "axis": 0"#;
    assert!(operation("Roll", roll, "@0", &[line()]).is_ok());
    let between = r#""num": 3, "axis": -9223372036854775808"#;
    assert_eq!(codes("Linspace", between, "@0, @0", &[line()]), ["N0204"]);
    let two = [line(), line()];
    assert_eq!(codes("Tensordot", r#""axes": 4000000000000"#, "@0, @1", &two), ["N0204"]);
    let kernels = [picture(), floats(&[], &[1.0])];
    for class in ["Conv", "DepthwiseConv"] {
        assert_eq!(codes(class, "", "@0, @1", &kernels), ["N0204"], "{class}");
    }
}

#[test]
fn words_without_a_meaning_are_refused() {
    let cases = [
        ("OnesLike", r#""dtype": "int3""#),
        ("FullLike", r#""fill_value": 1, "dtype": "int3""#),
        ("Cumsum", r#""axis": 0, "dtype": "int3""#),
        ("Array", r#""dtype": "int3""#),
        ("Pad", r#""pad_width": [[1, 1]], "mode": "wrapped""#),
    ];
    for (class, config) in cases {
        assert_eq!(codes(class, config, "@0", &[line()]), ["N0203"], "{class}");
    }
    for (class, config) in [
        ("Full", r#""shape": [2], "dtype": "int3""#),
        ("Arange", r#""stop": 4, "dtype": "int3""#),
        ("Linspace", r#""stop": 4, "dtype": "int3""#),
    ] {
        let one = floats(&[], &[1.0]);
        assert_eq!(codes(class, config, "@0", &[one]), ["N0203"], "{class}");
    }
    let hot = r#""num_classes": 2, "dtype": "int3""#;
    assert_eq!(codes("OneHot", hot, "@0", &[tensor(Int64, &[1], &[0.0])]), ["N0203"]);
    let feeds = [line(), tensor(Int64, &[1, 1], &[0.0]), floats(&[1], &[1.0])];
    let config = r#""reduction": "mean""#;
    assert_eq!(codes("ScatterUpdate", config, "@0, @1, @2", &feeds), ["N0203"]);
    assert_eq!(codes("Glu", "", "@0", &[floats(&[3], &[1.0; 3])]), ["N0203"]);
}
