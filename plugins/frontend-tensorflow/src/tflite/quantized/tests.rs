use super::real_constant;
use crate::tflite::fixture::{
    FLOAT, Field, Fields, INT8, Lite, problem, quantized, single, tensor, text,
};
use crate::tflite::model::Quantization;
use onnxd_plugin_sdk::ir::Tensor;

const DEQUANTIZE: i32 = 6;
const LOGISTIC: i32 = 14;

fn int8(name: &str) -> Fields {
    tensor(name, INT8, &[2], 0)
}

/// `y = real(x)`
fn read(x: Fields) -> Lite {
    single(DEQUANTIZE, vec![x, tensor("y", FLOAT, &[2], 0)], vec![], vec![])
}

/// Old quantizers give channels of zeros the scale zero.
#[test]
fn a_scale_of_zero_makes_zeros() {
    let shown = text(&read(quantized(int8("x"), &[0.0], &[3], 0)));
    assert!(shown.contains("y = DequantizeLinear(x, "), "{shown}");
    let y = quantized(int8("y"), &[0.0], &[3], 0);
    let x = quantized(int8("x"), &[0.5], &[3], 0);
    let found = problem(&single(LOGISTIC, vec![x, y], vec![], vec![]));
    assert!(found.contains("N0204") && found.contains("`y`") && found.contains("zero"), "{found}");
}

#[test]
fn quantizations_that_are_none() {
    let bad = |scales: &[f32], zeros: &[i64], what: &str| {
        let found = problem(&read(quantized(int8("x"), scales, zeros, 0)));
        assert!(found.contains(what) && found.contains("`x`"), "{found}");
    };
    bad(&[0.5], &[], "1 scales and 0 zero points");
    bad(&[0.5], &[1, 2], "1 scales and 2 zero points");
    bad(&[0.5, 0.5], &[1], "2 scales and 1 zero points");
    bad(&[-0.5], &[0], "the scale -0.5");
    bad(&[0.5, f32::NAN], &[0, 0], "the scale NaN");
    bad(&[f32::INFINITY], &[0], "the scale inf");
}

#[test]
fn blocks_are_refused() {
    let mut x = int8("x");
    x.push((4, Field::Table(vec![(4, Field::I8(2))])));
    let found = problem(&read(x));
    assert!(found.contains("N0203") && found.contains("blocks"), "{found}");
}

/// The size of an axis says nothing of the number of elements.
#[test]
fn constants_without_elements() {
    let none = Tensor::from_vec::<i8>(vec![1 << 40, 0], vec![]);
    let found = Quantization { scales: vec![0.5], zeros: vec![0], axis: 0, blocks: false };
    assert_eq!(real_constant(&none, &found).unwrap().dims(), [1 << 40, 0]);
    let two = real_constant(&Tensor::from_vec(vec![1, 2], vec![2i8, 3]), &found).unwrap();
    assert_eq!((two.dims(), two.to_reals().unwrap().values), (&[1, 2][..], vec![1.0, 1.5]));
}
