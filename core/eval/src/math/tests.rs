use crate::testing::{assert_near, reals, run, try_run, word};
use half::f16;
use onnxd_ir::{Attr, DataType, Tensor};

#[test]
fn integer_arithmetic_is_exact() {
    let a = Tensor::vector(vec![i64::MAX, -7, 7]);
    let b = Tensor::vector(vec![1i64, 2, -2]);
    assert_eq!(run("Add", 14, &[], &[&a, &b]).to_i64s().unwrap(), [i64::MIN, -5, 5]);
    assert_eq!(run("Div", 14, &[], &[&a, &b]).to_i64s().unwrap(), [i64::MAX, -3, -3]);
    assert_eq!(run("Mod", 14, &[], &[&a, &b]).to_i64s().unwrap(), [0, 1, -1]);
    let fmod = [("fmod", Attr::Int(1))];
    assert_eq!(run("Mod", 14, &fmod, &[&a, &b]).to_i64s().unwrap(), [0, -1, 1]);
    let zero = Tensor::scalar(0i64);
    assert_eq!(try_run("Div", 14, &[], &[&a, &zero]).unwrap_err().code, "N0502");
}

#[test]
fn bytes_wrap() {
    let a = Tensor::vector(vec![250u8, 3]);
    let b = Tensor::scalar(10u8);
    assert_eq!(run("Add", 14, &[], &[&a, &b]).to_i64s().unwrap(), [4, 13]);
    assert_eq!(run("Sub", 14, &[], &[&a, &b]).to_i64s().unwrap(), [240, 249]);
}

#[test]
fn broadcasting_before_opset_7_follows_the_axis() {
    let a = Tensor::from_vec(vec![2, 2, 1], vec![1f32, 2.0, 3.0, 4.0]);
    let b = Tensor::vector(vec![10f32, 20.0]);
    let attrs = [("broadcast", Attr::Int(1)), ("axis", Attr::Int(1))];
    assert_eq!(reals(&run("Add", 6, &attrs, &[&a, &b])), [11.0, 22.0, 13.0, 24.0]);
}

#[test]
fn sixteen_bit_floats_are_rounded_per_operator() {
    let a = Tensor::vector(vec![f16::from_f32(2048.0)]);
    let b = Tensor::vector(vec![f16::from_f32(1.0)]);
    let sum = run("Add", 14, &[], &[&a, &b]);
    assert_eq!((sum.dtype(), reals(&sum)), (DataType::Float16, vec![2048.0]));
}

#[test]
fn powers_keep_the_type_of_the_base() {
    let base = Tensor::vector(vec![2i32, -3]);
    let exponent = Tensor::vector(vec![3f32, 2.0]);
    let found = run("Pow", 15, &[], &[&base, &exponent]);
    assert_eq!((found.dtype(), found.to_i64s().unwrap()), (DataType::Int32, vec![8, 9]));
}

#[test]
fn shifts_beyond_the_width() {
    let x = Tensor::vector(vec![255u8, 1]);
    let by = Tensor::vector(vec![8u8, 7]);
    let left = [("direction", word("LEFT"))];
    assert_eq!(run("BitShift", 11, &left, &[&x, &by]).to_i64s().unwrap(), [0, 128]);
    let (x, by) = (Tensor::vector(vec![-8i8, 4, -8]), Tensor::vector(vec![8i8, 9, -1]));
    let right = [("direction", word("RIGHT"))];
    assert_eq!(run("BitShift", 28, &right, &[&x, &by]).to_i64s().unwrap(), [-1, 0, -1]);
}

#[test]
fn rounding_goes_to_even() {
    let x = Tensor::vector(vec![0.5f32, 1.5, 2.5, -0.5, -1.5]);
    assert_eq!(reals(&run("Round", 11, &[], &[&x])), [0.0, 2.0, 2.0, -0.0, -2.0]);
}

#[test]
fn extremes_carry_nan() {
    let a = Tensor::vector(vec![f32::NAN, 1.0, 3.0]);
    let b = Tensor::vector(vec![0f32, f32::NAN, 2.0]);
    assert_near(&run("Max", 13, &[], &[&a, &b]), &[f64::NAN, f64::NAN, 3.0], 0.0);
    assert_near(&run("Min", 13, &[], &[&a, &b]), &[f64::NAN, f64::NAN, 2.0], 0.0);
}

#[test]
fn einsum_contracts_batches_and_diagonals() {
    let a = Tensor::from_vec(vec![1, 2, 2], vec![1f32, 2.0, 3.0, 4.0]);
    let product = run("Einsum", 12, &[("equation", word("...ij,...jk->...ik"))], &[&a, &a]);
    assert_eq!(reals(&product), [7.0, 10.0, 15.0, 22.0]);
    let trace = run("Einsum", 12, &[("equation", word("bii"))], &[&a]);
    assert_eq!((trace.dims(), reals(&trace)), (&[1usize][..], vec![5.0]));
    assert!(try_run("Einsum", 12, &[("equation", word("ij->ik"))], &[&a]).is_err());
}

#[test]
fn determinants() {
    let x = Tensor::from_vec(vec![2, 2], vec![0f32, 1.0, 2.0, 3.0]);
    assert_eq!(reals(&run("Det", 11, &[], &[&x])), [-2.0]);
}

#[test]
fn large_exponents_wrap_like_small_ones() {
    let base = Tensor::vector(vec![-1i64, -1, 2, 3, 0]);
    let exponents = Tensor::vector(vec![u64::MAX, u64::MAX - 1, u64::MAX, 1 << 63, u64::MAX]);
    let y = run("Pow", 15, &[], &[&base, &exponents]);
    assert_eq!(y.to_i64s().unwrap(), [-1, 1, 0, 1, 0]);
    let odd = Tensor::scalar(41u64);
    let y = run("Pow", 15, &[], &[&Tensor::vector(vec![3i64]), &odd]);
    assert_eq!(y.to_i64s().unwrap(), [3i64.wrapping_pow(41)]);
}

#[test]
fn one_exponent_for_all_gives_what_the_definition_does() {
    let ends = [0.0, -0.0, f32::INFINITY, f32::NEG_INFINITY, f32::NAN, f32::MAX, 1e-45, -2.5, 0.7];
    let base = Tensor::vector(ends.to_vec());
    for exponent in [-1f32, 0.5, 1.0, 2.0, 3.0, 2.5, -2.0, 0.0] {
        let y = run("Pow", 15, &[], &[&base, &Tensor::scalar(exponent)]);
        for (x, y) in ends.iter().zip(reals(&y)) {
            let wanted = f64::from(x.powf(exponent));
            let same = y == wanted || (y.is_nan() && wanted.is_nan());
            let near = (y - wanted).abs() <= 1.2e-7 * wanted.abs();
            assert!(same || near, "{x}^{exponent} is {y}, not {wanted}");
            assert_eq!(
                y.is_sign_negative() && y == 0.0,
                wanted.is_sign_negative() && wanted == 0.0
            );
        }
    }
    let wide =
        run("Pow", 15, &[], &[&Tensor::scalar(3f32), &Tensor::from_vec(vec![1, 1], vec![2f32])]);
    assert_eq!((wide.dims(), reals(&wide)), (&[1, 1][..], vec![9.0]));
}
