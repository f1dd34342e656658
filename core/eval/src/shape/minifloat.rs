//! Floats of 8 and 4 bits: how their bits stand for numbers, and rounding to them.

use onnxd_ir::DataType;

/// A format of few bits with a sign.
#[derive(Clone, Copy)]
pub(crate) struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    bias: i32,
    /// The largest finite magnitude.
    max: f64,
    /// Bits of positive infinity, if there is one.
    infinity: Option<u8>,
    /// Bits of NaN, if there is one.
    nan: Option<u8>,
    /// Whether zero has no negative, its bits being NaN.
    unsigned_zero: bool,
}

/// The format of a type.
pub(crate) fn format(dtype: DataType) -> Option<Format> {
    let row = |exponent_bits, mantissa_bits, bias, max| Format {
        exponent_bits,
        mantissa_bits,
        bias,
        max,
        infinity: None,
        nan: Some(0x80),
        unsigned_zero: true,
    };
    Some(match dtype {
        DataType::Float8E4M3FN => {
            Format { nan: Some(0x7f), unsigned_zero: false, ..row(4, 3, 7, 448.0) }
        }
        DataType::Float8E4M3FNUZ => row(4, 3, 8, 240.0),
        DataType::Float8E5M2 => Format {
            infinity: Some(0x7c),
            nan: Some(0x7f),
            unsigned_zero: false,
            ..row(5, 2, 15, 57344.0)
        },
        DataType::Float8E5M2FNUZ => row(5, 2, 16, 57344.0),
        DataType::Float4E2M1 => Format { nan: None, unsigned_zero: false, ..row(2, 1, 1, 6.0) },
        _ => return None,
    })
}

impl Format {
    fn sign_bit(self) -> u8 {
        1 << (self.exponent_bits + self.mantissa_bits)
    }

    /// The number that `bits` stand for.
    pub(crate) fn decode(self, bits: u8) -> f64 {
        let magnitude = bits & (self.sign_bit() - 1);
        let sign = if bits & self.sign_bit() != 0 { -1.0 } else { 1.0 };
        if self.unsigned_zero && bits == self.sign_bit() {
            return f64::NAN;
        }
        match self.infinity {
            Some(infinity) if magnitude == infinity => return sign * f64::INFINITY,
            Some(infinity) if magnitude > infinity => return f64::NAN,
            None if !self.unsigned_zero && self.nan == Some(magnitude) => return f64::NAN,
            _ => {}
        }
        let exponent = i32::from(magnitude >> self.mantissa_bits);
        let fraction = f64::from(magnitude & ((1 << self.mantissa_bits) - 1))
            / f64::from(1 << self.mantissa_bits);
        let value = match exponent {
            0 => fraction * 2f64.powi(1 - self.bias),
            e => (1.0 + fraction) * 2f64.powi(e - self.bias),
        };
        sign * value
    }

    /// The nearest number, ties to even. Beyond the largest: that one if `saturate`, else infinity
    /// or NaN.
    pub(crate) fn encode(self, x: f64, saturate: bool) -> u8 {
        let sign = if x.is_sign_negative() { self.sign_bit() } else { 0 };
        let max_bits = self.magnitude(self.max);
        let beyond = match (self.infinity, self.nan) {
            (Some(infinity), _) => sign | infinity,
            (None, Some(nan)) if self.unsigned_zero => nan,
            (None, Some(nan)) => sign | nan,
            (None, None) => sign | max_bits,
        };
        if x.is_nan() {
            return match self.nan {
                Some(nan) if self.unsigned_zero => nan,
                Some(nan) => sign | nan,
                None => max_bits,
            };
        }
        if x.is_infinite() {
            return if saturate { sign | max_bits } else { beyond };
        }
        let a = x.abs();
        // One step of the grid the value lies on; subnormals share the grid of the smallest normal
        // numbers.
        let exponent = if a == 0.0 { 0 } else { a.log2().floor() as i32 }.max(1 - self.bias);
        let step = 2f64.powi(exponent - self.mantissa_bits as i32);
        let rounded = (a / step).round_ties_even() * step;
        if rounded > self.max {
            return if saturate { sign | max_bits } else { beyond };
        }
        let magnitude = self.magnitude(rounded);
        if magnitude == 0 && self.unsigned_zero { 0 } else { sign | magnitude }
    }

    /// Bits of a magnitude that the format has.
    fn magnitude(self, a: f64) -> u8 {
        let smallest = 2f64.powi(1 - self.bias);
        let steps = 1 << self.mantissa_bits;
        if a < smallest {
            return (a / smallest * f64::from(steps)) as u8;
        }
        let mut exponent = 1 - self.bias;
        while 2f64.powi(exponent + 1) <= a {
            exponent += 1;
        }
        let fraction = (a / 2f64.powi(exponent) - 1.0) * f64::from(steps);
        (((exponent + self.bias) as u8) << self.mantissa_bits) + fraction as u8
    }
}

/// `Float8E8M0`: powers of two from 2^-127 on, no sign and no zero.
pub(super) mod powers {
    const BIAS: i32 = 127;
    const NAN: u8 = 0xff;
    const MAX: u8 = 0xfe;

    /// Where a number between two powers goes.
    #[derive(Clone, Copy, Debug)]
    pub(crate) enum Rounding {
        Up,
        Down,
        /// Ties go up.
        Nearest,
    }

    pub(crate) fn decode(bits: u8) -> f64 {
        if bits == NAN { f64::NAN } else { 2f64.powi(i32::from(bits) - BIAS) }
    }

    /// The power of the magnitude. Beyond the smallest and the largest: those if `saturate`, else NaN.
    pub(crate) fn encode(x: f64, saturate: bool, rounding: Rounding) -> u8 {
        let a = x.abs();
        let beyond = |nearest: u8| if saturate { nearest } else { NAN };
        if a.is_nan() {
            return NAN;
        }
        if a < decode(0) || a > decode(MAX) {
            return beyond(if a < 1.0 { 0 } else { MAX });
        }
        // Doubles of this range are normal: the exponent is in their bits.
        let exponent = (a.to_bits() >> 52) as i32 - 1023;
        let fraction = a / 2f64.powi(exponent);
        let up = match rounding {
            Rounding::Up => fraction > 1.0,
            Rounding::Down => false,
            Rounding::Nearest => fraction >= 1.5,
        };
        (exponent + BIAS + i32::from(up)) as u8
    }
}

#[cfg(test)]
mod tests {
    use super::powers::Rounding::{Down, Nearest, Up};
    use super::*;

    #[test]
    fn powers_of_two() {
        for bits in 0..=0xfe {
            let x = powers::decode(bits);
            for rounding in [Up, Down, Nearest] {
                assert_eq!(powers::encode(x, false, rounding), bits, "{bits} {rounding:?}");
            }
        }
        assert!(powers::decode(0xff).is_nan());
        assert_eq!([0x7f, 0x80, 0x7e, 0].map(powers::decode), [1.0, 2.0, 0.5, 2f64.powi(-127)]);
        let of = |x: f64| [Up, Down, Nearest].map(|rounding| powers::encode(x, true, rounding));
        assert_eq!(of(1.25), [0x80, 0x7f, 0x7f]);
        assert_eq!(of(3.0), [0x81, 0x80, 0x81]);
        for (x, nearest) in [(0.0, 0), (1e-45, 0), (f64::MAX, 0xfe), (f64::INFINITY, 0xfe)] {
            assert_eq!(powers::encode(x, true, Up), nearest, "{x}");
            assert_eq!(powers::encode(x, false, Nearest), 0xff, "{x}");
        }
        assert_eq!(powers::encode(f64::NAN, true, Up), 0xff);
    }

    #[test]
    fn every_number_survives() {
        for dtype in DataType::ALL {
            let Some(format) = format(*dtype) else { continue };
            for bits in 0..(1u16 << dtype.bits()) {
                let x = format.decode(bits as u8);
                if !x.is_nan() {
                    let again = format.encode(x, false);
                    assert_eq!(format.decode(again), x, "{dtype} {bits:#x}");
                }
            }
        }
    }

    #[test]
    fn rounding_and_saturation() {
        let e4m3 = format(DataType::Float8E4M3FN).unwrap();
        assert_eq!(e4m3.decode(0x7e), 448.0);
        assert_eq!(e4m3.encode(1e6, true), 0x7e);
        assert_eq!(e4m3.encode(1e6, false), 0x7f);
        assert_eq!(e4m3.encode(-0.0, true), 0x80);
        assert_eq!(e4m3.decode(e4m3.encode(17.0, true)), 16.0);
        let e5m2 = format(DataType::Float8E5M2).unwrap();
        assert_eq!(e5m2.encode(1e9, false), 0x7c);
        let fnuz = format(DataType::Float8E4M3FNUZ).unwrap();
        assert_eq!((fnuz.encode(-0.0, true), fnuz.encode(f64::NAN, true)), (0, 0x80));
        let fp4 = format(DataType::Float4E2M1).unwrap();
        assert_eq!([0, 1, 7, 15].map(|b| fp4.decode(b)), [0.0, 0.5, 6.0, -6.0]);
    }
}
