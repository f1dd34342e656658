//! Products of 8-bit integers, exact and as fast as those of floats: as long as no sum leaves the
//! digits of the type, floating point adds integers without rounding, in any order.

use crate::call::Call;
use crate::conv::convolved;
use crate::fault::Outcome;
use crate::linear::multiplied;
use crate::num::slice;
use onnxd_ir::{DataType, Tensor};

/// Integers up to this are exact in `f32`.
const EXACT_F32: u64 = 1 << 24;

/// The matrix product of centered integers, modulo 2^32.
pub(crate) fn product(call: &Call, a: &Tensor, b: &Tensor) -> Outcome<Tensor> {
    let depth = a.dims().last().copied().unwrap_or(1);
    let sums = match float_for(depth, a, b)? {
        DataType::Float => multiplied::<f32>(call, &floats(a)?, &floats(b)?)?,
        _ => multiplied::<f64>(call, &doubles(a)?, &doubles(b)?)?,
    };
    integers(&sums)
}

/// The convolution of centered integers, plus `bias` per output channel, modulo 2^32.
pub(crate) fn convolution(
    call: &Call,
    x: &Tensor,
    w: &Tensor,
    bias: Option<&[i32]>,
) -> Outcome<Tensor> {
    let depth = w.dims().iter().skip(1).product();
    let sums = match float_for(depth, x, w)? {
        DataType::Float => convolved::<f32>(call, &floats(x)?, &floats(w)?, None)?,
        _ => convolved::<f64>(call, &doubles(x)?, &doubles(w)?, None)?,
    };
    let sums = integers(&sums)?;
    let Some(bias) = bias else { return Ok(sums) };
    let mut y = slice::<i32>(&sums)?.into_owned();
    let area: usize = sums.dims().iter().skip(2).product();
    for (i, run) in y.chunks_mut(area.max(1)).enumerate() {
        run.iter_mut().for_each(|v| *v = v.wrapping_add(bias[i % bias.len()]));
    }
    Ok(Tensor::from_vec(sums.dims(), y))
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

fn floats(x: &Tensor) -> Outcome<Tensor> {
    crate::elementwise::map(x, |v: i32| v as f32)
}

fn doubles(x: &Tensor) -> Outcome<Tensor> {
    crate::elementwise::map(x, |v: i32| f64::from(v))
}

fn integers(x: &Tensor) -> Outcome<Tensor> {
    match x.dtype() {
        DataType::Float => crate::elementwise::map(x, |v: f32| v as i32),
        _ => crate::elementwise::map(x, |v: f64| v as i64 as i32),
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
