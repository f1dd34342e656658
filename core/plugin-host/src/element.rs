//! Sizes of tensors by `TensorProto.DataType`, the only thing the host has to know about elements.

use crate::Refusal;
use onnxd_diagnostics::refuse;
use onnxd_plugin_abi as abi;

/// Bits per element; `None` for strings, the undefined type and numbers not in the standard.
fn bits(dtype: i32) -> Option<u64> {
    Some(match dtype {
        // UINT2, INT2
        25 | 26 => 2,
        // UINT4, INT4, FLOAT4E2M1
        21..=23 => 4,
        // FLOAT6E2M3, FLOAT6E3M2
        27 | 28 => 6,
        // UINT8, INT8, BOOL, FLOAT8*
        2 | 3 | 9 | 17..=20 | 24 => 8,
        // UINT16, INT16, FLOAT16, BFLOAT16
        4 | 5 | 10 | 16 => 16,
        // FLOAT, INT32, UINT32
        1 | 6 | 12 => 32,
        // INT64, DOUBLE, UINT64, COMPLEX64
        7 | 11 | 13 | 14 => 64,
        // COMPLEX128
        15 => 128,
        _ => return None,
    })
}

/// Bytes of a tensor: the product of `dims` times the element's bits, packed, rounded up.
pub(crate) fn tensor_bytes(dtype: i32, dims: &[i64]) -> Result<u64, Refusal> {
    let bits = bits(dtype)
        .ok_or_else(|| Refusal::invalid(format!("data type {dtype} has no fixed element size")))?;
    if dims.len() > abi::RANK_MAX as usize {
        let max = abi::RANK_MAX;
        return Err(Refusal::invalid(format!("rank {} is above {max}", dims.len())));
    }
    refuse!(let Some(negative) = dims.iter().find(|d| **d < 0) =>
        Refusal::invalid(format!("dimension {negative} is negative")));
    // Zero first: the product of the others may overflow in an empty tensor.
    if dims.contains(&0) {
        return Ok(0);
    }
    dims.iter()
        .try_fold(1u64, |n, d| n.checked_mul(d.unsigned_abs()))
        .and_then(|n| n.checked_mul(bits))
        .map(|b| b.div_ceil(8))
        .filter(|b| *b <= isize::MAX as u64)
        .ok_or_else(|| Refusal::invalid(format!("dimensions {dims:?} overflow the address space")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(tensor_bytes(1, &[2, 3]), Ok(24));
        assert_eq!(tensor_bytes(1, &[]), Ok(4));
        assert_eq!(tensor_bytes(22, &[3]), Ok(2));
        assert_eq!(tensor_bytes(25, &[5]), Ok(2));
        assert_eq!(tensor_bytes(27, &[4]), Ok(3));
        assert_eq!(tensor_bytes(15, &[2]), Ok(32));
        assert_eq!(tensor_bytes(7, &[i64::MAX, 0, 4]), Ok(0));
    }

    #[test]
    fn nonsense_is_refused() {
        for (dtype, dims) in [
            (0, vec![1]),
            (8, vec![1]),
            (99, vec![1]),
            (-1, vec![1]),
            (1, vec![-1]),
            (1, vec![i64::MAX, 2]),
            (15, vec![i64::MAX]),
            (1, vec![1; 33]),
        ] {
            assert_eq!(tensor_bytes(dtype, &dims).unwrap_err().status, abi::INVALID, "{dims:?}");
        }
    }
}
