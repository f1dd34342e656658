//! Conversion between element types.

use super::minifloat::format;
use super::minifloat::powers::{self, Rounding};
use crate::call::{KernelCall, one, widened};
use crate::cells::{CellWidth, Packed, celled};
use crate::fault::{Fault, Outcome};
use crate::num::{numeric, slice};
use crate::parallel::fill_parts;
use bytes::Bytes;
use onnxd_diagnostics::refuse;
use onnxd_ir::{DataType, Tensor, convert, is_convertible};

/// An element type named by number in an attribute.
pub(crate) fn dtype_attr(call: &KernelCall, name: &str) -> Outcome<Option<DataType>> {
    let Some(number) = call.int_opt(name)? else { return Ok(None) };
    let dtype = i32::try_from(number).ok().and_then(DataType::from_number);
    dtype.map(Some).ok_or_else(|| Fault::invalid(format!("{number} is no element type")))
}

pub(super) fn cast_op(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let to = dtype_attr(call, "to")?.ok_or_else(|| Fault::invalid("attribute `to` is missing"))?;
    let x = call.x(0)?;
    call.room(to, x.dims())?;
    let (saturate, rounding) = (call.flag("saturate", true)?, rounding(call)?);
    one(call.moved(|| x.cast(to), || converted(x, to, saturate, rounding))?)
}

pub(super) fn cast_like(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let (x, to) = (call.x(0)?, call.x(1)?.dtype());
    call.room(to, x.dims())?;
    one(converted(x, to, call.flag("saturate", true)?, rounding(call)?)?)
}

/// How numbers become powers of two.
fn rounding(call: &KernelCall) -> Outcome<Rounding> {
    match call.string("round_mode", "up")? {
        "up" => Ok(Rounding::Up),
        "down" => Ok(Rounding::Down),
        "nearest" => Ok(Rounding::Nearest),
        other => {
            let other = onnxd_diagnostics::shown(other);
            Err(Fault::invalid(format!("`round_mode` = \"{other}\"")))
        }
    }
}

/// `x` as elements of type `to`: floats to integers truncate and saturate, integers to integers
/// keep the low bits.
pub(crate) fn cast(x: &Tensor, to: DataType) -> Outcome<Tensor> {
    converted(x, to, true, Rounding::Up)
}

fn converted(x: &Tensor, to: DataType, saturate: bool, rounding: Rounding) -> Outcome<Tensor> {
    use DataType as D;
    if x.dtype() == to {
        return Ok(x.clone());
    }
    if let Some(strings) = x.as_strings() {
        return parsed(x.dims(), strings, to);
    }
    let x = &plain(x)?;
    match to {
        D::String => written(x),
        D::Int4 | D::Uint4 | D::Int2 | D::Uint2 => packed(x, to),
        D::Float8E8M0 => numeric!(x.dtype(), T => {
            let power = |v: &T| powers::encode(*v as f64, saturate, rounding);
            stored(to, x.dims(), slice::<T>(x)?.iter().map(power).collect())
        }),
        _ if format(to).is_some() => numeric!(x.dtype(), T => {
            let format = format(to).ok_or_else(|| Fault::dtype(to))?;
            let bits = slice::<T>(x)?.iter().map(|v| format.encode(*v as f64, saturate)).collect();
            stored(to, x.dims(), bits)
        }),
        _ => Ok(between_reals(x, to)?),
    }
}

/// Between types that Rust computes with.
fn between_reals(x: &Tensor, to: DataType) -> Outcome<Tensor> {
    refuse!(!is_convertible(x.dtype()) || !is_convertible(to) => Fault::dtype(to));
    let (from, bytes) = (x.dtype(), x.as_pods::<u8>());
    let (read, write) = (from.bits() / 8, to.bits() / 8);
    let mut out = vec![0u8; x.len() * write];
    fill_parts(&mut out, write, 1, &|first, part| {
        convert(from, &bytes[first / write * read..][..part.len() / write * read], to, part);
    });
    Ok(Tensor::new(to, x.dims().to_vec(), out.into())?)
}

/// Bits of a narrow type.
fn stored(dtype: DataType, dims: &[usize], bits: Vec<u8>) -> Outcome<Tensor> {
    match dtype.bits() {
        8 => <u8 as CellWidth>::store(dtype, dims.to_vec(), bits),
        _ => <Packed as CellWidth>::store(
            dtype,
            dims.to_vec(),
            bits.into_iter().map(Packed).collect(),
        ),
    }
}

/// The same numbers in a type that Rust computes with.
fn plain(x: &Tensor) -> Outcome<Tensor> {
    use DataType as D;
    match x.dtype() {
        D::Bool => {
            let bits = slice::<u8>(x)?.iter().map(|v| u8::from(*v != 0)).collect();
            Ok(Tensor::from_vec::<u8>(x.dims(), bits))
        }
        D::Int4 | D::Uint4 | D::Int2 | D::Uint2 => {
            Ok(Tensor::from_vec(x.dims(), crate::call::integers(x)?))
        }
        D::Float8E8M0 => {
            let bits = <u8 as CellWidth>::load(x);
            let values = bits.iter().map(|b| powers::decode(*b) as f32).collect();
            Ok(Tensor::from_vec(x.dims(), values))
        }
        dtype => match format(dtype) {
            Some(format) => {
                let bits: Vec<u8> = match dtype.bits() {
                    8 => <u8 as CellWidth>::load(x).into_owned(),
                    _ => <Packed as CellWidth>::load(x).iter().map(|p| p.0).collect(),
                };
                let values = bits.into_iter().map(|b| format.decode(b) as f32).collect();
                Ok(Tensor::from_vec(x.dims(), values))
            }
            None => widened(x),
        },
    }
}

/// Integers of less than a byte: floats truncate and saturate, integers keep the low bits.
fn packed(x: &Tensor, to: DataType) -> Outcome<Tensor> {
    let bits = to.bits() as u32;
    let signed = matches!(to, DataType::Int4 | DataType::Int2);
    let (low, high) = match signed {
        true => (-(1i64 << (bits - 1)), (1i64 << (bits - 1)) - 1),
        false => (0, (1i64 << bits) - 1),
    };
    let is_float = x.dtype().is_float();
    numeric!(x.dtype(), T => {
        let narrow = |v: T| if is_float { (v as i64).clamp(low, high) } else { v as i64 };
        stored(to, x.dims(), slice::<T>(x)?.iter().map(|v| narrow(*v) as u8).collect())
    })
}

/// Numbers from their decimal notation.
fn parsed(dims: &[usize], strings: &[Bytes], to: DataType) -> Outcome<Tensor> {
    let number = |s: &Bytes| {
        let text = std::str::from_utf8(s).unwrap_or("").trim();
        let wrong = || Fault::invalid(format!("`{}` is no number", onnxd_diagnostics::shown(text)));
        text.parse::<f64>().map_err(|_| wrong())
    };
    let whole: Option<Vec<i64>> =
        strings.iter().map(|s| std::str::from_utf8(s).ok()?.trim().parse().ok()).collect();
    if let (Some(values), true) = (whole, to.is_integer()) {
        return cast(&Tensor::from_vec(dims, values), to);
    }
    let values = strings.iter().map(number).collect::<Outcome<Vec<f64>>>()?;
    cast(&Tensor::from_vec(dims, values), to)
}

/// Numbers in their shortest decimal notation that reads back the same.
fn written(x: &Tensor) -> Outcome<Tensor> {
    numeric!(x.dtype(), T => {
        let words = slice::<T>(x)?.iter().map(|v| Bytes::from(v.to_string())).collect();
        Ok(Tensor::strings(x.dims().to_vec(), words)?)
    })
}

/// The same bits under another type of the same width.
pub(super) fn bit_cast(call: &KernelCall) -> Outcome<Vec<Tensor>> {
    let to = dtype_attr(call, "to")?.ok_or_else(|| Fault::invalid("attribute `to` is missing"))?;
    let x = call.x(0)?;
    refuse!(x.dtype().bits() != to.bits() || to == DataType::String => "{x:?} and {to} differ in width");
    celled!(x.dtype(), T => {
        one(<T as CellWidth>::store(to, x.dims().to_vec(), <T as CellWidth>::load(x).into_owned())?)
    })
}
