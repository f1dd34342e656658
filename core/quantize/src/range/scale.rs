//! Integers that stand for reals: `x = scale * (q - zero_point)`, as `QuantizeLinear` has it.
//! <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>

use onnxd_ir::{DataType, Tensor, element_count};

/// The integers of a quantized type that a scale may be made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Levels {
    /// The element type.
    pub dtype: DataType,
    /// The smallest integer that the scale is made for.
    pub min: i64,
    /// The largest one.
    pub max: i64,
}

impl Levels {
    /// All integers of a type of at most 16 bits; `None` for others.
    #[must_use]
    #[inline]
    pub fn of(dtype: DataType) -> Option<Levels> {
        let (min, max) = match dtype {
            DataType::Uint8 => (0, 255),
            DataType::Int8 => (-128, 127),
            DataType::Uint16 => (0, 65535),
            DataType::Int16 => (-32768, 32767),
            DataType::Uint4 => (0, 15),
            DataType::Int4 => (-8, 7),
            DataType::Uint2 => (0, 3),
            DataType::Int2 => (-2, 1),
            _ => return None,
        };
        Some(Levels { dtype, min, max })
    }

    /// Without the lowest integer of a signed type, so that the range is symmetric around zero.
    #[must_use]
    pub fn symmetric(self) -> Levels {
        Levels { min: self.min.max(-self.max), ..self }
    }

    /// One bit less, for processors whose products of 8 bits saturate when two are added.
    #[must_use]
    pub fn reduced(self) -> Levels {
        match self.min {
            0 => Levels { max: self.max / 2, ..self },
            min => Levels { min: min / 2, max: -(min / 2), ..self },
        }
    }

    #[inline]
    fn full(self) -> Levels {
        Levels::of(self.dtype).unwrap_or(self)
    }
}

/// How reals and the integers of a type stand for each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The element type.
    pub dtype: DataType,
    /// The real value of one step. It has a `f32`'s precision.
    pub scale: f64,
    /// The integer that stands for zero.
    pub zero_point: i64,
}

impl Scale {
    /// For reals from `min` to `max`, extended so that they hold zero, which becomes an integer
    /// exactly. With `symmetric`, the range is extended to both sides of zero alike.
    ///
    /// `scale = (max - min) / (levels.max - levels.min)`, `zero_point = levels.min - min / scale`,
    /// rounded to the nearest, ties to even. A range of nothing has scale 1, and its zero is where
    /// that of positive numbers would be, so that saturation still stands for a `Relu`.
    #[must_use]
    pub fn of_range((min, max): (f64, f64), levels: Levels, symmetric: bool) -> Scale {
        let (min, max) = (min.min(0.0), max.max(0.0));
        let (min, max) = match symmetric {
            true => (-max.max(-min), max.max(-min)),
            false => (min, max),
        };
        let (lo, hi) = (levels.min as f64, levels.max as f64);
        let scale = (max - min) / (hi - lo);
        let usable = (scale as f32).is_finite() && scale >= f64::from(f32::MIN_POSITIVE);
        let (min, scale) = if usable { (min, scale) } else { (0.0, 1.0) };
        let zero_point = match symmetric {
            true => ((lo + hi) / 2.0).round_ties_even(),
            false => (lo - min / scale).round_ties_even(),
        };
        let scale = f64::from(scale as f32);
        Scale { dtype: levels.dtype, scale, zero_point: zero_point as i64 }
    }

    /// The integer for `x`: divided in `f32` as `QuantizeLinear` does, ties to even, saturated. Not
    /// a number becomes the zero point.
    #[must_use]
    #[inline]
    pub fn quantize(&self, x: f32) -> i64 {
        /// Adding and taking it away leaves the nearest integer, for magnitudes up to 2^22.
        const ROUND: f32 = 12_582_912.0;
        /// Beyond the integers of all types.
        const REACH: f32 = 131_072.0;
        let Levels { min, max, .. } = self.levels();
        let q = ((x / self.scale as f32).clamp(-REACH, REACH) + ROUND) - ROUND;
        (i64::from(q as i32) + self.zero_point).clamp(min, max)
    }

    /// The real that `q` stands for.
    #[must_use]
    pub fn dequantize(&self, q: i64) -> f64 {
        (q - self.zero_point) as f64 * self.scale
    }

    /// The smallest and largest real that is kept.
    #[must_use]
    pub fn range(&self) -> (f64, f64) {
        let Levels { min, max, .. } = self.levels();
        (self.dequantize(min), self.dequantize(max))
    }

    #[inline]
    fn levels(&self) -> Levels {
        let all = Levels { dtype: self.dtype, min: i64::MIN, max: i64::MAX };
        all.full()
    }
}

/// A tensor of an integer type, packed where elements take less than a byte. Integers outside the
/// type saturate. `None` for types that are no integers, or if `values` does not fill `dims`.
#[must_use]
pub fn integers(dtype: DataType, dims: &[usize], values: &[i64]) -> Option<Tensor> {
    if element_count(dims) != Some(values.len()) {
        return None;
    }
    macro_rules! narrow {
        ($rust:ty) => {{
            let (min, max) = (<$rust>::MIN as i64, <$rust>::MAX as i64);
            let narrow = values.iter().map(|x| (*x).clamp(min, max) as $rust).collect();
            Some(Tensor::from_vec(dims, narrow))
        }};
    }
    match dtype {
        DataType::Int8 => narrow!(i8),
        DataType::Uint8 => narrow!(u8),
        DataType::Int16 => narrow!(i16),
        DataType::Uint16 => narrow!(u16),
        DataType::Int32 => narrow!(i32),
        DataType::Int64 => Some(Tensor::from_vec(dims, values.to_vec())),
        _ => packed(Levels::of(dtype)?, dims, values),
    }
}

/// The first element lies in the lowest bits.
fn packed(levels: Levels, dims: &[usize], values: &[i64]) -> Option<Tensor> {
    let bits = levels.dtype.bits();
    let mask = (1u8 << bits) - 1;
    let byte = |group: &[i64]| {
        let low = |x: &i64| (*x).clamp(levels.min, levels.max) as u8 & mask;
        group.iter().rev().fold(0u8, |byte, x| byte << bits | low(x))
    };
    let bytes: Vec<u8> = values.chunks(8 / bits).map(byte).collect();
    Tensor::new(levels.dtype, dims.to_vec(), bytes.into()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn types() -> impl Strategy<Value = DataType> {
        prop::sample::select(vec![
            DataType::Uint8,
            DataType::Int8,
            DataType::Uint16,
            DataType::Int16,
            DataType::Uint4,
            DataType::Int4,
        ])
    }

    #[test]
    fn scales_by_hand() {
        let u8s = Levels::of(DataType::Uint8).unwrap();
        let i8s = Levels::of(DataType::Int8).unwrap();
        let of = |range, levels, symmetric| {
            let s = Scale::of_range(range, levels, symmetric);
            (s.scale as f32, s.zero_point)
        };
        assert_eq!(of((0.0, 2.55), u8s, false), (0.01, 0));
        assert_eq!(of((1.0, 2.55), u8s, false), (0.01, 0), "zero is in every range");
        assert_eq!(of((-1.27, 1.28), u8s, false), (0.01, 127));
        assert_eq!(of((-1.0, 0.5), i8s.symmetric(), true), (1.0 / 127.0, 0));
        assert_eq!(of((-1.0, 0.5), u8s, true), (2.0 / 255.0, 128));
        assert_eq!(of((-6.4, 1.0), i8s.reduced(), true), (0.1, 0));
        assert_eq!(of((0.0, 12.7), u8s.reduced(), false), (0.1, 0));
        for nothing in [(0.0, 0.0), (0.0, 1e-40), (0.0, f64::INFINITY), (f64::NAN, 0.0)] {
            assert_eq!(of(nothing, u8s, false), (1.0, 0), "{nothing:?}");
            assert_eq!(of(nothing, i8s, false), (1.0, -128), "{nothing:?}");
            assert_eq!(of(nothing, u8s, true), (1.0, 128), "{nothing:?}");
        }
    }

    #[test]
    fn integers_saturate_and_are_packed() {
        let of = |dtype, values: &[i64]| integers(dtype, &[values.len()], values).unwrap();
        assert_eq!(of(DataType::Int4, &[1, -2, -9]).bytes()[..], [0xe1, 0x08]);
        assert_eq!(of(DataType::Uint4, &[1, 20, 3]).to_i64s().unwrap(), [1, 15, 3]);
        assert_eq!(of(DataType::Int8, &[300, -300]).to_i64s().unwrap(), [127, -128]);
        assert!(integers(DataType::Float, &[1], &[1]).is_none());
        assert!(integers(DataType::Int8, &[2], &[1]).is_none());
    }

    proptest! {
        /// Zero is kept exactly, what lies in the range to half a step, the rest saturates.
        #[test]
        fn values_come_back(
            a in -1e4..1e4f64, b in -1e4..1e4f64, x in -2e4..2e4f32, dtype in types(),
            symmetric: bool,
        ) {
            let levels = Levels::of(dtype).unwrap();
            let levels = if symmetric { levels.symmetric() } else { levels };
            let (min, max) = (a.min(b), a.max(b));
            prop_assume!(max - min > 1e-3);
            let s = Scale::of_range((min, max), levels, symmetric);
            prop_assert_eq!(s.dequantize(s.quantize(0.0)), 0.0);
            let (lo, hi) = s.range();
            // The zero point is rounded: the ends move by half a step.
            let slack = s.scale * 0.5 + 1e-6 * max.abs().max(min.abs());
            prop_assert!(lo <= min.min(0.0) + slack && hi >= max.max(0.0) - slack);
            let back = s.dequantize(s.quantize(x));
            let nearest = f64::from(x).clamp(lo, hi);
            // Many steps are divided with a float's precision.
            let slack = s.scale * 0.5 * (1.0 + 1e-3) + 1e-6 * nearest.abs();
            prop_assert!((back - nearest).abs() <= slack);
            let again = s.dequantize(s.quantize(back as f32));
            prop_assert_eq!(back, again, "what was quantized stays as it is");
        }
    }
}
