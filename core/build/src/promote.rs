//! Element types that meet: NumPy's rules, with the standard's further types beside them.

use onnxd_ir::DataType::{self, *};

/// The smallest element type that holds all values of both, as NumPy says (`result_type`); float16
/// and bfloat16 meet in float32. `None` for words, types of less than 8 bits, and 8-bit floats, which
/// meet no other.
///
/// Source: <https://numpy.org/doc/stable/reference/arrays.promotion.html>
pub fn promoted(a: DataType, b: DataType) -> Option<DataType> {
    if a == b {
        return Some(a);
    }
    let (low, high) = if rank(a)? <= rank(b)? { (a, b) } else { (b, a) };
    Some(match (low, high) {
        (Bool, other) => other,
        (Float16, Bfloat16) => Float,
        (Float, Complex64) | (Float16 | Bfloat16, Complex64) => Complex64,
        (_, Complex64) if low.is_integer() && low.bits() <= 16 => Complex64,
        (_, Complex64 | Complex128) => Complex128,
        (x, y) if x.is_float() && y.is_float() => y,
        (x, y) if y.is_float() => integer_and_float(x, y),
        (x, y) => integers(x, y),
    })
}

/// In the order bool, integers, floats, complex numbers; wider ones later.
fn rank(dtype: DataType) -> Option<usize> {
    const ORDER: [DataType; 15] = [
        Bool, Uint8, Int8, Uint16, Int16, Uint32, Int32, Uint64, Int64, Float16, Bfloat16, Float,
        Double, Complex64, Complex128,
    ];
    ORDER.iter().position(|d| *d == dtype)
}

fn integer_and_float(integer: DataType, float: DataType) -> DataType {
    match (integer.bits(), float) {
        (8, float) | (_, float @ Double) => float,
        (16, Float16 | Bfloat16 | Float) => Float,
        _ => Double,
    }
}

fn integers(low: DataType, high: DataType) -> DataType {
    let signed = |d| matches!(d, Int8 | Int16 | Int32 | Int64);
    if signed(low) == signed(high) || (signed(high) && high.bits() > low.bits()) {
        return high;
    }
    // A signed type that is wider than the unsigned one.
    match low.bits().max(high.bits()) {
        8 => Int16,
        16 => Int32,
        32 => Int64,
        _ => Double,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows were taken from `numpy.result_type`.
    #[test]
    fn types_meet_as_in_numpy() {
        let rows = [
            (Bool, Int8, Int8),
            (Uint8, Int8, Int16),
            (Uint8, Int16, Int16),
            (Int8, Uint16, Int32),
            (Int32, Uint32, Int64),
            (Int64, Uint64, Double),
            (Int8, Float16, Float16),
            (Int16, Float16, Float),
            (Int16, Float, Float),
            (Int32, Float, Double),
            (Int64, Float16, Double),
            (Float16, Float, Float),
            (Float, Double, Double),
            (Float, Complex64, Complex64),
            (Double, Complex64, Complex128),
            (Int32, Complex64, Complex128),
            (Int16, Complex64, Complex64),
        ];
        for (a, b, result) in rows {
            assert_eq!(promoted(a, b), Some(result), "{a} {b}");
            assert_eq!(promoted(b, a), Some(result), "{b} {a}");
        }
        assert_eq!(promoted(Float16, Bfloat16), Some(Float));
        assert_eq!(promoted(String, Int8), None);
    }
}
