//! Products of 8-bit integers, exact and as fast as those of floats: as long as no sum leaves the
//! digits of the type, floating point adds integers without rounding, in any order.

use crate::elementwise::map;
use crate::fault::Outcome;
use crate::num::slice;
use onnxd_ir::{DataType, Tensor};

/// Integers up to this are exact in `f32`.
const EXACT_F32: u64 = 1 << 24;

/// Both factors as floats of the smallest type in which sums of `depth` of their products are exact.
pub(crate) fn as_floats(depth: usize, a: &Tensor, b: &Tensor) -> Outcome<[Tensor; 2]> {
    let floats = |x: &Tensor| map(x, |v: i32| v as f32);
    let doubles = |x: &Tensor| map(x, |v: i32| f64::from(v));
    match float_for(depth, a, b)? {
        DataType::Float => Ok([floats(a)?, floats(b)?]),
        _ => Ok([doubles(a)?, doubles(b)?]),
    }
}

/// The smallest type in which sums of `depth` products are exact; `f64` has room for every sum that
/// fits into memory.
fn float_for(depth: usize, a: &Tensor, b: &Tensor) -> Outcome<DataType> {
    let largest = |x: &Tensor| -> Outcome<u64> {
        Ok(slice::<i32>(x)?.iter().map(|v| u64::from(v.unsigned_abs())).max().unwrap_or(0))
    };
    let bound = largest(a)?.saturating_mul(largest(b)?).saturating_mul(depth as u64);
    Ok(if bound <= EXACT_F32 { DataType::Float } else { DataType::Double })
}

/// Sums of such products, modulo 2^32.
pub(crate) fn integers(x: &Tensor) -> Outcome<Tensor> {
    match x.dtype() {
        DataType::Float => map(x, |v: f32| v as i32),
        _ => map(x, |v: f64| v as i64 as i32),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::run;

    #[test]
    fn sums_are_exact_on_both_sides_of_the_digits_of_a_float() {
        for k in [100usize, 258, 259, 5000] {
            let a = Tensor::from_vec(vec![1, k], vec![255u8; k]);
            let b = Tensor::from_vec(vec![k, 1], (0..k).map(|i| 255 - (i % 2) as u8).collect());
            let expected: i64 = (0..k as i64).map(|i| 255 * (255 - i % 2)).sum();
            assert_eq!(run("MatMulInteger", 10, &[], &[&a, &b]).to_i64s().unwrap(), [expected]);
            let x = a.reshaped(vec![1, k, 1]).unwrap();
            let w = b.reshaped(vec![1, k, 1]).unwrap();
            assert_eq!(run("ConvInteger", 10, &[], &[&x, &w]).to_i64s().unwrap(), [expected]);
        }
    }
}
