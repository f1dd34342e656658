use super::{floats, operation, reals, slicing};
use onnxd_plugin_sdk::ir::DataType::Int32;
use onnxd_plugin_sdk::ir::Tensor;

fn matrix() -> Tensor {
    floats(&[3, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0])
}

#[test]
fn a_single_slice_of_version_2_is_one_key() {
    let rows = slicing(r#"{"start": 1, "stop": 3, "step": null}"#, &[matrix()]).unwrap();
    assert_eq!((rows.dims(), reals(&rows)), (&[2, 2][..], vec![2.0, 3.0, 4.0, 5.0]));
    let both =
        r#"[{"start": null, "stop": null, "step": 2}, {"start": 1, "stop": null, "step": null}]"#;
    assert_eq!(reals(&slicing(both, &[matrix()]).unwrap()), [1.0, 5.0]);
    // Three numbers are three places.
    let x = floats(&[2, 2, 2], &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
    let at = slicing("[1, 0, 1]", &[x]).unwrap();
    assert_eq!((at.rank(), reals(&at)), (0, vec![5.0]));
}

#[test]
fn slices_end_where_a_tensor_says() {
    let n = super::tensor(Int32, &[], &[2.0]);
    let key = r#"{"start": null, "stop": ["x1", 0, 0], "step": null}"#;
    let rows = slicing(key, &[matrix(), n.clone()]).unwrap();
    assert_eq!(reals(&rows), [0.0, 1.0, 2.0, 3.0]);
    let key =
        r#"@0, {"class_name": "__slice__", "config": {"start": @1, "stop": null, "step": null}}"#;
    assert_eq!(reals(&operation("GetItem", "", key, &[matrix(), n]).unwrap()), [4.0, 5.0]);
    let key = r#"@0, [{"class_name": "__ellipsis__", "config": {}}, 1]"#;
    assert_eq!(reals(&operation("GetItem", "", key, &[matrix()]).unwrap()), [1.0, 3.0, 5.0]);
}

#[test]
fn slices_have_no_step_of_zero() {
    let key = r#"{"start": null, "stop": null, "step": 0}"#;
    assert_eq!(super::findings(slicing(key, &[matrix()])).len(), 1);
}
