//! The natural logarithm.

use super::polynomial;

/// The natural logarithm of 2 as nine bits, whose products with exponents are exact, and the rest.
pub(super) const LN_2_HIGH: f32 = 355.0 / 512.0;
pub(super) const LN_2_LOW: f32 = -2.121_944_4e-4;
/// `(ln((1 + s) / (1 - s)) - 2 s) / s^3` in `s^2`, for `s` up to 0.172.
const NARROW: [f32; 3] = [0.666_667_76, 0.399_772_85, 0.298_791_68];
/// The same for `s` up to 1/3.
const WIDE: [f32; 5] = [0.666_666_75, 0.399_988_77, 0.286_169, 0.214_274_78, 0.243_016_72];

/// The bits of the root of 1/2, from which on mantissas go.
const ROOT: i32 = 0x3f35_04f3;

/// `ln(x)`.
#[inline(always)]
pub(crate) fn log(x: f32) -> f32 {
    let tiny = x < f32::MIN_POSITIVE;
    // By 2^23, so that subnormal numbers have an exponent.
    let normal = if tiny { x * 8_388_608.0 } else { x };
    let bits = normal.to_bits().cast_signed();
    let exponent = bits.wrapping_sub(ROOT) >> 23;
    let mantissa = f32::from_bits(bits.wrapping_sub(exponent << 23).cast_unsigned());
    let k = exponent as f32 - if tiny { 23.0 } else { 0.0 };
    let f = mantissa - 1.0;
    let (s, half) = (f / (2.0 + f), 0.5 * f * f);
    let t = s * s;
    let low = s * (half + t * polynomial(t, NARROW)) + k * LN_2_LOW;
    let y = k * LN_2_HIGH - ((half - low) - f);
    let y = if x < f32::INFINITY { y } else { x };
    let y = if x == 0.0 { f32::NEG_INFINITY } else { y };
    if x < 0.0 { f32::NAN } else { y }
}

/// `ln(1 + z)` for `z` from 0 to 1.
#[inline(always)]
pub(super) fn log_1p_up_to_one(z: f32) -> f32 {
    let s = z / (2.0 + z);
    let t = s * s;
    2.0 * s + s * t * polynomial(t, WIDE)
}
