use super::{findings, floats, function, operation, reals, tensor};
use onnxd_plugin_sdk::ir::DataType::{Float16, Int32, Int64, Uint8};
use onnxd_plugin_sdk::ir::Tensor;

fn is_near(found: &Tensor, expected: &[f64]) -> bool {
    let found = reals(found);
    found.len() == expected.len()
        && found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 2e-3 || x == y)
}

#[test]
fn layer_norm_scales_without_moving_the_mean() {
    let feeds =
        [floats(&[1, 2], &[1.0, 3.0]), floats(&[2], &[2.0, 2.0]), floats(&[2], &[5.0, 5.0])];
    let rms = operation("LayerNorm", r#""rms_scaling": true"#, "@0, @1, @2", &feeds).unwrap();
    assert!(is_near(&rms, &[2.0, 6.0]), "{:?}", reals(&rms));
    let whole = operation("LayerNorm", r#""rms_scaling": false"#, "@0, @1, @2", &feeds).unwrap();
    assert!(is_near(&whole, &[3.0, 7.0]), "{:?}", reals(&whole));
}

#[test]
fn parameters_of_layer_norm_lie_along_its_axes() {
    let x = floats(&[1, 2, 2], &[1.0, 1.0, 3.0, 3.0]);
    let feeds = [x.clone(), floats(&[2], &[1.0, 10.0]), floats(&[2], &[0.0, 1.0])];
    let y = operation("LayerNorm", r#""axis": 1"#, "@0, @1, @2", &feeds).unwrap();
    assert!(is_near(&y, &[-1.0, -1.0, 11.0, 11.0]), "{:?}", reals(&y));
    let feeds = [x, floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0])];
    let y = operation("LayerNorm", r#""axis": [1, 2]"#, "@0, @1", &feeds).unwrap();
    assert!(is_near(&y, &[-1.0, -2.0, 3.0, 4.0]), "{:?}", reals(&y));
}

#[test]
fn squares_of_half_floats_do_not_overflow() {
    let x = [tensor(Float16, &[1, 2], &[300.0, 300.0])];
    let y = operation("RMSNorm", r#""axis": -1"#, "@0", &x).unwrap();
    assert_eq!((y.dtype(), is_near(&y, &[1.0, 1.0])), (Float16, true), "{:?}", reals(&y));
}

#[test]
fn axes_may_be_constants_of_the_call() {
    let x = [floats(&[2, 3], &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0])];
    let axis = r#""axis": {"class_name": "__numpy__", "config": {"value": [0], "dtype": "int64"}}"#;
    let kept = r#"@0, {"class_name": "__numpy__", "config": {"value": [1, 2], "dtype": "int64"}}"#;
    let y = operation("Repeat", r#""axis": 0"#, kept, &x).unwrap();
    assert_eq!(reals(&y), [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 4.0, 5.0, 6.0]);
    // Objects of configurations are no numbers.
    assert!(!findings(operation("Sum", axis, "@0", &x)).is_empty());
}

#[test]
fn axes_that_are_computed_are_refused() {
    let feeds = [floats(&[2, 2], &[1.0, 2.0, 3.0, 4.0]), tensor(Int64, &[1], &[0.0])];
    for (class, args) in [("Sum", "@0, @1"), ("Flip", "@0, @1"), ("Repeat", "@0, @1")] {
        let found = findings(operation(class, "", args, &feeds));
        assert!(found.len() == 1 && found[0].starts_with("N0204"), "{class}: {found:?}");
    }
}

#[test]
fn polar_numbers_are_complex() {
    let feeds = [floats(&[2], &[2.0, 3.0]), floats(&[2], &[0.0, std::f64::consts::FRAC_PI_2])];
    let y = operation("Polar", "", "@0, @1", &feeds).unwrap();
    assert_eq!(y.dims(), [2, 2]);
    assert!(is_near(&y, &[2.0, 0.0, 0.0, 3.0]), "{:?}", reals(&y));
}

#[test]
fn tensors_become_of_the_type_that_is_asked_for() {
    let x = [floats(&[2], &[1.5, -2.5])];
    for class in ["Array", "ConvertToTensor"] {
        let y = operation(class, r#""dtype": "int32""#, "@0", &x).unwrap();
        assert_eq!((y.dtype(), reals(&y)), (Int32, vec![1.0, -2.0]), "{class}");
        let y = operation(class, r#""dtype": null"#, "@0", &x).unwrap();
        assert_eq!(reals(&y), [1.5, -2.5], "{class}");
    }
    let y = operation("Prod", r#""dtype": "int32""#, "@0", &x).unwrap();
    assert_eq!((y.dtype(), reals(&y)), (Int32, vec![-2.0]));
}

#[test]
fn powers_have_the_number_of_columns_that_is_asked_for() {
    let y = operation("Vander", r#""N": 3"#, "@0", &[floats(&[1], &[2.0])]).unwrap();
    assert_eq!(reals(&y), [4.0, 2.0, 1.0]);
}

#[test]
fn grey_pictures_stay_and_integers_are_no_floats() {
    let grey = [floats(&[1, 2, 1], &[10.0, 20.0])];
    assert_eq!(reals(&operation("RGBToGrayscale", "", "@0", &grey).unwrap()), [10.0, 20.0]);
    let bytes = [tensor(Uint8, &[1, 1, 3], &[255.0, 0.0, 0.0])];
    assert_eq!(reals(&operation("RGBToGrayscale", "", "@0", &bytes).unwrap()), [76.0]);
    assert_eq!(findings(function("image.rgb_to_grayscale", "", &bytes)).len(), 1);
}

#[test]
fn infinite_numbers_leave_the_rest_alone() {
    let x = [floats(&[2], &[f64::INFINITY, 1.0])];
    let y = operation("Diag", "", "@0", &x).unwrap();
    assert_eq!(reals(&y), [f64::INFINITY, 0.0, 0.0, 1.0]);
    let feeds = [floats(&[2, 2], &[f64::INFINITY, 1.0, 2.0, 3.0]), floats(&[2], &[1.0, 3.0])];
    let y = operation("Average", r#""axis": 0"#, "@0, @1", &feeds).unwrap();
    assert_eq!(reals(&y), [f64::INFINITY, 2.5]);
}

#[test]
fn places_before_the_first_count_from_the_end() {
    let x = [tensor(Int32, &[3], &[-1.0, 5.0, -7.0])];
    let y = super::operations("UnravelIndex", r#""shape": [2, 3]"#, "@0", &x, 2).unwrap();
    assert_eq!((reals(&y[0]), reals(&y[1])), (vec![1.0, 1.0, 1.0], vec![2.0, 2.0, 2.0]));
}

#[test]
fn infinite_numbers_of_descriptions_are_numbers() {
    let x = [floats(&[2], &[-1.0, 2.0])];
    let y = operation("Maximum", "", "@0, -Infinity", &x).unwrap();
    assert_eq!(reals(&y), [-1.0, 2.0]);
    let y = function("math.minimum", r#""y": -Infinity, "name": null"#, &x).unwrap();
    assert_eq!(reals(&y), [f64::NEG_INFINITY; 2]);
}
