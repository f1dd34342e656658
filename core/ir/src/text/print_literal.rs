//! Tensors and numbers in text.

use super::PrintOptions;
use super::names::{Id, Quoted};
use crate::{DataType, Element, Tensor};
use half::{bf16, f16};
use std::fmt::{self, Display, Write};

/// Elements that an abbreviated constant shows.
const SHOWN: usize = 3;

/// A floating-point number with point or exponent; `digits` is the shortest form that reads back to
/// the same bits.
pub(super) fn write_float(out: &mut String, x: f64, digits: fmt::Arguments<'_>) -> fmt::Result {
    if x.is_nan() {
        out.write_str(if x.is_sign_negative() { "-nan" } else { "nan" })
    } else {
        out.write_fmt(digits)
    }
}

/// `float[2] w = {1.0, 2.0}`, or `float[2] {1.0, 2.0}` without a name.
pub(super) fn write_tensor(
    out: &mut String,
    tensor: &Tensor,
    name: Option<Id<'_>>,
    options: &PrintOptions,
) -> fmt::Result {
    out.write_str(tensor.dtype().word())?;
    if tensor.rank() > 0 {
        let dims: Vec<String> = tensor.dims().iter().map(usize::to_string).collect();
        write!(out, "[{}]", dims.join(","))?;
    }
    match name {
        Some(name) => write!(out, " {name} = {{")?,
        None => out.write_str(" {")?,
    }
    let limit = options.elements_max.filter(|max| tensor.len() > *max).map(|_| SHOWN);
    write_elements(out, tensor, limit)?;
    if let Some(digest) = options.digest.filter(|_| limit.is_some()) {
        write!(out, " {}", digest(tensor))?;
    }
    out.write_str("}")
}

fn write_elements(out: &mut String, tensor: &Tensor, limit: Option<usize>) -> fmt::Result {
    use DataType::*;
    match tensor.dtype() {
        String => {
            let strings = tensor.as_strings().unwrap_or_default().iter();
            join(out, strings, limit, |out, s| {
                write!(out, "{}", Quoted(&std::string::String::from_utf8_lossy(s)))
            })
        }
        Float => join(out, slice::<f32>(tensor), limit, |out, x| {
            write_float(out, f64::from(x), format_args!("{x:?}"))
        }),
        Double => join(out, slice::<f64>(tensor), limit, |out, x| {
            write_float(out, x, format_args!("{x:?}"))
        }),
        Complex64 => join(out, pairs::<f32, 4>(tensor, f32::from_le_bytes), limit, |out, x| {
            write_float(out, f64::from(x), format_args!("{x:?}"))
        }),
        Complex128 => join(out, pairs::<f64, 8>(tensor, f64::from_le_bytes), limit, |out, x| {
            write_float(out, x, format_args!("{x:?}"))
        }),
        Float16 => join(out, slice::<f16>(tensor), limit, |out, x| display(out, x.to_bits())),
        Bfloat16 => join(out, slice::<bf16>(tensor), limit, |out, x| display(out, x.to_bits())),
        Int64 => join(out, slice::<i64>(tensor), limit, display),
        Int32 => join(out, slice::<i32>(tensor), limit, display),
        Int16 => join(out, slice::<i16>(tensor), limit, display),
        Int8 => join(out, slice::<i8>(tensor), limit, display),
        Uint64 => join(out, slice::<u64>(tensor), limit, display),
        Uint32 => join(out, slice::<u32>(tensor), limit, display),
        Uint16 => join(out, slice::<u16>(tensor), limit, display),
        _ => join(out, tensor.bytes().iter().copied(), limit, display),
    }
}

fn display(out: &mut String, x: impl Display) -> fmt::Result {
    write!(out, "{x}")
}

fn slice<T: Element>(tensor: &Tensor) -> impl Iterator<Item = T> {
    let elements = tensor.as_slice::<T>().expect("the element type was looked at");
    (0..elements.len()).map(move |i| elements[i])
}

/// The components of complex numbers.
fn pairs<T, const N: usize>(tensor: &Tensor, read: fn([u8; N]) -> T) -> impl Iterator<Item = T> {
    let bytes = tensor.bytes();
    let count = bytes.len() / N;
    let chunk = move |i: usize| bytes[i * N..][..N].try_into().expect("chunks have this length");
    (0..count).map(move |i| read(chunk(i)))
}

fn join<T>(
    out: &mut String,
    items: impl Iterator<Item = T>,
    limit: Option<usize>,
    mut write_item: impl FnMut(&mut String, T) -> fmt::Result,
) -> fmt::Result {
    for (i, x) in items.enumerate() {
        if i > 0 {
            out.write_str(", ")?;
        }
        if limit.is_some_and(|n| i >= n) {
            return out.write_str("...");
        }
        write_item(out, x)?;
    }
    Ok(())
}
