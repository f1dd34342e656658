//! Elements as another type, by the rules of ONNX's `Cast`: floats to integers truncate and saturate, integers to
//! integers keep the low bits, floats round to the nearest.

use crate::{DataType, Element, nearest_bf16, nearest_f16};
use half::slice::HalfFloatSliceExt;
use half::{bf16, f16};

/// Elements that are converted at a time, in the widest type of their kind, so that there are few instances.
const LANES: usize = 1024;

/// Numbers in the widest type of their kind.
enum Wide {
    Real([f64; LANES]),
    Signed([i64; LANES]),
    Unsigned([u64; LANES]),
}

/// Whether elements of this type can be converted: the real types that Rust computes with, and `bool`.
pub fn is_convertible(dtype: DataType) -> bool {
    dtype.is_float() || dtype.is_integer() || dtype == DataType::Bool
}

/// Converts the elements of `source` to type `to`, into `out`, which has room for as many.
///
/// # Panics
/// If one of the types is not convertible.
pub fn convert(from: DataType, source: &[u8], to: DataType, out: &mut [u8]) {
    let (read, write) = (from.bits() / 8, to.bits() / 8);
    // Weights of checkpoints.
    match (from, to) {
        (DataType::Bfloat16, DataType::Float) => return from_bf16(source, out),
        (DataType::Float16, DataType::Float) => return from_f16(source, out),
        _ => {}
    }
    for (source, out) in source.chunks(LANES * read).zip(out.chunks_mut(LANES * write)) {
        narrow(&widen(from, source), to, out);
    }
}

/// The bits of bfloat16 are the high ones of float.
fn from_bf16(source: &[u8], out: &mut [u8]) {
    for (half, out) in source.as_chunks::<2>().0.iter().zip(out.as_chunks_mut::<4>().0) {
        *out = (u32::from(u16::from_le_bytes(*half)) << 16).to_le_bytes();
    }
}

/// By an instruction of the processor for several at a time, where it has one.
fn from_f16(source: &[u8], out: &mut [u8]) {
    let (mut halves, mut floats) = ([f16::ZERO; LANES], [0f32; LANES]);
    for (source, out) in source.chunks(2 * LANES).zip(out.chunks_mut(4 * LANES)) {
        let count = source.len() / 2;
        bytemuck::cast_slice_mut(&mut halves[..count]).copy_from_slice(&source[..2 * count]);
        halves[..count].convert_to_f32_slice(&mut floats[..count]);
        out[..4 * count].copy_from_slice(bytemuck::cast_slice(&floats[..count]));
    }
}

fn widen(from: DataType, source: &[u8]) -> Wide {
    match from {
        DataType::Float => Wide::Real(each(source, |v: f32| v.into())),
        DataType::Double => Wide::Real(each(source, |v: f64| v)),
        DataType::Float16 => Wide::Real(each(source, f16::to_f64)),
        DataType::Bfloat16 => Wide::Real(each(source, bf16::to_f64)),
        DataType::Bool => Wide::Signed(each(source, |v: u8| i64::from(v != 0))),
        DataType::Int8 => Wide::Signed(each(source, |v: i8| v.into())),
        DataType::Int16 => Wide::Signed(each(source, |v: i16| v.into())),
        DataType::Int32 => Wide::Signed(each(source, |v: i32| v.into())),
        DataType::Int64 => Wide::Signed(each(source, |v: i64| v)),
        DataType::Uint8 => Wide::Signed(each(source, |v: u8| v.into())),
        DataType::Uint16 => Wide::Signed(each(source, |v: u16| v.into())),
        DataType::Uint32 => Wide::Signed(each(source, |v: u32| v.into())),
        DataType::Uint64 => Wide::Unsigned(each(source, |v: u64| v)),
        other => unreachable!("{other} was not taken for convertible"),
    }
}

fn each<T: Element, W: Copy + Default>(source: &[u8], f: impl Fn(T) -> W) -> [W; LANES] {
    let mut wide = [W::default(); LANES];
    for (wide, bytes) in wide.iter_mut().zip(source.chunks_exact(size_of::<T>())) {
        *wide = f(bytemuck::pod_read_unaligned(bytes));
    }
    wide
}

fn put<W: Copy, T: Element>(wide: &[W; LANES], out: &mut [u8], f: impl Fn(W) -> T) {
    for (wide, bytes) in wide.iter().zip(out.chunks_exact_mut(size_of::<T>())) {
        bytes.copy_from_slice(bytemuck::bytes_of(&f(*wide)));
    }
}

macro_rules! narrow {
    ($values:ident, $zero:literal, $to:ident, $out:ident; $($name:ident => $rust:ty),*) => {
        match $to {
            $(DataType::$name => put($values, $out, |v| v as $rust),)*
            DataType::Float16 => put($values, $out, |v| nearest_f16(v as f64)),
            DataType::Bfloat16 => put($values, $out, |v| nearest_bf16(v as f64)),
            DataType::Bool => put($values, $out, |v| u8::from(v != $zero)),
            other => unreachable!("{other} was not taken for convertible"),
        }
    };
}

macro_rules! narrow_all {
    ($values:ident, $zero:literal, $to:ident, $out:ident) => {
        narrow!($values, $zero, $to, $out; Float => f32, Double => f64, Int8 => i8, Int16 => i16, Int32 => i32,
            Int64 => i64, Uint8 => u8, Uint16 => u16, Uint32 => u32, Uint64 => u64)
    };
}

fn narrow(wide: &Wide, to: DataType, out: &mut [u8]) {
    match wide {
        Wide::Real(values) => narrow_all!(values, 0.0, to, out),
        Wide::Signed(values) => narrow_all!(values, 0, to, out),
        Wide::Unsigned(values) => narrow_all!(values, 0, to, out),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All bit patterns of the types that have a way of their own give what the others' way gives.
    #[test]
    fn halves_are_the_floats_that_they_were() {
        let halves: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        for from in [DataType::Float16, DataType::Bfloat16] {
            let mut found = vec![0; 2 * halves.len() + 1];
            convert(from, &halves, DataType::Float, &mut found[1..]);
            for (bytes, found) in halves.chunks(2 * LANES).zip(found[1..].chunks(4 * LANES)) {
                let mut wanted = vec![0; found.len()];
                narrow(&widen(from, bytes), DataType::Float, &mut wanted);
                for (found, wanted) in
                    found.as_chunks::<4>().0.iter().zip(wanted.as_chunks::<4>().0)
                {
                    let [found, wanted] = [found, wanted].map(|b| f32::from_le_bytes(*b));
                    assert!(
                        found == wanted || found.is_nan() && wanted.is_nan(),
                        "{found} {wanted}"
                    );
                }
            }
        }
    }
}
