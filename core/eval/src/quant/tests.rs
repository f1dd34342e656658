use crate::testing::{assert_near, reals, run, try_all, try_run};
use bytes::Bytes;
use onnxd_ir::{Attr, DataType, Tensor};

#[test]
fn ties_to_even_and_saturation() {
    let x = Tensor::vector(vec![0.5f32, 1.5, 2.5, -0.5, 300.0, -300.0]);
    let scale = Tensor::scalar(1f32);
    let zero = Tensor::scalar(128u8);
    let y = run("QuantizeLinear", 13, &[], &[&x, &scale, &zero]);
    assert_eq!(y.to_i64s().unwrap(), [128, 130, 130, 128, 255, 0]);
    let zero = Tensor::scalar(0i16);
    let big = Tensor::vector(vec![40000f32, -40000.0]);
    let y = run("QuantizeLinear", 21, &[], &[&big, &scale, &zero]);
    assert_eq!((y.dtype(), y.to_i64s().unwrap()), (DataType::Int16, vec![32767, -32768]));
}

#[test]
fn four_bits() {
    let x = Tensor::vector(vec![-9f32, -3.0, 7.0]);
    let zero = Tensor::new(DataType::Int4, vec![], Bytes::from_static(&[1])).unwrap();
    let y = run("QuantizeLinear", 21, &[], &[&x, &Tensor::scalar(2f32), &zero]);
    assert_eq!((y.dtype(), y.to_i64s().unwrap()), (DataType::Int4, vec![-3, -1, 5]));
    let back = run("DequantizeLinear", 21, &[], &[&y, &Tensor::scalar(2f32), &zero]);
    assert_eq!(reals(&back), [-8.0, -4.0, 8.0]);
}

#[test]
fn scales_that_are_powers_of_two() {
    let scale = Tensor::new(DataType::Float8E8M0, vec![2], Bytes::from_static(&[0x80, 0x7e]));
    let x = Tensor::from_vec(vec![1, 2], vec![3i8, 5]);
    let y = run("DequantizeLinear", 25, &[], &[&x, &scale.unwrap()]);
    assert_eq!((y.dtype(), reals(&y)), (DataType::Float, vec![6.0, 2.5]));
}

#[test]
fn per_axis_and_blocked() {
    let x = Tensor::from_vec(vec![2, 2], vec![10i8, 20, 30, 40]);
    let scale = Tensor::vector(vec![1f32, 0.5]);
    let axis = [("axis", Attr::Int(0))];
    assert_eq!(reals(&run("DequantizeLinear", 13, &axis, &[&x, &scale])), [10.0, 20.0, 15.0, 20.0]);
    assert_eq!(reals(&run("DequantizeLinear", 13, &[], &[&x, &scale])), [10.0, 10.0, 30.0, 20.0]);
    let x = Tensor::from_vec(vec![1, 3], vec![10i8, 20, 30]);
    let scale = Tensor::from_vec(vec![1, 2], vec![1f32, 10.0]);
    let blocks = [("block_size", Attr::Int(2))];
    assert_eq!(reals(&run("DequantizeLinear", 21, &blocks, &[&x, &scale])), [10.0, 20.0, 300.0]);
    assert!(try_run("DequantizeLinear", 21, &[], &[&x, &scale]).is_err());
}

#[test]
fn types_of_scales_results_and_divisions() {
    let half = |v: f32| Tensor::scalar(half::f16::from_f32(v));
    let x = Tensor::vector(vec![3i8]);
    assert_eq!(run("DequantizeLinear", 23, &[], &[&x, &half(0.1)]).dtype(), DataType::Float16);
    let wide = [("output_dtype", Attr::Int(1))];
    let y = run("DequantizeLinear", 23, &wide, &[&x, &half(0.1)]);
    // The scale is the nearest 16-bit float; their product is not rounded to one.
    assert_near(&y, &[3.0 * f64::from(half::f16::from_f32(0.1))], 1e-7);
    // In bfloat16 3.498 is a tie, 3.5.
    let (one, zero) = (Tensor::scalar(1f32), Tensor::scalar(1u8));
    let x = Tensor::vector(vec![3.498f32]);
    assert_eq!(reals(&run("QuantizeLinear", 23, &[], &[&x, &one, &zero])), [4.0]);
    let coarse = [("precision", Attr::Int(16))];
    assert_eq!(reals(&run("QuantizeLinear", 23, &coarse, &[&x, &one, &zero])), [5.0]);
}

#[test]
fn dynamic_ranges_include_zero() {
    let x = Some(Tensor::vector(vec![0f32, 2.0, -3.0, -2.5, 1.34, 0.5]));
    let found = try_all("DynamicQuantizeLinear", 11, &[], &[x], 3).unwrap();
    assert_eq!(found[0].to_i64s().unwrap(), [153, 255, 0, 26, 221, 179]);
    assert_near(&found[1], &[5.0 / 255.0], 1e-8);
    assert_eq!(found[2].to_i64s().unwrap(), [153]);
}

#[test]
fn quantized_convolution_with_scales_per_channel() {
    let x = Tensor::from_vec(vec![1, 1, 2], vec![130u8, 126]);
    let w = Tensor::from_vec(vec![2, 1, 1], vec![3i8, -4]);
    let (zx, zw) = (Tensor::scalar(128u8), Tensor::scalar(0i8));
    let (sx, sw) = (Tensor::scalar(0.5f32), Tensor::vector(vec![1f32, 0.25]));
    let (sy, zy) = (Tensor::scalar(1f32), Tensor::scalar(10u8));
    let bias = Tensor::vector(vec![0i32, 8]);
    let y = run("QLinearConv", 10, &[], &[&x, &sx, &zx, &w, &sw, &zw, &sy, &zy, &bias]);
    assert_eq!(y.to_i64s().unwrap(), [13, 7, 10, 12]);
}

#[test]
fn quantized_product() {
    let a = Tensor::from_vec(vec![1, 2], vec![2u8, 4]);
    let b = Tensor::from_vec(vec![2, 1], vec![3u8, 5]);
    let (zero, one) = (Tensor::scalar(1u8), Tensor::scalar(1f32));
    let y = run("QLinearMatMul", 10, &[], &[&a, &one, &zero, &b, &one, &zero, &one, &zero]);
    assert_eq!(y.to_i64s().unwrap(), [2 + 12 + 1]);
}

#[test]
fn quantized_products_with_scales_per_batch() {
    let a = Tensor::from_vec(vec![2, 1, 1], vec![2u8, 4]);
    let b = Tensor::from_vec(vec![2, 1, 2], vec![3u8, 5, 7, 9]);
    let (zero, one) = (Tensor::scalar(0u8), Tensor::scalar(1f32));
    let scales = Tensor::from_vec(vec![2, 1, 2], vec![1f32, 2.0, 3.0, 4.0]);
    let zeros = Tensor::from_vec(vec![2, 1, 2], vec![0u8, 1, 2, 3]);
    let y = run("QLinearMatMul", 10, &[], &[&a, &one, &zero, &b, &scales, &zeros, &one, &zero]);
    assert_eq!(y.to_i64s().unwrap(), [6, 16, 60, 96]);
    let rows = Tensor::vector(vec![1f32, 2.0, 3.0]);
    let inputs = [&a, &rows, &zero, &b, &scales, &zeros, &one, &zero];
    assert!(try_run("QLinearMatMul", 10, &[], &inputs).is_err());
}

/// The standard allows no such type; a model may have it all the same.
#[test]
fn zero_points_far_from_the_integers() {
    let x = Tensor::vector(vec![i64::MIN, i64::MAX]);
    let (scale, zero) = (Tensor::scalar(1f32), Tensor::scalar(1i64));
    let y = try_run("DequantizeLinear", 13, &[], &[&x, &scale, &zero]);
    let ends = [i64::MIN as f64, i64::MAX as f64];
    assert!(y.is_err() || reals(&y.unwrap()) == ends);
}
