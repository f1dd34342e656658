//! Conversions between element types, floats of 8 and 4 bits by looking for the nearest of all
//! their values.

use crate::case::{Case, case};
use crate::dice::Dice;
use crate::nd::{codes, from_codes, from_reals, reals};
use onnxd_ir::{DataType, Tensor};

properties! {
    cast: "Cast", "CastLike";
    bit_cast: "BitCast";
}

use DataType::*;

const MINI: [DataType; 5] = [Float8E4M3FN, Float8E4M3FNUZ, Float8E5M2, Float8E5M2FNUZ, Float4E2M1];
const PLAIN: [DataType; 13] = [
    Float, Int64, Bool, Float16, Double, Bfloat16, Int32, Int16, Int8, Uint8, Uint16, Uint32,
    Uint64,
];
const PACKED: [DataType; 4] = [Int4, Uint4, Int2, Uint2];

/// The number that the bits of a small float stand for.
pub fn mini(dtype: DataType, code: u8) -> f64 {
    let (mantissa, bias) = match dtype {
        Float8E4M3FN => (3, 7),
        Float8E4M3FNUZ => (3, 8),
        Float8E5M2 => (2, 15),
        Float8E5M2FNUZ => (2, 16),
        _ => (1, 1),
    };
    let width = dtype.bits() as u32;
    let sign = if code >> (width - 1) == 1 { -1.0 } else { 1.0 };
    let rest = code & ((1 << (width - 1)) - 1);
    match (dtype, code, rest) {
        (Float8E4M3FNUZ | Float8E5M2FNUZ, 0x80, _) | (Float8E4M3FN, _, 0x7f) => return f64::NAN,
        (Float8E5M2, _, 0x7c) => return sign * f64::INFINITY,
        (Float8E5M2, _, 0x7d..) => return f64::NAN,
        _ => {}
    }
    let (exponent, fraction) = (i32::from(rest >> mantissa), rest & ((1 << mantissa) - 1));
    let fraction = f64::from(fraction) / f64::from(1 << mantissa);
    sign * match exponent {
        0 => fraction * 2f64.powi(1 - bias),
        e => (1.0 + fraction) * 2f64.powi(e - bias),
    }
}

/// The bits of the nearest value, of two as near the even ones.
pub fn to_mini(dtype: DataType, x: f64, saturate: bool) -> u8 {
    let all: Vec<(u8, f64)> = (0..1u16 << dtype.bits())
        .map(|c| (c as u8, mini(dtype, c as u8)))
        .filter(|(c, v)| v.is_finite() && (*v != 0.0 || *c == 0))
        .collect();
    let sign = 1u8 << (dtype.bits() - 1);
    let unsigned_zero = matches!(dtype, Float8E4M3FNUZ | Float8E5M2FNUZ);
    let minus = if x.is_sign_negative() && !unsigned_zero { sign } else { 0 };
    let nan = match dtype {
        Float8E4M3FN | Float8E5M2 => minus | 0x7f,
        _ => 0x80,
    };
    let max = all.iter().map(|e| e.1).fold(0.0, f64::max);
    if x.is_nan() {
        return nan;
    }
    if x.abs() > max && !saturate && dtype != Float4E2M1 {
        return if dtype == Float8E5M2 { minus | 0x7c } else { nan };
    }
    let x = x.clamp(-max, max);
    let far = |e: &(u8, f64)| (e.1 - x).abs();
    let least = all.iter().map(far).fold(f64::INFINITY, f64::min);
    let nearest: Vec<&(u8, f64)> = all.iter().filter(|e| far(e) == least).collect();
    let even = nearest.iter().find(|e| e.0 % 2 == 0).unwrap_or(&nearest[0]).0;
    if even == 0 { minus } else { even }
}

/// The elements as numbers.
fn numbers(x: &Tensor) -> Vec<f64> {
    match x.dtype() {
        t if MINI.contains(&t) => codes(x).v.iter().map(|c| mini(t, *c as u8)).collect(),
        _ => reals(x).v,
    }
}

/// Values of a type that fit another: outside of its range nothing is defined for floats.
fn source(d: &mut Dice, from: DataType, to: DataType, dims: &[usize]) -> Tensor {
    if MINI.contains(&from) {
        return d.bits(from, dims);
    }
    let floats = to.is_float() || MINI.contains(&to) || to == Bool;
    if from.is_float() && floats {
        return crate::math::wild(d, from, dims);
    }
    let (low, high) = match (from, to) {
        (Bool, _) => (0.0, 1.0),
        (Int2, _) | (_, Int2) => (-2.0, 1.0),
        (Uint2, _) | (_, Uint2) => (0.0, 3.0),
        (Int4, _) | (_, Int4) => (-8.0, 7.0),
        (Uint4, _) | (_, Uint4) => (0.0, 15.0),
        (f, _) if f.is_integer() => return d.tensor(from, dims),
        (_, t) if crate::dice::is_unsigned(t) => (0.0, 100.0),
        _ => (-100.0, 100.0),
    };
    let low = if crate::dice::is_unsigned(from) || crate::dice::is_unsigned(to) {
        0f64.max(low)
    } else {
        low
    };
    d.within(from, dims, low, high)
}

fn cast(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let opset = d.pick(&[25, 9, 13, 19, 21, 23]);
    let mut types = PLAIN.to_vec();
    if opset >= 19 {
        types.extend(&MINI[..4]);
    }
    if opset >= 21 {
        types.extend(&PACKED[..2]);
    }
    if opset >= 23 {
        types.push(Float4E2M1);
    }
    if opset >= 25 {
        types.extend(&PACKED[2..]);
    }
    let (from, to) = (d.pick(&types), d.pick(&types));
    let saturate = opset < 19 || d.coin();
    let x = source(d, from, to, &dims);
    let values = numbers(&x);
    // Small floats to integers may be out of range, and so may NaN be.
    let whole = !to.is_float() && !MINI.contains(&to) && to != Bool;
    let bits = to.bits() as i32;
    let most = 2f64.powi(if crate::dice::is_unsigned(to) || matches!(to, Uint4 | Uint2) {
        bits
    } else {
        bits - 1
    });
    let fits = |v: &f64| {
        v.trunc() < most && v.trunc() >= if most == 2f64.powi(bits) { 0.0 } else { -most }
    };
    if whole && !from.is_integer() && !values.iter().all(fits) {
        return None;
    }
    if to == Float4E2M1 && values.iter().any(|v| v.is_nan()) {
        return None;
    }
    let y = match to {
        Bool => {
            let bits: Vec<u128> = values.iter().map(|v| u128::from(*v != 0.0)).collect();
            from_codes(to, &dims, &bits)
        }
        t if MINI.contains(&t) => {
            let bits: Vec<u128> =
                values.iter().map(|v| u128::from(to_mini(to, *v, saturate))).collect();
            from_codes(to, &dims, &bits)
        }
        _ => from_reals(to, &dims, values.clone()),
    };
    let case = match op {
        "Cast" => case(op, opset).attr("to", i64::from(to.number())).input(&x),
        _ => {
            let like = d.bits(to, &[1]);
            case(op, opset.max(15)).input(&x).input(&like)
        }
    };
    let case = case.attr_if(!saturate, "saturate", false);
    // NaN has many bits.
    if to.is_float() && values.iter().any(|v| v.is_nan()) {
        return Some(case.rounded(to, crate::nd::Nd { dims, v: values }));
    }
    Some(case.same(y))
}

fn bit_cast(op: &str, d: &mut Dice) -> Option<Case> {
    let dims = d.shape(4, 4);
    let widths: [&[DataType]; 5] = [
        &[Int8, Uint8, Float8E5M2],
        &[Int16, Uint16, Float16, Bfloat16],
        &[Int32, Uint32, Float],
        &[Int64, Uint64, Double],
        &[Int4, Uint4],
    ];
    let types = d.pick(&widths);
    let (from, to) = (d.pick(types), d.pick(types));
    let x = d.bits(from, &dims);
    let y = from_codes(to, &dims, &codes(&x).v);
    Some(case(op, 26).attr("to", i64::from(to.number())).input(&x).same(y))
}
